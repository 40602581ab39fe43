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

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from icf.dwarf.children import ChildReader
from icf.dwarf.layouts import DieRows
from icf.model import ALL_MEMBERS, STORED_POINTER
from icf.sets import distinct, is_in
from icf.vtables.layout import Vtables
from linkpass.linked import Linked
from linkpass.pointer_jumps import PointerJumps
from linkpass.pointers.address_taken import Marks
from linkpass.pointers.declared_objects import DeclaredObjects, Holder
from linkpass.pointers.hierarchy import Hierarchy
from linkpass.pointers.local_objects import Classes, LocalObjects, Place, dwarf_register
from linkpass.pointers.virtual_calls import Virtual


class Row(NamedTuple):
    """The type of an object in one member of a body, or in ALL_MEMBERS."""

    body: int
    member: int
    type: int  # index in `ObjectTypes.types`


@dataclass(slots=True)
class ObjectTypes:
    """Types, objects, and the objects of calls and jumps: 1 + the index of one."""

    types: list[tuple[int, ...]] = field(default_factory=list)  # the groups of vtables with a slot that matters
    objects: list[list[Row]] = field(default_factory=list)
    of_call: dict[int, int] = field(default_factory=dict)  # by return address
    of_jump: dict[tuple[int, int], int] = field(default_factory=dict)  # by address and slot


_Key = tuple[int, tuple[int, ...]]  # an object: a body, and the path to it (`icf.code.indirect`)


def find_object_types(
    linked: Linked, vtables: Vtables, pointers: PointerJumps, marks: Marks, virtual: Virtual
) -> ObjectTypes:
    """Return the types of the objects of the virtual calls and jumps that matter."""
    hierarchy = Hierarchy(linked.image, vtables, distinct(virtual.slots.group))
    if not hierarchy.has_types:
        return ObjectTypes()
    calls, jumps = _objects_of_calls(linked, pointers, virtual), _objects_of_jumps(pointers)
    keys = list(dict.fromkeys([*calls.values(), *jumps.values()]))
    linked.finder.prepare(np.array(sorted({body for body, _ in keys}.difference(linked.folds)), np.uint64))
    holders = [Holder(body, idx, path) for body, path in keys for idx in range(len(linked.members(body)))]
    rows = DieRows(ChildReader(linked.debug))
    names = DeclaredObjects(linked, marks, rows).classes_of(holders)
    found, numbers = ObjectTypes(), dict.fromkeys(keys, 0)
    type_of: dict[tuple[int, ...], int] = {}
    rows_of: dict[_Key, list[Row]] = {}
    for (body, idx, path), name in zip(holders, names, strict=True):
        groups = hierarchy.groups_of(name)
        if groups:
            row = Row(body, idx, type_of.setdefault(groups, len(type_of)))
            rows_of.setdefault((body, path), []).append(row)
    for key, typed in rows_of.items():
        numbers[key] = _number(found, _in_short(linked, key[0], typed))
    found.of_call = {site: numbers[key] for site, key in calls.items()}
    found.of_jump = {place: numbers[key] for place, key in jumps.items()}
    _add_locals(found, linked, pointers, virtual, LocalObjects(linked, rows), hierarchy, type_of)
    found.types = list(type_of)
    return found


