"""Targets of calls and jumps through pointers: by the slots of vtables, from the tables alone.

A call whose target is loaded from slot k of the table that its object points to enters a function in slot k of some
vtable; or one whose address is taken, as a C program with its own tables of functions compiles to the same code. The
entered function may tail-call others, directly or through a pointer again, and leaves no frame. `Entered` is the set of
all functions that one such call can end up in.

An object's vtable pointer V, sampled in the frame it ended up in, leaves fewer. The frame was entered

    through slot j of that object     V's own function there, where j is one of the slots that control goes through
    by a thunk in such a slot         of a vtable of V's group: a thunk goes on with the same object; or it is the thunk
    by another direct jump            with any object: V excludes nothing
    through any pointer               V's function in any slot, those of thunks, or any other target of a pointer

so the slot of the call itself decides only if no function that the call may enter tail-calls the body. Example (double
dispatch): `shape->accept(visitor)` is slot 2; Circle::accept is `jmp *0x18(%rax)` through the visitor's vtable, slot 3.
A frame with a visitor's V is then V's function in slot 3, or, should some vtable have it in slot 2, that one.

A *way* is a slot, and the type of the object whose vtable it is in, where the tables have that: the class that the
object is declared to have. It leads to the functions in that slot of the vtables of this type. Where one jump stands
for several functions, it is another way in each whose object has another type.

Sets are kept by class: class index in address order -> mask of its members, one bit more for those not listed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from icf.model import (
    ALL_MEMBERS,
    ANY_POINTER,
    STORED_POINTER,
    ClassFlag,
    FoldClass,
    MemberFlag,
    MemberRef,
    ObjectType,
    PointerJump,
    TailCall,
    TypedObject,
    Vtable,
)
from icf.tables.pointed import Jump, every_member, jumps_between, marked

Masks = dict[int, int]  # class index -> members
_OF_STD_FUNCTION = re.compile(
    r"_ZNSt(17_Function_handler|14_Function_base13_Base_manager)I.*E(9_M_invoke|10_M_manager)E"
)
_THUNK = re.compile(r"_ZT[hvc]")  # Itanium C++ ABI, 5.1.4.2: non-virtual, virtual, covariant


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


@dataclass(frozen=True, slots=True)
class Entered:
    """The functions that a call through a pointer can end up in."""

    members: Masks
    jumped: Masks  # those of them that a direct jump enters, not counting the jumps of thunks
    ways: frozenset[Way]  # through which control goes; ANY_WAY among them: any slot
    beyond: frozenset[int] = frozenset()  # candidates of all modules that jumps to imports enter, where those count


_NOTHING = Entered({}, {}, frozenset())


class Dispatch:
    """The vtables and jumps of one program; `classes` ascend by address."""

    def __init__(
        self,
        classes: Sequence[FoldClass],
        tail_calls: Sequence[TailCall] = (),
        pointer_jumps: Iterable[PointerJump] = (),
        vtables: Sequence[Vtable] = (),
        types: Sequence[ObjectType] = (),
        objects: Sequence[TypedObject] = (),
        everybody: Callable[[], Iterable[Dispatch]] | None = None,
        borrow: Callable[[int], Sequence[Vtable]] | None = None,
        bound_in: Callable[[int], Collection[str]] = lambda _: (),
        exported: Callable[[str], Masks | None] = lambda _: None,
        imports: Callable[[int], Mapping[int, Reach]] = lambda _: {},
        located: Callable[[Iterable[int]], Masks] = lambda _: {},
        *,
        hides_jumps: bool = False,
    ) -> None:
        self._classes = classes
        self._tail_calls = tail_calls
        self._vtables: dict[int, Vtable] = {vtable.vaddr: vtable for vtable in vtables}
        self._groups: dict[int, list[Vtable]] = {}
        for vtable in vtables:
            self._groups.setdefault(vtable.group, []).append(vtable)
        self._pointer_jumps = tuple(pointer_jumps)
        self._families = [Family(frozenset(each.groups), bound_in) for each in types]
        self._own_families = frozenset(self._families)
        self._objects = objects
        # those of all modules of a process: each may tail-call functions of another
        self._everybody = everybody or (lambda: [self])
        # the group of vtables of another module that a vtable pointer points into, as far as functions are in its slots
        self._exported = exported  # the function of a name; None: it is not certain which
        self._borrow = borrow or (lambda _: ())
        self._borrowed: dict[int, Sequence[Vtable]] = {}  # by vtable pointer
        self._imports, self._located = imports, located
        self._hides_jumps = hides_jumps  # it has methods whose jumps through pointers are in no table
        self._imports_of: dict[int, Mapping[int, Reach]] = {}  # by class
        self._entered: dict[tuple[Way, bool], Entered] = {}
        self._vtables_for: dict[int, frozenset[int]] = {}
        self._directly: dict[tuple[Way, bool], Entered] = {}

    def knows(self, vptr: int) -> bool:
        """Return whether a vtable that matters is there, here or in another module."""
        return vptr in self._vtables or bool(self._group(vptr))

    def _group(self, vptr: int) -> Sequence[Vtable]:
        """Return the vtables of the group that a vtable pointer points into; none if it does not matter."""
        own = self._vtables.get(vptr)
        if own is not None:
            return self._groups[own.group]
        found = self._borrowed.get(vptr)
        if found is None:
            found = self._borrowed[vptr] = self._borrow(vptr)
        return found

    def vtables_for(self, class_idx: int) -> frozenset[int]:
        """Return the vtables of each group in which one has a member of a class, or a thunk to one, in a slot."""
        found = self._vtables_for.get(class_idx)
        if found is None:
            groups = [
                group
                for group in self._groups.values()
                if any(
                    each.function.class_idx == class_idx or self._by_thunk(each.function, class_idx)
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
        own = self._vtables.get(vptr)
        group = self._groups[own.group] if own is not None else ()
        return range(group[0].group, max(vtable.vaddr for vtable in group) + 1) if group else None

    def function(self, vptr: int, slot: int) -> MemberRef | None:
        """Return the function in a slot of a vtable, if it matters."""
        return next((each.function for each in self._vtables[vptr].slots if each.slot == slot), None)

    def ways(self, slot: int, number: int, class_idx: int, members: int) -> dict[Way, int]:
        """Return the ways of a call or jump by `slot` of object `number` in some members of a class, each with those.

        `class_idx` is -1 for a body that the tables do not list. Number 0 is an object that is not known.
        """
        if not number:
            return {Way(slot): members}
        found: dict[Way, int] = {}
        for member, type_ in self._objects[number - 1]:
            if member is None or member.class_idx == class_idx:
                mask = members & (members if member is None else 1 << member.member_idx)
                way = Way(slot, self._families[type_])
                found[way] = found.get(way, 0) | mask
                members &= ~mask
        found[Way(slot)] = members
        return {way: mask for way, mask in found.items() if mask}

    def ways_left_by(self, class_idx: int, members: int, but: Collection[int] = ()) -> frozenset[Way]:
        """Return the ways by which members of a class tail-call, ANY_WAY among them, except the jumps at `but`."""
        return frozenset(
            way
            for each in self._left_by.get(class_idx, ())
            if each.jump not in but
            for way in self.ways(each.slot, each.object, class_idx, members)
        )

    def slot_of_jump(self, vaddr: int) -> int | None:
        """Return the slot that the jump at `vaddr` takes its target from, if it is known to be one of a vtable."""
        slots = {each.slot for each in self._pointer_jumps if each.jump == vaddr}
        slot = slots.pop() if len(slots) == 1 else ANY_POINTER
        return None if slot in (ANY_POINTER, STORED_POINTER) else slot

    def slot_jumps(self, class_idx: int) -> list[tuple[int, int]]:
        """Return the jumps of the body through slots of vtables: address and slot."""
        jumps = self._left_by.get(class_idx, ())
        return [(each.jump, each.slot) for each in jumps if each.slot not in (ANY_POINTER, STORED_POINTER)]

    def in_slot(self, slot: int) -> Masks:
        """Return the functions that a call by `slot`, or by ANY_POINTER, enters directly."""
        if slot == ANY_POINTER:
            return _union([dict(enumerate(self._marked)), *self._of_slot.values()])
        if slot == STORED_POINTER:
            return _union((dict(enumerate(self._taken)), self._anywhere))
        return _union((self._of_slot.get(slot, {}), self._anywhere))

    def in_slot_of_class(self, slot: int, class_idx: int) -> int:
        """Return the members of a class that are in slot `slot` of a vtable, or may be."""
        return self._of_slot.get(slot, {}).get(class_idx, 0) | self._anywhere.get(class_idx, 0)

    def entered(self, way: Way, *, by_names: bool = False) -> Entered:
        """Return all functions that a call by `way` can end up in.

        A jump to an import counts as one through any pointer, unless `by_names`: then it leads to what its name means,
        which takes decoding. Then, too, a method of a module without tables may jump through any pointer.
        """
        found = self._entered.get((way, by_names))
        if found is None:
            found = self._entered[way, by_names] = self._follow(way, by_names=by_names)
        return found

    def members(self, ways: Iterable[Way], class_idx: int, vptr: int) -> int:
        """Return the members of a class that a call by one of `ways` can reach.

        `vptr` is the frame's vtable pointer, or 0.
        """
        mask = 0
        for way in ways:
            if not vptr:
                mask |= self.entered(way).members.get(class_idx, 0)
            else:
                entered = self.entered(way, by_names=True)
                mask |= entered.jumped.get(class_idx, 0) | self._by_vtable(entered.ways, class_idx, vptr)
        return mask

    def _by_vtable(self, ways: frozenset[Way], class_idx: int, vptr: int) -> int:
        """Return the members that are entered through one of `ways` of the object whose vtable is at `vptr`."""
        group = self._group(vptr)
        vtable = next(each for each in group if each.vaddr == vptr)
        slots = {way.slot for way in ways if self._may_be_of(vtable, way.family)}
        anywhere = ANY_POINTER in slots
        mask = self._taken[class_idx] if anywhere or STORED_POINTER in slots else 0
        for each in vtable.slots:
            if (anywhere or each.slot in slots) and each.function.class_idx == class_idx:
                mask |= self._mask(each.function)
        for other in group:
            for each in other.slots:
                if anywhere or each.slot in slots:
                    mask |= self._by_thunk(each.function, class_idx)
        return mask

    def _may_be_of(self, vtable: Vtable, family: Family | None) -> bool:
        """Return whether an object of a type may have a vtable, here or in another module."""
        if family is None or vtable.group in family.groups:
            return True
        return vtable.vaddr not in self._vtables and family not in self._own_families

    def _by_thunk(self, ref: MemberRef, class_idx: int) -> int:
        """Return the members of a class that a thunk jumps to, through further thunks if need be, and the thunk itself.

        A thunk may have the function inlined: then `this` there is the object that it adjusted the pointer to.
        """
        mask, seen = 0, {(ref.class_idx, idx) for idx in bits(self._mask(ref))}
        todo = [member for member in seen if member in self._thunks]
        mask |= sum(1 << idx for thunk_class_idx, idx in todo if thunk_class_idx == class_idx)
        while todo:
            for landed, landed_mask in self._jumps.get(todo.pop(), ()):
                if landed == class_idx:
                    mask |= landed_mask
                new = {(landed, idx) for idx in bits(landed_mask)} - seen
                seen |= new
                todo += new & self._thunks
        return mask

    def _follow(self, way: Way, *, by_names: bool) -> Entered:
        """Return all functions that a call by `way` can end up in here, through all modules."""
        ways = {way}
        todo = [way]
        beyond: set[int] = set()
        is_open = by_names and any(dispatch._hides_jumps for dispatch in self._everybody())
        while todo:
            left_by = todo.pop()
            parts = [dispatch._enter(left_by, by_names=by_names) for dispatch in self._everybody()]
            beyond.update(*(part.beyond for part in parts))
            new = set().union(*(part.ways for part in parts)) - ways
            if is_open and left_by.family is None:
                new |= {ANY_WAY} - ways
            ways |= new
            todo += new
        parts = [self._enter(each, by_names=by_names) for each in ways]
        landed = self._located(beyond)
        return Entered(
            _union((landed, *(part.members for part in parts))),
            _union((landed, *(part.jumped for part in parts))),
            frozenset(ways),
        )

    def _enter(self, way: Way, *, by_names: bool = False) -> Entered:
        """Return the functions that a call by `way` enters before control goes through a pointer again, and the
        ways it takes.
        """
        found = self._directly.get((way, by_names))
        if found is None:
            slot, family = way
            known = _NOTHING
            if slot in (ANY_POINTER, STORED_POINTER):
                first = self.in_slot(slot)
            elif family is None:
                first = self._of_slot.get(slot, {})
                known = self._from_names if by_names else self._from_anywhere
            elif family in self._own_families:
                first = self._of_family(slot, family)
                known = self._jump_on(self._unlisted, _NOTHING, by_names=True) if by_names else self._from_unlisted
            else:  # of another module, which has all classes of that type
                first = self._bound_to(slot, family)
            found = self._directly[way, by_names] = self._jump_on(first, known, by_names=by_names)
        return found

    def _of_family(self, slot: int, family: Family) -> Masks:
        """Return the functions in a slot of the vtables of a type."""
        return _union(masks for group, masks in self._by_group.get(slot, {}).items() if group in family.groups)

    def _bound_to(self, slot: int, family: Family) -> Masks:
        """Return the functions that are in a slot of another module's vtables, as far as names show."""
        found = [self._exported(symbol) for symbol in family.bound_in(slot)]
        return _union(self._anywhere if each is None else each for each in found)

    @cached_property
    def _from_anywhere(self) -> Entered:
        """The functions that are entered whatever the slot."""
        return self._jump_on(self._anywhere, _NOTHING)

    @cached_property
    def _from_names(self) -> Entered:
        """The same, where jumps to imports lead to what their names mean."""
        return self._jump_on(self._anywhere, _NOTHING, by_names=True)

    @cached_property
    def _from_unlisted(self) -> Entered:
        """The functions that are entered whatever the slot, if the table is that of an object of C++."""
        return self._jump_on(self._unlisted, _NOTHING)

    def _jump_on(self, first: Masks, known: Entered, *, by_names: bool = False) -> Entered:
        """Return `known` with what control can reach from `first`."""
        members, jumped, ways = dict(known.members), dict(known.jumped), set(known.ways)
        beyond = set(known.beyond)
        landed = []  # by jumps of other functions than thunks
        todo = list(first.items())
        while todo:
            class_idx, mask = todo.pop()
            new = mask & ~members.get(class_idx, 0)
            if not new:
                continue
            members[class_idx] = members.get(class_idx, 0) | new
            imports = self._imports_from(class_idx) if by_names else {}
            ways |= self.ways_left_by(class_idx, new, imports)
            for reach in imports.values():
                beyond |= reach.nodes
                ways |= {ANY_WAY} if reach.wild else reach.ways
            for idx in bits(new & self._jumping.get(class_idx, 0)):
                landings = self._jumps[class_idx, idx]
                todo += landings
                if (class_idx, idx) not in self._thunks:
                    landed += landings
        while landed:  # a jump may also lead to a thunk
            class_idx, mask = landed.pop()
            new = mask & ~jumped.get(class_idx, 0)
            if not new:
                continue
            jumped[class_idx] = jumped.get(class_idx, 0) | new
            for idx in bits(new & self._jumping.get(class_idx, 0)):
                landed += self._jumps[class_idx, idx]
        return Entered(members, jumped, frozenset(ways), frozenset(beyond))

    def _imports_from(self, class_idx: int) -> Mapping[int, Reach]:
        """Return what the jumps of a class to imports reach, by address; a jump that is not known is not among them."""
        if class_idx not in self._left_by:
            return {}
        found = self._imports_of.get(class_idx)
        if found is None:
            found = self._imports_of[class_idx] = self._imports(class_idx)
        return found

    def _mask(self, ref: MemberRef) -> int:
        return every_member(self._classes[ref.class_idx]) if ref.member_idx == ALL_MEMBERS else 1 << ref.member_idx

    @cached_property
    def _jumps(self) -> dict[tuple[int, int], list[Jump]]:
        return jumps_between(self._classes, self._tail_calls)

    @cached_property
    def _jumping(self) -> Masks:
        """The members that jump."""
        found: Masks = {}
        for class_idx, idx in self._jumps:
            found[class_idx] = found.get(class_idx, 0) | 1 << idx
        return found

    @cached_property
    def _left_by(self) -> dict[int, list[PointerJump]]:
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
    def _taken(self) -> list[int]:
        """The members that a pointer outside of vtables may lead to."""
        return [marked(fold, MemberFlag.ADDRESS_TAKEN) for fold in self._classes]

    @cached_property
    def _of_slot(self) -> dict[int, Masks]:
        """The functions in each slot of all vtables."""
        return {slot: _union(by_group.values()) for slot, by_group in self._by_group.items()}

    @cached_property
    def _by_group(self) -> dict[int, dict[int, Masks]]:
        """The functions in each slot of the vtables of each group."""
        found: dict[int, dict[int, Masks]] = {}
        for vtable in self._vtables.values():
            for each in vtable.slots:
                masks = found.setdefault(each.slot, {}).setdefault(vtable.group, {})
                idx = each.function.class_idx
                masks[idx] = masks.get(idx, 0) | self._mask(each.function)
        return found

    @cached_property
    def _anywhere(self) -> Masks:
        """The functions that may be in any slot: of a C program's tables, or of vtables that are not listed.

        Those that the library makes for a std::function stand in such an object, and in no table.
        """
        found = {}
        for idx, mask in enumerate(self._marked):
            anywhere = self._taken[idx] | mask & ~self._held.get(idx, 0)
            if self._classes[idx].flags & ClassFlag.ADDRESS_TAKEN_KNOWN:
                anywhere &= ~_named(self._classes[idx], _OF_STD_FUNCTION)
            if anywhere:
                found[idx] = anywhere
        return found

    @cached_property
    def _unlisted(self) -> Masks:
        """Those of `_anywhere` that may be in vtables which are not listed."""
        found = {}
        for idx, mask in self._anywhere.items():
            fold = self._classes[idx]
            if fold.flags & ClassFlag.VTABLES_KNOWN:
                mask &= marked(fold, MemberFlag.VIRTUAL) & ~self._held.get(idx, 0)
            if mask:
                found[idx] = mask
        return found

    @cached_property
    def _held(self) -> Masks:
        """The functions in slots of listed vtables."""
        return _union(self._of_slot.values())

    @cached_property
    def _thunks(self) -> set[tuple[int, int]]:
        return {(class_idx, idx) for class_idx, fold in enumerate(self._classes) for idx in bits(_named(fold, _THUNK))}


def _named(fold: FoldClass, pattern: re.Pattern[str]) -> int:
    return sum(1 << idx for idx, member in enumerate(fold.members) if pattern.match(member.name))


def _union(parts: Iterable[Masks]) -> Masks:
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
