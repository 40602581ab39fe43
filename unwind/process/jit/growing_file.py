"""A file that another process appends to; each reading starts where the last one ended.

It may also be written anew, by its producer or by another process of the same number: then the bytes read earlier are
gone, and the whole file counts as new.
"""

from __future__ import annotations

import os

_KEPT_BYTES = 256  # of the end of the used part, to check that it is still there


class GrowingFile:
    """How far a file was read."""

    def __init__(self) -> None:
        self.offset = 0  # where reading goes on
        self._kept = b""  # the bytes before that
        self._seen: tuple[int, int] | None = None  # size and time of change

    def has_more(self, fd: int) -> bool:
        """Return whether the open file has changed since the last call."""
        status = os.fstat(fd)
        seen = status.st_size, status.st_mtime_ns
        if seen == self._seen:
            return False
        self._seen = seen
        return True

    def was_replaced(self, fd: int) -> bool:
        """Return whether the used part of the file is no longer there: if so, `offset` is 0 again."""
        if os.pread(fd, len(self._kept), self.offset - len(self._kept)) == self._kept:
            return False
        self.offset, self._kept = 0, b""
        return True

    def go_on_from(self, fd: int, offset: int) -> None:
        """Record that everything before `offset` was used."""
        first = max(offset - _KEPT_BYTES, 0)
        self.offset, self._kept = offset, os.pread(fd, offset - first, first)
