"""The payloads of members, until their records are written.

A large program has hundreds of thousands, and each as an object of its own costs as much again. So those of some units
lie in one piece, which goes back to the system when its payloads are in their records.
"""

from __future__ import annotations

from mmap import mmap
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U8, U64
from unwind.symcache.builder._records import put_payloads


class Payloads(NamedTuple):
    """Payloads of some claims, one after the other."""

    sizes: U64
    data: U8
    column_bytes: int  # so many of these bytes are columns


class Encoded:
    """Payloads by claim, and what else the sections are made of."""

    def __init__(self, claim_count: int) -> None:
        self.column_bytes = 0
        self.files = [""]  # paths by number
        self.sizes: U64 = np.zeros(claim_count, np.uint64)  # of the payload of each claim, 0 for none
        self._pieces: list[tuple[I64, U8]] = []  # claims, and their payloads, one after the other

    def add(self, claims: I64, parts: list[Payloads]) -> None:
        """Keep the payloads of some claims, in one piece."""
        size_bytes = sum(len(part.data) for part in parts)
        if not size_bytes:
            return
        self.sizes[claims] = np.concatenate([part.sizes for part in parts])
        self.column_bytes += sum(part.column_bytes for part in parts)
        piece = np.frombuffer(mmap(-1, size_bytes), np.uint8)  # a heap would keep what is freed
        np.concatenate([part.data for part in parts], out=piece)
        self._pieces.append((claims, piece))

    def move(self, places: U64, out: U8) -> None:
        """Copy the payload of each claim to its place; they are gone then."""
        while self._pieces:
            claims, piece = self._pieces.pop()
            put_payloads(piece.data, self.sizes[claims].data, places[claims].data, out.data)
