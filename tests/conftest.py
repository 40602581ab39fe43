"""Options of the whole suite."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from icf import log

# What `make test` and a builder's shell leave in the environment would change the builds of the tests
for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CC", "CXX", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"):
    os.environ.pop(variable, None)
# With it, each process that a test starts would translate all sources again, which takes longer than what it does
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# symcaches of test programs are nobody's business afterwards
os.environ["ICF_CACHE_DIR"] = tempfile.mkdtemp(prefix="icf-tests-")
atexit.register(shutil.rmtree, os.environ["ICF_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(autouse=True)
def made_logger() -> Iterator[None]:
    """Have the logger `icf` made anew in the next test: a level that a test has set for itself would stay."""
    yield
    logger = logging.getLogger("icf")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    log._logger.cache_clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the golden tests got into their .out files; then read that diff",
    )
