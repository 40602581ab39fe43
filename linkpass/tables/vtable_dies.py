"""The DIE that describes the class of each vtable.

    vtable          group       _ZTV1A, or its type_info: class 1A
    slots           bodies      a member that is a method of 1A, and the DIEs that declare it
    declaration     DW_AT_containing_type: the class

Every class with a vtable of its own has a method of its own there, at least its destructor, or inherits all of them:
then nothing leads to its DIE, and its name identifies it.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U64
from icf.demangle import demangle
from icf.sets import difference, distinct, distinct_pairs, is_in
from icf.vtables.layout import Vtables
from linkpass.linked import Linked
from linkpass.pointers.class_methods import ClassMethods
from linkpass.tables.synthetic import VtableDie

_LEADS = ("typeinfo for ", "vtable for ")
_DIE_LIMIT = 1 << 32  # of an offset in 32-bit DWARF


def describe_vtables(linked: Linked, vtables: Vtables, points: U64) -> list[VtableDie]:
    """Return the descriptions of the vtables with these address points, in their order."""
    slots, classes = vtables.slots, vtables.classes
    group_of_point = slots.group[np.searchsorted(slots.vtable, points)]
    groups = distinct(group_of_point)
    class_rows = vtables.classes_of(groups)
    is_named = classes.has_name(class_rows)
    types = np.zeros(len(groups), np.uint64)
    types[is_named] = _types(linked, vtables, groups[is_named], class_rows[is_named])
    names = [""] * len(groups)  # of those without a DIE
    for idx in np.flatnonzero(types == 0).tolist():
        (name,) = classes.names(class_rows[idx : idx + 1])
        symbol = f"_ZTI{name}" if name else linked.image.symbols.name(int(vtables.groups.symbol[groups[idx]]))
        names[idx] = _class_name(symbol)
    at = np.searchsorted(groups, group_of_point)
    columns = (points.tolist(), types[at].tolist(), map(names.__getitem__, at.tolist()))
    return [VtableDie(*row) for row in zip(*columns, strict=True)]


def _types(linked: Linked, vtables: Vtables, groups: I64, class_rows: I64) -> U64:
    """Return the DIE of the class of each of these groups, 0 where none is known."""
    slots = vtables.slots
    slot_rows = np.flatnonzero(is_in(slots.group, groups) & is_in(slots.target, linked.bodies.start))
    linked.finder.prepare(difference(slots.target[slot_rows], linked.vaddrs))
    bodies, body_idx = np.unique(slots.target[slot_rows], return_inverse=True)
    group_idx = np.searchsorted(groups, slots.group[slot_rows])
    members = [linked.members(vaddr) for vaddr in bodies.tolist()]
    methods = ClassMethods(members, vtables.classes.names(class_rows))
    body_idx, group_idx = distinct_pairs(body_idx, group_idx)  # a class may have thousands of equal methods
    pair, method = methods.find(body_idx, group_idx)
    is_own = methods.thunk_bytes[method] == 0
    group, member = group_idx[pair[is_own]], methods.member[method[is_own]]

    declared, roots = methods.roots_of(member)
    containing = linked.virtual_dies.containing_types(roots)
    limit = min(len(linked.debug.info), _DIE_LIMIT)
    containing[(containing == 0) | (containing >= limit)] = _DIE_LIMIT
    least = np.full(len(methods.members), _DIE_LIMIT, np.uint64)  # of each member
    np.minimum.at(least, declared, containing)
    types = np.full(len(groups), _DIE_LIMIT, np.uint64)
    np.minimum.at(types, group, least[member])
    types[types == _DIE_LIMIT] = 0
    return types


def _class_name(symbol: str) -> str:
    text = demangle(symbol)
    for lead in _LEADS:
        text = text.removeprefix(lead)
    return text
