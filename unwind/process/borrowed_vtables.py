"""The vtables of other modules in which functions of one module stand.

An object's vtable pointer V may lie in another module N than the function of the frame: N's class derives from one of
module M, and does not override all methods; or M's copy of an inline method comes before N's. The loader has filled
those slots by name (`unwind.program.bound_slots`). Such a slot counts as one that has the function which M exports
under this name. Where another module's definition came first, the slot has that one: then the frame was not entered
through the slot, and one candidate too many is left.

V counts for nothing if

    the process may have unknown modules, whose functions may be in the slots
    M exports the name of a slot, and it is not certain which function that is
    so does a module without tables, or without merged functions: it may jump back, and nothing shows where
"""

from __future__ import annotations

from collections.abc import Callable

from icf.model import ALL_MEMBERS, MemberRef, Vaddr, Vtable, VtableSlot
from unwind.program.bound_slots import BoundVtable
from unwind.program.program import Program, VtableGroup


def borrow(program: Program, home: Program, vptr: int, is_replaced: Callable[[str], bool]) -> VtableGroup | None:
    """Return the group of vtables at `vptr`, as linked, of `home`, with the functions of `program` in its slots.

    `is_replaced`: whether a function of `program` may give way to one of another module, which may jump anywhere.
    """
    bound = home.bound_slots.group_of(vptr)
    if not bound:
        return None
    move = home.bias - program.bias
    vtables = []
    for each in bound:
        slots = _slots(program, each, is_replaced)
        if slots is None:
            return None
        vtables.append(Vtable(Vaddr(each.vaddr + move), Vaddr(each.group + move), slots))
    addresses = range(bound[0].group, max(each.vaddr for each in bound) + 1)
    return VtableGroup(home, addresses, home.bound_slots.symbol_of(vptr), tuple(vtables))


def _slots(program: Program, vtable: BoundVtable, is_replaced: Callable[[str], bool]) -> tuple[VtableSlot, ...] | None:
    """Return the slots that may have functions of a program; None: it is not known which functions."""
    found = []
    for slot, symbol in vtable.slots:
        nodes, is_certain = program.nodes_exported(symbol)
        if not is_certain or nodes and is_replaced(symbol):
            return None
        for node in nodes:
            body, idx = program.candidates[node]
            if body.class_idx >= 0:
                member = idx if idx < len(body.members) else ALL_MEMBERS
                found.append(VtableSlot(slot, MemberRef(body.class_idx, member)))
    return tuple(found)
