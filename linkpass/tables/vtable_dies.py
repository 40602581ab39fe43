"""The DIE that describes the class of each vtable.

    vtable          group       _ZTV1A, or its type_info: class 1A
    slots           bodies      a member that is a method of 1A, and the DIEs that declare it
    declaration     DW_AT_containing_type: the class

Every class with a vtable of its own has a method of its own there, at least its destructor, or inherits all of them:
then nothing leads to its DIE, and its name identifies it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from icf.demangle import demangle
from icf.dwarf.dies import read_dies
from icf.sets import difference, is_in
from icf.vtables.layout import Vtables
from linkpass.linked import Linked
from linkpass.tables.synthetic import VtableDie

_LEADS = ("typeinfo for ", "vtable for ")
_DIE_LIMIT = 1 << 32  # of an offset in 32-bit DWARF


def describe_vtables(linked: Linked, vtables: Vtables, points: Sequence[int]) -> list[VtableDie]:
    """Return the descriptions of the vtables with these address points."""
    groups, slots = vtables.groups, vtables.slots
    group_of = dict(zip(slots.vtable.tolist(), slots.group.tolist(), strict=True))
    wanted = sorted({group_of[point] for point in points})
    names = {group: vtables.classes[vtables.typeinfo_of(group)].name for group in wanted}
    types = _types(linked, vtables, {group: name for group, name in names.items() if name})
    described = []
    for point in points:
        group = group_of[point]
        symbol = f"_ZTI{names[group]}" if names[group] else linked.image.symbols.name(int(groups.symbol[group]))
        described.append(VtableDie(point, types.get(group, 0), _class_name(symbol)))
    return described


def _types(linked: Linked, vtables: Vtables, class_of: dict[int, str]) -> dict[int, int]:
    """Return the DIE of the class of each of these groups, where one is known."""
    slots = vtables.slots
    groups = np.array(sorted(class_of), np.uint64)
    rows = np.flatnonzero(is_in(slots.group, groups) & is_in(slots.target, linked.bodies.start))
    linked.finder.prepare(difference(slots.target[rows], linked.vaddrs))
    declared: dict[int, set[int]] = {}
    for group, vaddr in zip(slots.group[rows].tolist(), slots.target[rows].tolist(), strict=True):
        for method in linked.methods(vaddr).of_class(class_of[group]):
            if not method.thunk:
                declared.setdefault(group, set()).update(linked.members(vaddr).roots_of(method.function))
    dies = np.array(sorted(set[int]().union(*declared.values())), np.uint64)
    containing = read_dies(linked.debug, dies).containing_type
    limit = min(len(linked.debug.info), _DIE_LIMIT)
    type_of = {die: at for die, at in zip(dies.tolist(), containing.tolist(), strict=True) if 0 < at < limit}
    known = {group: [type_of[die] for die in found if die in type_of] for group, found in declared.items()}
    return {group: min(types) for group, types in known.items() if types}


def _class_name(symbol: str) -> str:
    text = demangle(symbol)
    for lead in _LEADS:
        text = text.removeprefix(lead)
    return text
