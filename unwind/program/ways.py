"""Ways: where calls and jumps through pointers take their targets from, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from icf.model import ANY_POINTER

Masks = dict[int, int]  # class index -> members


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The vtables of the objects of one type, by their groups, in one program."""

    groups: frozenset[int]  # those with slots in its tables
    bound_in: Callable[[int], Collection[str]]  # the functions that the loader binds by name in a slot of its vtables


class Way(NamedTuple):
    """Where a call or jump through a pointer takes its target from."""

    slot: int  # of a vtable; ANY_POINTER, STORED_POINTER
    family: Family | None = None  # the vtables that it may be one of; None: not known

    @property
    def untyped(self) -> Way:
        """The same slot of any vtable."""
        return Way(self.slot)


ANY_WAY = Way(ANY_POINTER)


@dataclass(frozen=True, slots=True)
class Reach:
    """The candidates that control can be in before a call returns; `wild`: or in any function."""

    nodes: frozenset[int]
    ways: frozenset[Way] = frozenset()  # by which they tail-call through pointers
    wild: bool = False


def union(parts: Iterable[Masks]) -> Masks:
    """Return all members of some sets."""
    united: Masks = {}
    for part in parts:
        for idx, mask in part.items():
            united[idx] = united.get(idx, 0) | mask
    return united


def bits(mask: int) -> list[int]:
    """Return the members of a mask."""
    found = []
    text = bin(mask)[:1:-1]
    idx = text.find("1")
    while idx >= 0:
        found.append(idx)
        idx = text.find("1", idx + 1)
    return found
