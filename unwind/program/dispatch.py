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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from icf.model import ANY_POINTER, STORED_POINTER, ObjectType, TypedObject, Vtable
from unwind.program.slots import Slots
from unwind.program.ways import ANY_WAY, Family, Masks, Reach, Way, bits, union


@dataclass(frozen=True, slots=True)
class Entered:
    """The functions that a call through a pointer can end up in."""

    members: Masks
    jumped: Masks  # those of them that a direct jump enters, not counting the jumps of thunks
    ways: frozenset[Way]  # through which control goes; ANY_WAY among them: any slot
    beyond: frozenset[int] = frozenset()  # candidates of all modules that jumps to imports enter, where those count


_NOTHING = Entered({}, {}, frozenset())


class Dispatch:
    """What calls and jumps through pointers lead to in one program, with the tables of all programs of its process.

    Args:
        slots: what its own tables say.
        types, objects: the declared types of objects, and which function has an object of which type.
        everybody: the dispatches of all modules of the process: each may tail-call functions of another.
        borrow: returns the group of vtables of another module that a vtable pointer points into, as far as functions
            are in its slots.
        bound_in: returns the functions that the loader binds by name in a slot of its vtables.
        exported: returns the function of a name; None: it is not certain which.
        imports: returns what the jumps of a class to imports reach, by address.
        located: returns those of some candidates of all modules that are functions here.
        hides_jumps: it has methods whose jumps through pointers are in no table.
    """

    def __init__(
        self,
        slots: Slots,
        types: Sequence[ObjectType] = (),
        objects: Sequence[TypedObject] = (),
        everybody: Callable[[], Iterable[Dispatch]] | None = None,
        borrow: Callable[[int], Sequence[Vtable]] = lambda _: (),
        bound_in: Callable[[int], Collection[str]] = lambda _: (),
        exported: Callable[[str], Masks | None] = lambda _: None,
        imports: Callable[[int], Mapping[int, Reach]] = lambda _: {},
        located: Callable[[Iterable[int]], Masks] = lambda _: {},
        *,
        hides_jumps: bool = False,
    ) -> None:
        self.slots = slots
        self._families = [Family(frozenset(each.groups), bound_in) for each in types]
        self._own_families = frozenset(self._families)
        self._objects = objects
        self._everybody = everybody or (lambda: [self])
        self._exported, self._borrow = exported, borrow
        self._borrowed: dict[int, Sequence[Vtable]] = {}  # by vtable pointer
        self._imports, self._located = imports, located
        self._hides_jumps = hides_jumps
        self._imports_of: dict[int, Mapping[int, Reach]] = {}  # by class
        self._entered: dict[tuple[Way, bool], Entered] = {}
        self._directly: dict[tuple[Way, bool], Entered] = {}

    def knows(self, vptr: int) -> bool:
        """Return whether a vtable that matters is there, here or in another module."""
        return vptr in self.slots.vtables or bool(self._group(vptr))

    def _group(self, vptr: int) -> Sequence[Vtable]:
        """Return the vtables of the group that a vtable pointer points into; none if it does not matter."""
        own = self.slots.vtables.get(vptr)
        if own is not None:
            return self.slots.groups[own.group]
        found = self._borrowed.get(vptr)
        if found is None:
            found = self._borrowed[vptr] = self._borrow(vptr)
        return found

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
            for each in self.slots.left_by.get(class_idx, ())
            if each.jump not in but
            for way in self.ways(each.slot, each.object, class_idx, members)
        )

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
        mask = self.slots.taken[class_idx] if anywhere or STORED_POINTER in slots else 0
        for each in vtable.slots:
            if (anywhere or each.slot in slots) and each.function.class_idx == class_idx:
                mask |= self.slots.mask(each.function)
        for other in group:
            for each in other.slots:
                if anywhere or each.slot in slots:
                    mask |= self.slots.by_thunk(each.function, class_idx)
        return mask

    def _may_be_of(self, vtable: Vtable, family: Family | None) -> bool:
        """Return whether an object of a type may have a vtable, here or in another module."""
        if family is None or vtable.group in family.groups:
            return True
        return vtable.vaddr not in self.slots.vtables and family not in self._own_families

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
            union((landed, *(part.members for part in parts))),
            union((landed, *(part.jumped for part in parts))),
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
                first = self.slots.in_slot(slot)
            elif family is None:
                first = self.slots.of_slot.get(slot, {})
                known = self._from_names if by_names else self._from_anywhere
            elif family in self._own_families:
                first = self._of_family(slot, family)
                known = self._jump_on(self.slots.unlisted, _NOTHING, by_names=True) if by_names else self._from_unlisted
            else:  # of another module, which has all classes of that type
                first = self._bound_to(slot, family)
            found = self._directly[way, by_names] = self._jump_on(first, known, by_names=by_names)
        return found

    def _of_family(self, slot: int, family: Family) -> Masks:
        """Return the functions in a slot of the vtables of a type."""
        return union(masks for group, masks in self.slots.by_group.get(slot, {}).items() if group in family.groups)

    def _bound_to(self, slot: int, family: Family) -> Masks:
        """Return the functions that are in a slot of another module's vtables, as far as names show."""
        found = [self._exported(symbol) for symbol in family.bound_in(slot)]
        return union(self.slots.anywhere if each is None else each for each in found)

    @cached_property
    def _from_anywhere(self) -> Entered:
        """The functions that are entered whatever the slot."""
        return self._jump_on(self.slots.anywhere, _NOTHING)

    @cached_property
    def _from_names(self) -> Entered:
        """The same, where jumps to imports lead to what their names mean."""
        return self._jump_on(self.slots.anywhere, _NOTHING, by_names=True)

    @cached_property
    def _from_unlisted(self) -> Entered:
        """The functions that are entered whatever the slot, if the table is that of an object of C++."""
        return self._jump_on(self.slots.unlisted, _NOTHING)

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
            for idx in bits(new & self.slots.jumping.get(class_idx, 0)):
                landings = self.slots.jumps[class_idx, idx]
                todo += landings
                if (class_idx, idx) not in self.slots.thunks:
                    landed += landings
        while landed:  # a jump may also lead to a thunk
            class_idx, mask = landed.pop()
            new = mask & ~jumped.get(class_idx, 0)
            if not new:
                continue
            jumped[class_idx] = jumped.get(class_idx, 0) | new
            for idx in bits(new & self.slots.jumping.get(class_idx, 0)):
                landed += self.slots.jumps[class_idx, idx]
        return Entered(members, jumped, frozenset(ways), frozenset(beyond))

    def _imports_from(self, class_idx: int) -> Mapping[int, Reach]:
        """Return what the jumps of a class to imports reach, by address; a jump that is not known is not among them."""
        if class_idx not in self.slots.left_by:
            return {}
        found = self._imports_of.get(class_idx)
        if found is None:
            found = self._imports_of[class_idx] = self._imports(class_idx)
        return found
