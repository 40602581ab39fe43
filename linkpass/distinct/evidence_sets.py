"""The members of a body that one piece of evidence on a stack allows together: no stack distinguishes those.

    a call through a pointer                  every member that a pointer or a vtable leads to, also by jumps
    a body whose direct calls are not all     every member
    recorded
    a recorded call of X                      X, and what X reaches by jumps: direct ones, and those through a slot of
                                              a vtable, which lead to every function in such a slot

No other evidence leaves several: a record names one callee for each caller, and a caller that has one name has
one record. So where no set has two members, each frame has one name: the outermost one by its own set, each next one by
its caller's record. The sets take no account of the classes of objects, by which the resolver distinguishes more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

from icf.model import ALL_MEMBERS, ANY_POINTER, STORED_POINTER, ClassFlag, MemberFlag, MemberRef
from icf.tables.foldtable import IcfTable
from icf.tables.pointed import every_member, jumps_between, marked, pointed_at

Node = tuple[int, int]  # class index, member index
Masks = dict[int, int]  # class index -> members


class EvidenceSets:
    """The sets of one image, by its tables."""

    def __init__(self, table: IcfTable) -> None:
        self._table = table
        self._classes = table.classes
        self._jumps = jumps_between(table.classes, table.tail_calls)
        self._entered: dict[int, Masks] = {}  # by slot, with jumps

    def by_class(self) -> dict[int, set[int]]:
        """Return the sets of two members and more, as masks, of each merged class that has such."""
        found: dict[int, set[int]] = {}
        for class_idx, mask in self._all():
            if mask & (mask - 1):
                found.setdefault(class_idx, set()).add(mask)
        return found

    def _all(self) -> Iterator[tuple[int, int]]:
        for class_idx, pointed in enumerate(pointed_at(self._classes, self._table.tail_calls)):
            fold = self._classes[class_idx]
            if fold.merged:
                yield class_idx, pointed if fold.flags & ClassFlag.CALLS_COMPLETE else every_member(fold)
        callees = {*self._jumps}
        callees |= {
            (class_idx, idx)
            for class_idx in self._left_by
            for idx in range(every_member(self._classes[class_idx]).bit_length())
        }
        for node in callees:
            yield from self._reached([node]).items()

    def _reached(self, nodes: Iterable[Node]) -> Masks:
        """Return these functions, and those that they reach by jumps."""
        found, slots = self._by_jumps(nodes)
        merged = {class_idx: mask for class_idx, mask in found.items() if self._classes[class_idx].merged}
        for slot in slots:
            for class_idx in merged:
                merged[class_idx] |= self._entered_by(slot).get(class_idx, 0)
        return merged

    def _by_jumps(self, nodes: Iterable[Node]) -> tuple[Masks, set[int]]:
        """Return what is reached by direct jumps, and the slots through which control leaves."""
        found: Masks = {}
        slots: set[int] = set()
        todo = list(nodes)
        while todo:
            class_idx, idx = todo.pop()
            if found.get(class_idx, 0) >> idx & 1:
                continue
            found[class_idx] = found.get(class_idx, 0) | 1 << idx
            slots |= self._left_by.get(class_idx, set())
            for target, mask in self._jumps.get((class_idx, idx), ()):
                todo += [(target, each) for each in range(mask.bit_length()) if mask >> each & 1]
        return found, slots

    def _entered_by(self, slot: int) -> Masks:
        """Return the functions that a jump through a slot can end up in."""
        if slot not in self._entered:
            nodes, slots = self._in_slot(slot), {slot}
            while True:
                found, further = self._by_jumps(nodes)
                if further <= slots:
                    break
                for each in further - slots:
                    nodes |= self._in_slot(each)
                slots |= further
            self._entered[slot] = found
        return self._entered[slot]

    def _in_slot(self, slot: int) -> set[Node]:
        """Return the functions that a jump through a slot enters."""
        marks = MemberFlag.ADDRESS_TAKEN
        if slot == ANY_POINTER:
            marks |= MemberFlag.VIRTUAL
        masks = {idx: marked(fold, marks) for idx, fold in enumerate(self._classes)}
        found = {(idx, each) for idx, mask in masks.items() for each in range(mask.bit_length()) if mask >> each & 1}
        if slot != STORED_POINTER:
            for ref in self._of_slot.get(slot, ()):
                members = range(len(self._classes[ref.class_idx].members))
                found |= {
                    (ref.class_idx, idx) for idx in (members if ref.member_idx == ALL_MEMBERS else [ref.member_idx])
                }
        return found

    @cached_property
    def _of_slot(self) -> dict[int, set[MemberRef]]:
        found: dict[int, set[MemberRef]] = {}
        for vtable in self._table.vtables:
            for each in vtable.slots:
                found.setdefault(each.slot, set()).add(each.function)
                found.setdefault(ANY_POINTER, set()).add(each.function)
        return found

    @cached_property
    def _left_by(self) -> dict[int, set[int]]:
        """The slots by which each class makes jumps."""
        starts = [int(fold.vaddr) for fold in self._classes]
        found: dict[int, set[int]] = {}
        for jump in self._table.pointer_jumps:
            class_idx = bisect_right(starts, jump.jump) - 1
            if class_idx >= 0:
                found.setdefault(class_idx, set()).add(jump.slot)
        return found
