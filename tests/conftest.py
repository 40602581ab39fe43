"""Options of the whole suite."""

from __future__ import annotations

import os

import pytest

# What `make test` and a builder's shell leave in the environment would change the builds of the tests
for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CC", "CXX", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"):
    os.environ.pop(variable, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the golden tests got into their .out files; then read that diff",
    )
