"""Options of the whole suite."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import pytest

# What `make test` and a builder's shell leave in the environment would change the builds of the tests
for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CC", "CXX", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"):
    os.environ.pop(variable, None)

# symcaches of test programs are nobody's business afterwards
os.environ["ICF_CACHE_DIR"] = tempfile.mkdtemp(prefix="icf-tests-")
atexit.register(shutil.rmtree, os.environ["ICF_CACHE_DIR"], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the golden tests got into their .out files; then read that diff",
    )
