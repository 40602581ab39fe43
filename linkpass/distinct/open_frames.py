"""Finds what a linked image leaves open, and the functions of its objects that would have to stay apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.model import FoldClass
from linkpass.distinct.copies import ApartFunction
from linkpass.distinct.evidence_sets import Node, lacks_evidence
from linkpass.distinct.plan import make_plan
from linkpass.objects.wanted import wanted_members

if TYPE_CHECKING:
    from icf.tables.dcall import DirectCalls
    from icf.tables.foldtable import IcfTable
    from linkpass.linked import Linked
    from linkpass.objects.functions import LinkObjects

MERGED_BEFORE = "one section of one object: the compiler has merged them, or has made no section for each"
NOT_FOUND = "in no object of the link"
NOT_COPIED = "in inputs that cannot be replaced by a copy"


class OpenFrames(NamedTuple):
    """What an image leaves open."""

    apart: tuple[ApartFunction, ...]  # to keep apart in the next link
    remaining: tuple[tuple[str, tuple[str, ...]], ...]  # reason, and the linkage names of functions that stay together
    lacking: int  # bodies with calls that no evidence names
    saved_bytes: int  # of code, by folding


def find_open_frames(
    linked: Linked,
    table: IcfTable,
    calls: DirectCalls,
    objects: LinkObjects,
    original: Callable[[str], str],
    can_mark: Callable[[ApartFunction], bool],
    names: Collection[frozenset[str]] | None,
) -> OpenFrames:
    """Find it by the tables.

    Args:
        linked: the image.
        table: its fold classes.
        calls: its direct calls.
        objects: the objects of the link.
        original: returns the name of an input without the place of its copy.
        can_mark: whether a function can be marked; one that is marked already would not change.
        names: sets of functions to distinguish, by their linkage names; None: all.
    """
    classes = table.classes
    definitions = _Definitions(linked, classes, objects, original, can_mark)
    wanted = None if names is None else _wanted(names)
    plan = make_plan(table, calls, definitions.place_of, wanted)
    apart = tuple(dict.fromkeys(each for node in plan.apart for each in definitions.functions(node)))
    remaining = tuple(
        (definitions.why(nodes), tuple(classes[idx].members[at].name for idx, at in nodes)) for nodes in plan.remaining
    )
    saved_bytes = sum(
        fold.size_bytes * (definitions.copies(idx) - 1) for idx, fold in enumerate(classes) if fold.merged
    )
    return OpenFrames(apart, remaining, sum(map(lacks_evidence, classes)), saved_bytes)


def _wanted(names: Collection[frozenset[str]]) -> Callable[[FoldClass], Sequence[int]]:
    def wanted(fold: FoldClass) -> Sequence[int]:
        masks = (
            sum(
                1 << idx
                for idx, member in enumerate(fold.members)
                if member.name in each or not each.isdisjoint(member.aliases)
            )
            for each in names
        )
        return [mask for mask in masks if mask & (mask - 1)]

    return wanted


class _Definitions:
    """The sections of objects that define the members of merged classes."""

    def __init__(
        self,
        linked: Linked,
        classes: Sequence[FoldClass],
        objects: LinkObjects,
        original: Callable[[str], str],
        can_mark: Callable[[ApartFunction], bool],
    ) -> None:
        self._classes, self._objects, self._original, self._can_mark = classes, objects, original, can_mark
        nodes = [
            (class_idx, idx)
            for class_idx, fold in enumerate(classes)
            if fold.merged
            for idx in range(len(linked.members(fold.vaddr)))
        ]
        vaddrs = np.array([classes[class_idx].vaddr for class_idx, _ in nodes], np.uint64)
        wanted = wanted_members(linked, vaddrs, np.array([idx for _, idx in nodes], np.int64))
        self._rows: dict[Node, list[int]] = {node: [] for node in nodes}
        for at, row in zip(*(column.tolist() for column in objects.definitions(linked.image, wanted)), strict=True):
            self._rows[nodes[at]].append(row)

    def place_of(self, node: Node) -> Hashable | None:
        """Return what a member is kept apart by; None if it cannot be.

        A local function may be in several objects, as a clone of an inline one: then each of them is marked, alike.
        """
        places = frozenset(map(self._place, self._rows[node]))
        return places if places and all(map(self._can_mark, self.functions(node))) else None

    def why(self, nodes: Sequence[Node]) -> str:
        """Return the reason why these members cannot be kept apart."""
        places = [{self._place(row) for row in self._rows[node]} for node in nodes]
        if all(places) and all(each == places[0] for each in places):
            return MERGED_BEFORE
        return NOT_FOUND if not all(places) else NOT_COPIED

    def copies(self, class_idx: int) -> int:
        """Return how many sections a class was folded from."""
        places: set[object] = set()
        for idx in range(len(self._classes[class_idx].members)):
            rows = self._rows[class_idx, idx]
            places.add(self._place(rows[0]) if rows else idx)
        return len(places)

    def functions(self, node: Node) -> list[ApartFunction]:
        """Return what names a member in the objects."""
        objects, rows = self._objects, self._rows[node]
        inputs = [self._original(objects.object_of(row).name) for row in rows]
        twin = min(inputs) if len({*inputs}) > 1 else ""
        return [
            ApartFunction(name, objects.name(row), int(objects.functions.size_bytes[row]), twin)
            for name, row in zip(inputs, rows, strict=True)
        ]

    def _place(self, row: int) -> tuple[int, int]:
        functions = self._objects.functions
        return int(functions.object_idx[row]), int(functions.section[row])