def _add_locals(
    found: ObjectTypes,
    linked: Linked,
    pointers: PointerJumps,
    virtual: Virtual,
    local_objects: LocalObjects,
    hierarchy: Hierarchy,
    type_of: dict[tuple[int, ...], int],
) -> None:
    """Add the types of objects that only variables tell, at the call or jump itself."""
    sites = [site for site, _, _ in virtual.calls if not found.of_call.get(site)]
    is_slot = (pointers.slot >= 0) & (pointers.slot != STORED_POINTER)
    jumps = [
        place
        for place in zip(pointers.jump[is_slot].tolist(), pointers.slot[is_slot].tolist(), strict=True)
        if not found.of_jump.get(place)
    ]
    keys: list[int | tuple[int, int]] = [*sites, *jumps]
    ends = sites + [jump for jump, _ in jumps]
    places = _places(linked, pointers, dict(zip(ends, keys, strict=True)))
    linked.finder.prepare(
        np.array(sorted({place.body for place in places.values()}.difference(linked.folds)), np.uint64)
    )
    classes = local_objects.classes_of(list(places.values()))
    number_of: dict[tuple[Row, ...], int] = {}
    for idx, (key, place) in enumerate(places.items()):
        typed = []
        for member in range(len(linked.members(place.body))):
            names = classes.get((idx, member), Classes())
            each = [hierarchy.groups_of(name) for name in names.sure]
            if each and all(each):
                groups = tuple(sorted(set().union(*each, *map(hierarchy.groups_of, names.possible))))
                typed.append(Row(place.body, member, type_of.setdefault(groups, len(type_of))))
        typed = _in_short(linked, place.body, typed)
        number = number_of.get(tuple(typed))
        if number is None:
            number = number_of[tuple(typed)] = _number(found, typed)
        if isinstance(key, tuple):
            found.of_jump[key] = number
        else:
            found.of_call[key] = number


def _places(
    linked: Linked, pointers: PointerJumps, key_of: dict[int, int | tuple[int, int]]
) -> dict[int | tuple[int, int], Place]:
    """Return the calls and jumps whose object is found from a register."""
    wanted = np.flatnonzero(is_in(pointers.holder_end, np.array(sorted(key_of), np.uint64)))
    bodies = linked.bodies.starts_at(pointers.holder[wanted])
    functions = linked.functions
    cut = functions.die[functions.part > 0]
    in_parts = set(functions.low[is_in(functions.die, distinct(cut))].tolist())
    columns = (pointers.holder[wanted], pointers.holder_end[wanted], bodies)
    values = zip(pointers.holder_register[wanted].tolist(), pointers.holder_offset[wanted].tolist(), strict=True)
    found: dict[int | tuple[int, int], Place] = {}
    for address, end, body, (register, offset) in zip(*(column.tolist() for column in columns), values, strict=True):
        fold = linked.folds.get(body)
        if body and body not in in_parts and not (fold is not None and fold.fragment):
            place = found.setdefault(key_of[end], Place(address, body, {}))
            place.offsets[dwarf_register(linked.image.machine, register)] = offset
    return found


def _number(found: ObjectTypes, rows: list[Row]) -> int:
    """Add an object, if there are rows of it; return its number, 0 for none."""
    if rows:
        found.objects.append(rows)
    return len(found.objects) if rows else 0


def _objects_of_calls(linked: Linked, pointers: PointerJumps, virtual: Virtual) -> dict[int, _Key]:
    known = np.flatnonzero(pointers.call_object[:, 0] >= 0)
    row_of = dict(zip(pointers.call_end[known].tolist(), known.tolist(), strict=True))
    sites = [site for site, _, _ in virtual.calls if site in row_of]
    bodies = linked.bodies.starts_at(np.array(sites, np.uint64) - np.uint64(1)).tolist()
    paths = map(tuple, pointers.call_object[[row_of[site] for site in sites]].tolist())
    return {site: (body, path) for site, body, path in zip(sites, bodies, paths, strict=True) if body}


def _objects_of_jumps(pointers: PointerJumps) -> dict[tuple[int, int], _Key]:
    known = pointers.object[:, 0] >= 0
    paths = map(tuple, pointers.object[known].tolist())
    places = zip(pointers.jump[known].tolist(), pointers.slot[known].tolist(), strict=True)
    return dict(zip(places, zip(pointers.body[known].tolist(), paths, strict=True), strict=True))


def _in_short(linked: Linked, body: int, rows: list[Row]) -> list[Row]:
    """Return one row for every member, if they agree; none of a body that the tables need not list otherwise."""
    fold = linked.folds.get(body)
    is_complete = body not in linked.undescribed and (fold is None or fold.complete)
    if is_complete and len(rows) == len(linked.members(body)) and len({row.type for row in rows}) == 1:
        return [rows[0]._replace(member=ALL_MEMBERS)]
    return rows if fold is not None else []
