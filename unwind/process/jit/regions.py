"""Stretches of addresses that a compiler at run time names one after the other: later ones lie over earlier ones.

Hundreds of thousands are read at once at first, then a few at a time, with look-ups of addresses in between.
So they are kept in layers, each flat: sorted, without overlaps, found by bisection. New stretches are a layer over the
others; two layers of about one size become one, so there are never more than a few, and each entry is
merged again only as often as the number of all doubles.

    find         |                   the uppermost layer that covers the address has the value
    third        |  ▒▒
    second ▒▒▒▒  |      ▒▒▒▒▒
    first  ▒▒▒▒▒▒▒▒▒ ▒▒▒▒▒▒▒▒▒▒  ▒▒▒▒
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Generic, TypeVar

T = TypeVar("T")


class Regions(Generic[T]):
    """Values by stretches of addresses."""

    def __init__(self) -> None:
        self.layers: list[tuple[list[int], list[tuple[int, int, T]]]] = []  # starts, and (start, end, value)

    def add(self, regions: Sequence[tuple[int, int, T]]) -> None:
        """Lay (start, end, value) over what is there, and later ones over earlier ones; empty ones are left out."""
        flat = _flat(regions)
        while self.layers and len(self.layers[-1][0]) < 2 * len(flat):
            flat = _flat([*self.layers.pop()[1], *flat])
        if flat:
            self.layers.append(([start for start, _, _ in flat], flat))

    def find(self, address: int) -> T | None:
        """Return the value added last of those that cover the address."""
        for starts, flat in reversed(self.layers):
            idx = bisect_right(starts, address) - 1
            if idx >= 0:
                _, end, value = flat[idx]
                if address < end:
                    return value
        return None

    def starts(self) -> Iterator[int]:
        """Yield where each stretch begins, those of later layers first; some may lie under others."""
        for starts, _ in reversed(self.layers):
            yield from starts


def _flat(regions: Sequence[tuple[int, int, T]]) -> list[tuple[int, int, T]]:
    """Return the same stretches without overlaps, ascending: the remains of an earlier one are there in pieces."""
    order = sorted((idx for idx, (start, end, _) in enumerate(regions) if start < end), key=lambda idx: regions[idx][0])
    if all(regions[idx][1] <= regions[following][0] for idx, following in pairwise(order)):
        return [regions[idx] for idx in order]
    flat: list[tuple[int, int, T]] = []
    covering: list[int] = []  # a heap: minus the index of each that has begun, so the last one comes first
    at = next_row = 0
    while next_row < len(order) or covering:
        if not covering:
            at = max(at, regions[order[next_row]][0])
        while next_row < len(order) and regions[order[next_row]][0] <= at:
            heappush(covering, -order[next_row])
            next_row += 1
        while covering and regions[-covering[0]][1] <= at:
            heappop(covering)
        if covering:
            _, end, value = regions[-covering[0]]
            if next_row < len(order):
                end = min(end, regions[order[next_row]][0])
            if flat and flat[-1][1] == at and flat[-1][2] is value:
                flat[-1] = (flat[-1][0], end, value)
            else:
                flat.append((at, end, value))
            at = end
    return flat
