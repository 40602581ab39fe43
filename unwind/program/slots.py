"""The slots of one module's vtables and the jumps of its functions, as its tables have them.

Sets are kept by class: class index in address order -> mask of its members, one bit more for those not listed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

from icf.model import (
    ALL_MEMBERS,
    ANY_POINTER,
    STORED_POINTER,
    ClassFlag,
    FoldClass,
    MemberFlag,
    MemberRef,
    PointerJump,
    TailCall,
    Vtable,
)
from icf.tables.pointed import Jump, every_member, jumps_between, marked
from unwind.program.ways import Masks, bits, union

_OF_STD_FUNCTION = re.compile(
    r"_ZNSt(17_Function_handler|14_Function_base13_Base_manager)I.*E(9_M_invoke|10_M_manager)E"
)
_THUNK = re.compile(r"_ZT[hvc]")  # Itanium C++ ABI, 5.1.4.2: non-virtual, virtual, covariant


class Slots:
    """The vtables and jumps of one module; `classes` ascend by address."""

    def __init__(
        self,
        classes: Sequence[FoldClass],
        tail_calls: Sequence[TailCall],
        pointer_jumps: Iterable[PointerJump],
        vtables: Sequence[Vtable],
    ) -> None:
        self._classes, self._tail_calls, self._pointer_jumps = classes, tail_calls, tuple(pointer_jumps)
        self.vtables: dict[int, Vtable] = {vtable.vaddr: vtable for vtable in vtables}
        self.groups: dict[int, list[Vtable]] = {}
        for vtable in vtables:
            self.groups.setdefault(vtable.group, []).append(vtable)
        self._vtables_for: dict[int, frozenset[int]] = {}

    def vtables_for(self, class_idx: int) -> frozenset[int]:
        """Return the vtables of each group in which one has a member of a class, or a thunk to one, in a slot."""
        found = self._vtables_for.get(class_idx)
        if found is None:
            groups = [
                group
                for group in self.groups.values()
                if any(
                    each.function.class_idx == class_idx or self.by_thunk(each.function, class_idx)
                    for vtable in group
                    for each in vtable.slots
                )
            ]
            found = self._vtables_for[class_idx] = frozenset(vtable.vaddr for group in groups for vtable in group)
        return found

    def own_group(self, vptr: int) -> range | None:
        """Return the addresses from the start of the symbol that holds the vtable to the last address point in it.

        None if the tables do not list it.
        """
        own = self.vtables.get(vptr)
        group = self.groups[own.group] if own is not None else ()
        return range(group[0].group, max(vtable.vaddr for vtable in group) + 1) if group else None

    def slot_of_jump(self, vaddr: int) -> int | None:
        """Return the slot that the jump at `vaddr` takes its target from, if it is known to be one of a vtable."""
        slots = {each.slot for each in self._pointer_jumps if each.jump == vaddr}
        slot = slots.pop() if len(slots) == 1 else ANY_POINTER
        return None if slot in (ANY_POINTER, STORED_POINTER) else slot

    def slot_jumps(self, class_idx: int) -> list[tuple[int, int]]:
        """Return the jumps of the body through slots of vtables: address and slot."""
        jumps = self.left_by.get(class_idx, ())
        return [(each.jump, each.slot) for each in jumps if each.slot not in (ANY_POINTER, STORED_POINTER)]

    def in_slot(self, slot: int) -> Masks:
        """Return the functions that a call by `slot`, or by ANY_POINTER, enters directly."""
        if slot == ANY_POINTER:
            return union([dict(enumerate(self._marked)), *self.of_slot.values()])
        if slot == STORED_POINTER:
            return union((dict(enumerate(self.taken)), self.anywhere))
        return union((self.of_slot.get(slot, {}), self.anywhere))

    def in_slot_of_class(self, slot: int, class_idx: int) -> int:
        """Return the members of a class that are in slot `slot` of a vtable, or may be."""
        return self.of_slot.get(slot, {}).get(class_idx, 0) | self.anywhere.get(class_idx, 0)

    def by_thunk(self, ref: MemberRef, class_idx: int) -> int:
        """Return the members of a class that a thunk jumps to, through further thunks if need be, and the thunk itself.

        A thunk may have the function inlined: then `this` there is the object that it adjusted the pointer to.
        """
        mask, seen = 0, {(ref.class_idx, idx) for idx in bits(self.mask(ref))}
        todo = [member for member in seen if member in self.thunks]
        mask |= sum(1 << idx for thunk_class_idx, idx in todo if thunk_class_idx == class_idx)
        while todo:
            for landed, landed_mask in self.jumps.get(todo.pop(), ()):
                if landed == class_idx:
                    mask |= landed_mask
                new = {(landed, idx) for idx in bits(landed_mask)} - seen
                seen |= new
                todo += new & self.thunks
        return mask

    def mask(self, ref: MemberRef) -> int:
        return every_member(self._classes[ref.class_idx]) if ref.member_idx == ALL_MEMBERS else 1 << ref.member_idx

    @cached_property
    def jumps(self) -> dict[tuple[int, int], list[Jump]]:
        return jumps_between(self._classes, self._tail_calls)

    @cached_property
    def jumping(self) -> Masks:
        """The members that jump."""
        found: Masks = {}
        for class_idx, idx in self.jumps:
            found[class_idx] = found.get(class_idx, 0) | 1 << idx
        return found

    @cached_property
    def left_by(self) -> dict[int, list[PointerJump]]:
        starts = [fold.vaddr for fold in self._classes]
        found: dict[int, list[PointerJump]] = {}
        for jump in self._pointer_jumps:
            idx = bisect_right(starts, jump.jump) - 1
            if idx >= 0 and jump.jump < starts[idx] + self._classes[idx].size_bytes:
                found.setdefault(idx, []).append(jump)
        return found

    @cached_property
    def _marked(self) -> list[int]:
        return [marked(fold) for fold in self._classes]

    @cached_property
    def taken(self) -> list[int]:
        """The members that a pointer outside of vtables may lead to."""
        return [marked(fold, MemberFlag.ADDRESS_TAKEN) for fold in self._classes]

    @cached_property
    def of_slot(self) -> dict[int, Masks]:
        """The functions in each slot of all vtables."""
        return {slot: union(by_group.values()) for slot, by_group in self.by_group.items()}

    @cached_property
    def by_group(self) -> dict[int, dict[int, Masks]]:
        """The functions in each slot of the vtables of each group."""
        found: dict[int, dict[int, Masks]] = {}
        for vtable in self.vtables.values():
            for each in vtable.slots:
                masks = found.setdefault(each.slot, {}).setdefault(vtable.group, {})
                idx = each.function.class_idx
                masks[idx] = masks.get(idx, 0) | self.mask(each.function)
        return found

    @cached_property
    def anywhere(self) -> Masks:
        """The functions that may be in any slot: of a C program's tables, or of vtables that are not listed.

        Those that the library makes for a std::function stand in such an object, and in no table.
        """
        found = {}
        for idx, mask in enumerate(self._marked):
            anywhere = self.taken[idx] | mask & ~self._held.get(idx, 0)
            if self._classes[idx].flags & ClassFlag.ADDRESS_TAKEN_KNOWN:
                anywhere &= ~_named(self._classes[idx], _OF_STD_FUNCTION)
            if anywhere:
                found[idx] = anywhere
        return found

    @cached_property
    def unlisted(self) -> Masks:
        """Those of `_anywhere` that may be in vtables which are not listed."""
        found = {}
        for idx, mask in self.anywhere.items():
            fold = self._classes[idx]
            if fold.flags & ClassFlag.VTABLES_KNOWN:
                mask &= marked(fold, MemberFlag.VIRTUAL) & ~self._held.get(idx, 0)
            if mask:
                found[idx] = mask
        return found

    @cached_property
    def _held(self) -> Masks:
        """The functions in slots of listed vtables."""
        return union(self.of_slot.values())

    @cached_property
    def thunks(self) -> set[tuple[int, int]]:
        return {(class_idx, idx) for class_idx, fold in enumerate(self._classes) for idx in bits(_named(fold, _THUNK))}


def _named(fold: FoldClass, pattern: re.Pattern[str]) -> int:
    return sum(1 << idx for idx, member in enumerate(fold.members) if pattern.match(member.name))
