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

NOWHERE = (1 << 64) - 1  # the place of a payload without a record
_NO_PIECE = (1 << 32) - 1


class Payloads(NamedTuple):
    """Payloads of some claims, one after the other."""

    sizes: U64  # in bytes
    column_sizes: U64  # so many bytes of each are columns
    data: U8


class _Piece(NamedTuple):
    claims: I64
    sizes: U64
    data: U8


class Encoded:
    """Payloads by claim, and what else the sections are made of."""

    def __init__(self, claim_count: int) -> None:
        self.files = [""]  # paths by number
        self.sizes: U64 = np.zeros(claim_count, np.uint64)  # of the payload of each claim, 0 for none
        self._column_sizes = np.zeros(claim_count, np.uint32)
        self._piece_of = np.full(claim_count, _NO_PIECE, np.uint32)
        self._pieces: list[_Piece] = []

    def add(self, claims: I64, parts: list[Payloads]) -> None:
        """Keep the payloads of some claims, in one piece; a claim that has one already has the new one then."""
        size_bytes = sum(len(part.data) for part in parts)
        if not size_bytes:
            return
        sizes = np.concatenate([part.sizes for part in parts])
        data = np.frombuffer(mmap(-1, size_bytes), np.uint8)  # a heap would keep what is freed
        np.concatenate([part.data for part in parts], out=data)
        self.sizes[claims] = sizes
        self._column_sizes[claims] = np.concatenate([part.column_sizes for part in parts])
        self._piece_of[claims] = len(self._pieces)
        self._pieces.append(_Piece(claims, sizes, data))

    def drop(self, claims: I64) -> None:
        """Forget the payloads of some claims, if they have any."""
        self.sizes[claims], self._column_sizes[claims], self._piece_of[claims] = 0, 0, _NO_PIECE

    @property
    def column_bytes(self) -> int:
        """So many bytes of all payloads are columns."""
        return int(self._column_sizes.sum(dtype=np.uint64))

    def move(self, places: U64, out: U8) -> None:
        """Copy the payload of each claim to its place; they are gone then."""
        while self._pieces:
            claims, sizes, data = self._pieces.pop()
            is_last = self._piece_of[claims] == len(self._pieces)
            to = np.where(is_last, places[claims], np.uint64(NOWHERE))
            put_payloads(data.data, sizes.data, to.data, out.data)
