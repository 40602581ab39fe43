"""From calls to the bytes of the side table.

Of the calls those count whose callee is merged, or leads to a merged function by tail calls; others the code itself
names. The classes are those of merged bodies, of the functions that such a record or tail call is about, and of those
that a pointer leads to or that leave through one (`linkpass.pe.reach`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icf.code.indirect import NO_SLOT
from icf.model import (
    ALL_MEMBERS,
    ClassFlag,
    Evidence,
    FoldClass,
    MemberFlag,
    MemberRef,
    PointerJump,
    TailCall,
    Vaddr,
    Vtable,
    VtableSlot,
)
from icf.pdb.functions import PdbBody
from icf.pe.classes import fold_class
from icf.pe.image import PeImage
from icf.pe.sidetable import SideTable, table_key
from icf.tables.dcall import DirectCalls, encode_dcall
from icf.tables.icftable import IcfTable
from icf.tables.icfwriter import encode_icf
from icf.tables.vcall import VirtualCalls, encode_vcall
from linkpass.pe.calls import ObjectCalls
from linkpass.pe.members import Function, Members
from linkpass.pe.pointers import Pointers
from linkpass.pe.reach import Reach, leading

_ALL_RECORDS = np.zeros(1, np.uint64), np.full(1, 1 << 63, np.uint64)  # one unit, of all numbers


class Made(NamedTuple):
    """The side table, and what is in it."""

    table: SideTable
    records: DirectCalls
    virtual_calls: VirtualCalls
    icf: IcfTable


def make_table(image: PeImage, members: Members, calls: ObjectCalls, reach: Reach, pointers: Pointers) -> Made:
    """Return the side table of an image; the same input makes the same bytes."""
    bodies = members.bodies
    wanted = _leading(bodies, calls)
    listed = set(reach.wanted)
    records: list[tuple[int, int, int]] = []
    jumps: list[tuple[int, Function, Function]] = []
    for caller, branches in sorted(calls.branches.items()):
        for branch in sorted(branches):
            if branch.callee.body not in wanted:
                continue
            listed |= {caller.body, branch.callee.body}
            if branch.is_call:
                records.append((branch.end, _number(bodies, branch.callee), _number(bodies, caller)))
            else:
                jumps.append((branch.start, caller, branch.callee))
    jumps += [(jump, caller, Function(caller.body, ALL_MEMBERS)) for jump, caller in pointers.self_jumps]
    order = sorted(listed)
    place = {row: idx for idx, row in enumerate(order)}
    classes = [_class(image, members, row, reach, pointers) for row in order]
    tail_calls = [TailCall(Vaddr(jump), _ref(place, caller), _ref(place, callee)) for jump, caller, callee in jumps]
    direct = DirectCalls.of(records)
    dcall, _ = encode_dcall(direct, *_ALL_RECORDS)
    vtables = _vtables(place, reach, pointers)
    virtual = _virtual_calls(vtables, reach)
    vcall, _ = encode_vcall(virtual)
    pairs = zip(reach.pointers.jump.tolist(), reach.pointers.slot.tolist(), strict=True)
    icf = IcfTable(
        classes,
        tail_calls,
        bytes([int(Evidence.OBJECT)]) * len(direct),
        bytes([int(Evidence.DECODED)]) * len(virtual),
        pointer_jumps=[PointerJump(Vaddr(jump), slot) for jump, slot in sorted(set(pairs))],
        vtables=vtables,
        code_digest=image.code_digest,
    )
    return Made(SideTable(table_key(image), encode_icf(icf, {}), dcall, vcall), direct, virtual, icf)


def _class(image: PeImage, members: Members, row: int, reach: Reach, pointers: Pointers) -> FoldClass:
    """Return a body as a class, with what is known of pointers and calls to it."""
    found = fold_class(image, members.bodies[row], complete=members.complete)
    flags = found.flags
    if row in pointers.known:
        flags |= ClassFlag.ADDRESS_TAKEN_KNOWN
    if row in reach.called and row not in pointers.incomplete:
        flags |= ClassFlag.CALLS_COMPLETE
    marks = (pointers.marks.get(Function(row, idx), MemberFlag.NONE) for idx in range(len(found.members)))
    marked = (each._replace(flags=each.flags | mark) for each, mark in zip(found.members, marks, strict=True))
    return found._replace(flags=flags, members=tuple(marked))


def _vtables(place: dict[int, int], reach: Reach, pointers: Pointers) -> list[Vtable]:
    """Return the vftables with the slots that matter."""
    slots: dict[int, list[VtableSlot]] = {}
    for (vaddr, slot), function in sorted(pointers.slots.items()):
        if function.body in reach.wanted:
            slots.setdefault(vaddr, []).append(VtableSlot(slot, _ref(place, function)))
    return [Vtable(Vaddr(vaddr), Vaddr(vaddr), tuple(each)) for vaddr, each in slots.items()]


def _virtual_calls(vtables: Sequence[Vtable], reach: Reach) -> VirtualCalls:
    """Return the calls by slots that matter."""
    wanted = {each.slot for vtable in vtables for each in vtable.slots}
    pairs = zip(reach.pointers.call_end.tolist(), reach.pointers.call_slot.tolist(), strict=True)
    return VirtualCalls.of([(site, slot) for site, slot in pairs if slot != NO_SLOT and slot in wanted])


def _ref(place: dict[int, int], function: Function) -> MemberRef:
    return MemberRef(place[function.body], function.member)


def _leading(bodies: list[PdbBody], calls: ObjectCalls) -> frozenset[int]:
    """Return the bodies that are merged, or lead to one that is by tail calls."""
    into: dict[int, set[int]] = {}
    for caller, branches in calls.branches.items():
        for branch in branches:
            if not branch.is_call:
                into.setdefault(branch.callee.body, set()).add(caller.body)
    return leading(into, (row for row, body in enumerate(bodies) if len(body.members) > 1))


def _number(bodies: list[PdbBody], function: Function) -> int:
    return bodies[function.body].members[function.member].number
