"""Memory of a process that lies in pieces in a file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from icf.filebytes import FileBytes


class Piece(NamedTuple):
    """The memory from `start` to `end`; its bytes are at `offset` of the file."""

    start: int
    end: int
    offset: int


class FileMemory:
    """The pieces of memory that a file has; of two that overlap the lower one counts. It reads what is asked for."""

    def __init__(self, file: FileBytes, pieces: Iterable[Piece]) -> None:
        self._file = file
        self._pieces: list[Piece] = []
        for start, end, offset in sorted(pieces):
            end = min(end, start + max(len(file) - offset, 0), 1 << 64)  # as far as the file goes
            taken = self._pieces[-1].end if self._pieces else 0
            if max(start, taken) < end:
                self._pieces.append(Piece(max(start, taken), end, offset + max(taken - start, 0)))
        self._starts = [piece.start for piece in self._pieces]

    def extent(self, address: int) -> tuple[int, int] | None:
        """Return the start and end of the piece that has an address."""
        piece = self._piece(address)
        return None if piece is None else (piece.start, piece.end)

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes of a range that lies in one piece."""
        piece = self._piece(start)
        assert piece is not None and end <= piece.end
        at = piece.offset + start - piece.start
        return self._file[at : at + end - start]

    def _piece(self, address: int) -> Piece | None:
        at = bisect_right(self._starts, address) - 1
        return self._pieces[at] if at >= 0 and address < self._pieces[at].end else None
