"""A file that somebody else appends to, read on each time from where the last reading ended.

It may also be written anew, by its producer or by another process of the same number: then what was read is no longer
where it was, and all of it counts as new.
"""

from __future__ import annotations

import os

_KEPT_BYTES = 256  # of the end of what was used, to see whether it is still there


class GrowingFile:
    """How far a file was read."""

    def __init__(self) -> None:
        self.offset = 0  # where reading goes on
        self._kept = b""  # what lies before that
        self._seen: tuple[int, int] | None = None  # size and time of change

    def has_more(self, fd: int) -> bool:
        """Return whether the open file has changed since this was asked last."""
        status = os.fstat(fd)
        seen = status.st_size, status.st_mtime_ns
        if seen == self._seen:
            return False
        self._seen = seen
        return True

    def was_replaced(self, fd: int) -> bool:
        """Return whether what was used of the file is no longer there: if so, `offset` is 0 again."""
        if os.pread(fd, len(self._kept), self.offset - len(self._kept)) == self._kept:
            return False
        self.offset, self._kept = 0, b""
        return True

    def go_on_from(self, fd: int, offset: int) -> None:
        """Say that everything before `offset` was used."""
        first = max(offset - _KEPT_BYTES, 0)
        self.offset, self._kept = offset, os.pread(fd, offset - first, first)
