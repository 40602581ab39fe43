"""The payloads of members, as the sections take them: by body, while threads make them by unit.

A large program has hundreds of thousands, and each as an object of its own costs as much again. So those of some units
lie in one piece, which goes back to the system when the last of them is taken: members in order of addresses are nearly
in that of units.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from mmap import mmap


class Encoded:
    """Payloads by claim, and what else the sections are made of."""

    def __init__(self, claim_count: int) -> None:
        self.column_bytes = 0  # so many bytes of the payloads are columns
        self.files = [""]  # paths by number
        self._piece = array("i", [-1]) * claim_count
        self._start, self._end = array("Q", [0]) * claim_count, array("Q", [0]) * claim_count
        self._pieces: list[memoryview] = []
        self._left: list[int] = []  # payloads of each piece that were not taken

    def add(self, claims: Sequence[int], payloads: Sequence[bytes]) -> None:
        """Keep the payloads of some claims, in one piece."""
        if not payloads:
            return
        at, number = 0, len(self._pieces)
        for claim, payload in zip(claims, payloads, strict=True):
            self._piece[claim], self._start[claim], self._end[claim] = number, at, at + len(payload)
            at += len(payload)
        piece = memoryview(mmap(-1, max(at, 1)))  # a heap would keep what is freed
        piece[:at] = b"".join(payloads)
        self._pieces.append(piece)
        self._left.append(len(claims))

    @property
    def size_bytes(self) -> int:
        """All bytes of the payloads that were not taken."""
        return sum(map(len, self._pieces))

    def take(self, claim: int) -> memoryview:
        """Return the payload of a claim, which is gone then; empty if it has none."""
        piece = self._piece[claim]
        if piece < 0:
            return memoryview(b"")
        payload = self._pieces[piece][self._start[claim] : self._end[claim]]
        self._left[piece] -= 1
        if not self._left[piece]:
            self._pieces[piece] = memoryview(b"")
        return payload
