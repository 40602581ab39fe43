"""Fetch a file from a server to its place on this machine: it gets its name once it has been checked.

What a server does wrong is reported in one line. A server that failed is not asked again by the same process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from enum import Enum

from icf.log import warn
from icf.newfile import NewFile
from icf.remote.download import Limits, RemoteError, download

ABSENCE_S = 600.0  # how long it counts that no server had a file
_READ_ONLY = 0o400
_failed: set[str] = set()  # servers


class Outcome(Enum):
    """What came of asking a server."""

    FETCHED = "fetched"
    ABSENT = "absent"  # the server does not have the file
    FAILED = "failed"


def fetch(server: str, url: str, path: str, check: Callable[[str], str], limits: Limits) -> Outcome:
    """Fetch a file, if the server has it.

    Args:
        server: which one, so that it is not asked again once it has failed.
        url: of the file.
        path: where the file goes; its folder is made.
        check: returns why a file is not the one that was asked for, "" if it is.
        limits: of time and size.
    """
    if server in _failed:
        return Outcome.FAILED
    folder, name = os.path.split(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with NewFile(folder, f".{name[:200]}.") as out:
            with open(out.fd, "wb", closefd=False) as content:
                if not download(url, content.write, limits):
                    return Outcome.ABSENT
            if problem := check(out.path):
                raise RemoteError(f"{url}: {problem.removeprefix(f'{out.path}: ')}")
            os.fchmod(out.fd, _READ_ONLY)
            os.replace(out.name(), path)
        return Outcome.FETCHED
    except RemoteError as error:
        _failed.add(server)
        warn(f"{error}: not used")
    except OSError as error:
        warn(f"{folder}: {(error.strerror or str(error)).lower()}: nothing is fetched")
    return Outcome.FAILED


def remember_absence(path: str) -> None:
    """Leave an empty file where a file would be that no server has; a failure is not an error."""
    folder, name = os.path.split(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with NewFile(folder, f".{name[:200]}.") as out:
            os.replace(out.name(), path)
    except OSError:
        pass


def is_absent(path: str, within_s: float = ABSENCE_S) -> bool:
    """Return whether no server had a file when they were last asked, not long ago."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_size == 0 and abs(time.time() - status.st_mtime) < within_s
