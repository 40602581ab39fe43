"""The types of the objects that virtual functions are called for, as far as they are declared.

    void Circle::accept(Visitor& v) { v.visit(*this); }        mov (%rsi), %rax;  jmp *16(%rax)

    the code                the object is what %rsi points to on entry       icf.code.indirect
    the function's name     that is a Visitor                                linkpass.pointers.declared_objects
    variables at the call   where parameters do not tell it                  linkpass.pointers.local_objects
    RTTI                    its vtable is one of these groups                linkpass.pointers.hierarchy

C++ says: the object of a virtual call is of the declared class, or of one that derives from it. One instruction can
stand for several functions, whose parameters differ, so each member has its own type.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.dwarf.children import ChildReader
from icf.dwarf.layouts import DieRows
from icf.model import STORED_POINTER
from icf.sets import difference, distinct, in_order_met, rows_of_runs, runs
from icf.vtables.layout import Vtables
from linkpass.linked import Linked
from linkpass.pointer_jumps import PointerJumps
from linkpass.pointers.address_taken import Marks
from linkpass.pointers.class_names import ClassNames
from linkpass.pointers.declared_objects import DeclaredObjects
from linkpass.pointers.hierarchy import Hierarchy
from linkpass.pointers.local_objects import LocalObjects
from linkpass.pointers.object_places import Places, find_places
from linkpass.pointers.typed_members import TypedMembers, in_short
from linkpass.pointers.virtual_calls import Virtual


class ObjectTypes(NamedTuple):
    """Types, objects, and the objects of calls and jumps: 1 + the number of one, 0 for none."""

    types: list[tuple[int, ...]]  # the groups of vtables with a slot that matters
    objects: TypedMembers  # numbered without gaps
    of_call: I64  # of each virtual call
    of_jump: I64  # of each jump through a pointer

    @property
    def object_count(self) -> int:
        """The number of objects."""
        return int(self.objects.object.max(initial=-1)) + 1


class _Types:
    """Numbers types in the order in which they are met."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self.number_of: dict[tuple[int, ...], int] = {}  # by groups

    def groups_of(self, name: str) -> tuple[int, ...]:
        """Return the groups of the vtables of a class; none if there may be others."""
        return self._hierarchy.groups_of(name)

    def number(self, groups: tuple[int, ...]) -> int:
        """Return the number of the type with these groups; -1 for none."""
        return self.number_of.setdefault(groups, len(self.number_of)) if groups else -1


def find_object_types(
    linked: Linked, vtables: Vtables, pointers: PointerJumps, marks: Marks, virtual: Virtual
) -> ObjectTypes:
    """Return the types of the objects of the virtual calls and jumps that matter."""
    hierarchy = Hierarchy(linked.image, vtables, distinct(virtual.slots.group))
    sites = np.array([site for site, _, _ in virtual.calls], np.uint64)
    objects = np.zeros(len(sites) + len(pointers.jump), np.int64)  # of calls, then of jumps
    typed, types = TypedMembers.of([]), _Types(hierarchy)
    if hierarchy.has_types:
        rows, class_names = DieRows(ChildReader(linked.debug)), ClassNames(linked.debug)
        typed = _add_declared(
            objects, linked, pointers, sites, DeclaredObjects(linked, marks, rows, class_names), types
        )
        is_slot = (pointers.slot >= 0) & (pointers.slot != STORED_POINTER)
        is_open = (objects == 0) & np.concatenate([np.ones(len(sites), np.bool_), is_slot])
        places = find_places(linked, pointers, sites, is_open)
        local = _add_local(objects, linked, places, LocalObjects(linked, rows, class_names), types)
        typed = typed.followed_by(local)
    return ObjectTypes(list(types.number_of), typed, objects[: len(sites)], objects[len(sites) :])


def _add_declared(
    objects: I64, linked: Linked, pointers: PointerJumps, sites: U64, declared: DeclaredObjects, types: _Types
) -> TypedMembers:
    """Set the objects of calls and jumps that arguments lead to; return their types."""
    keys, bodies, paths = _with_paths(linked, pointers, sites)
    first, object_of = in_order_met(np.column_stack([bodies.astype(np.int64), paths]))
    bodies, paths = bodies[first], paths[first]
    linked.finder.prepare(difference(bodies, linked.vaddrs))
    names = declared.classes_of(bodies, paths)
    number_of = {name: types.number(types.groups_of(name)) for name in dict.fromkeys(names)}
    type_ = np.array([number_of[name] for name in names], np.int64)
    object_, member = rows_of_runs(np.zeros(len(bodies), np.int64), linked.member_counts(bodies))
    typed = TypedMembers(object_, bodies[object_], member, type_)
    typed = in_short(linked, typed.rows(type_ >= 0))
    known, start, end = runs(typed.object)
    number = np.zeros(len(bodies), np.int64)
    number[known] = np.arange(1, len(known) + 1)
    objects[keys] = number[object_of]
    return typed._replace(object=np.repeat(np.arange(len(known)), end - start))


def _with_paths(linked: Linked, pointers: PointerJumps, sites: U64) -> tuple[I64, U64, I64]:
    """Return the calls and jumps whose object an argument leads to: row among calls and jumps, body, path."""
    known = np.flatnonzero(pointers.call_object[:, 0] >= 0)
    known = known[np.argsort(pointers.call_end[known], kind="stable")]
    at = np.searchsorted(pointers.call_end[known], sites, side="right") - 1
    calls = np.flatnonzero(at >= 0)
    calls = calls[pointers.call_end[known[at[calls]]] == sites[calls]]
    bodies = linked.bodies.starts_at(sites[calls] - np.uint64(1))
    calls, bodies = calls[bodies != 0], bodies[bodies != 0]
    jumps = np.flatnonzero(pointers.object[:, 0] >= 0)
    return (
        np.concatenate([calls, len(sites) + jumps]),
        np.concatenate([bodies, pointers.body[jumps]]),
        np.concatenate([pointers.call_object[known[at[calls]]], pointers.object[jumps]]),
    )


def _add_local(
    objects: I64, linked: Linked, places: Places, local_objects: LocalObjects, types: _Types
) -> TypedMembers:
    """Set the objects of calls and jumps that only variables tell there; return their types."""
    linked.finder.prepare(difference(places.body, linked.vaddrs))
    found: list[tuple[int, int, int, int]] = []
    for (place, member), names in sorted(local_objects.classes_of(places).items()):
        each = [types.groups_of(name) for name in names.sure]
        if each and all(each):
            groups = tuple(sorted(set().union(*each, *map(types.groups_of, names.possible))))
            found.append((place, int(places.body[place]), member, types.number(groups)))
    typed = in_short(linked, TypedMembers.of(found))
    known = int(objects.max(initial=0))
    number_of: dict[tuple[int, ...], int] = {}  # several calls have objects of the same types
    kept: list[I64] = []
    for place, start, end in zip(*(column.tolist() for column in runs(typed.object)), strict=True):
        key = (int(typed.body[start]), *typed.member[start:end].tolist(), *typed.type[start:end].tolist())
        if key not in number_of:
            number_of[key] = known + len(number_of)
            kept.append(np.arange(start, end))
        objects[places.key[place]] = number_of[key] + 1
    counts = list(map(len, kept))
    typed = typed.rows(np.concatenate([np.empty(0, np.int64), *kept]))
    return typed._replace(object=np.repeat(np.arange(known, known + len(counts)), counts))
