"""Options of the whole suite."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator

import pytest

from icf import log
from tests.support.reports import passable

_ROOM_BYTES = 4 << 30  # the files of a run take a tenth of it


def room_in_memory(folder: str) -> str | None:
    """Return the folder if programs can be kept and run there."""
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        return None
    found = os.statvfs(folder)
    is_large = found.f_bavail * found.f_frsize >= _ROOM_BYTES
    return folder if is_large and not found.f_flag & os.ST_NOEXEC else None


# What `make test` and a builder's shell leave in the environment would change the builds of the tests
for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CC", "CXX", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"):
    os.environ.pop(variable, None)
# With it, each process that a test starts would translate all sources again, which takes longer than what it does
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell without job control starts what runs in the background with Ctrl-C ignored. Programs inherit that: those that
# tests interrupt would run on
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests write many small files again and again: where a file system in memory has room, that takes no disk
if "TMPDIR" not in os.environ and (memory := room_in_memory("/dev/shm")):
    os.environ["TMPDIR"] = tempfile.tempdir = memory

# symcaches of test programs are nobody's business afterwards
os.environ["ICF_CACHE_DIR"] = tempfile.mkdtemp(prefix="icf-tests-")
atexit.register(shutil.rmtree, os.environ["ICF_CACHE_DIR"], ignore_errors=True)
# no test asks a server but its own
for variable in ("DEBUGINFOD_URLS", "_NT_SYMBOL_PATH", "http_proxy", "HTTP_PROXY"):
    os.environ.pop(variable, None)
os.environ["DEBUGINFOD_CACHE_PATH"] = os.path.join(os.environ["ICF_CACHE_DIR"], "none")


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


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Have reports that a worker can send."""
    report = yield
    return passable(report)
