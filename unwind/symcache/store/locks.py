"""The lock of an entry in the directory of symcaches: one process makes it, and the others wait for a limited time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from unwind.symcache.store.folder import Folder

_STEP_S = 0.02


@contextmanager
def locked(folder: Folder, name: str, wait_s: float) -> Iterator[None]:
    """Hold the lock of an entry, if it is free within that time.

    A process that holds it and ends, in any way, frees it.
    """
    path = folder.path_of(f".{name}.lock")
    fd = -1
    end_s = time.monotonic() + wait_s
    try:
        with suppress(OSError):
            folder.make()
            while (fd := _try_lock(path)) < 0 and time.monotonic() < end_s:
                time.sleep(_STEP_S)
        yield
    finally:
        if fd >= 0:
            with suppress(OSError):
                os.unlink(path)
            os.close(fd)


def _try_lock(path: str) -> int:
    """Return a descriptor that holds the lock, or -1. Raise OSError where there are no locks."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):  # else another process has just removed the file
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return -1
