"""Progress on a terminal: one line, after the first second of work."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import BinaryIO

_FIRST_SECONDS, _BETWEEN_SECONDS = 1.0, 0.2


class Progress:
    """Counts stacks, and how far their input is read; nothing is drawn where the answers scroll by anyway."""

    def __init__(self, stream: BinaryIO) -> None:
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._stream = stream
        status = os.fstat(stream.fileno()) if self._shown else None
        self._size_bytes = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else 0
        self._next = time.monotonic() + _FIRST_SECONDS
        self._count = 0
        self._drawn = False

    def step(self, count: int) -> None:
        """Add `count` stacks."""
        self._count += count
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _BETWEEN_SECONDS
        at = self._stream.tell() if self._size_bytes else 0
        part = f"{100 * at // self._size_bytes:3d} %  " if at else ""  # 0 where the content is read as a whole
        sys.stderr.write(f"\r{part}{self._count:,} stacks")
        sys.stderr.flush()
        self._drawn = True

    def done(self) -> None:
        """Remove the line."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
