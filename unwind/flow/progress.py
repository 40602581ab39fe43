"""Progress on a terminal: one line, after the first second of work; nothing of it stays, however the work ends."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import BinaryIO, Self

from icf.printable import draw

_FIRST_SECONDS, _BETWEEN_SECONDS = 1.0, 0.2


class Progress:
    """Counts stacks, and how far their input is read; nothing is drawn where the answers scroll by anyway.

    The line is removed where a `with` of it ends.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._stream = stream
        status = os.fstat(stream.fileno()) if self._shown else None
        self._size_bytes = status.st_size if status is not None and stat.S_ISREG(status.st_mode) else 0
        self._next = time.monotonic() + _FIRST_SECONDS
        self._count = 0

    def step(self, count: int) -> None:
        """Add `count` stacks."""
        self._count += count
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _BETWEEN_SECONDS
        at = self._stream.tell() if self._size_bytes else 0
        part = f"{100 * at // self._size_bytes:3d} %  " if at else ""  # 0 where the content is read as a whole
        draw(f"{part}{self._count:,} stacks")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        draw("")
