"""From calls to the bytes of the side table.

Of the calls those count whose callee is merged, or leads to a merged function by tail calls; others the code itself
names. The classes are those of merged bodies, and of the functions that such a record or tail call is about.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.model import Evidence, MemberRef, TailCall, Vaddr
from icf.pdb.functions import PdbBody
from icf.pe.classes import fold_class
from icf.pe.image import PeImage
from icf.pe.sidetable import SideTable
from icf.tables.dcall import DirectCalls, encode_dcall
from icf.tables.icftable import IcfTable, encode_icf
from linkpass.pe.calls import ObjectCalls
from linkpass.pe.members import Function, Members

_ALL_RECORDS = np.zeros(1, np.uint64), np.full(1, 1 << 63, np.uint64)  # one unit, of all numbers


class Made(NamedTuple):
    """The side table, and what is in it."""

    table: SideTable
    records: DirectCalls
    tail_calls: int


def make_table(image: PeImage, members: Members, calls: ObjectCalls) -> Made:
    """Return the side table of an image; the same input makes the same bytes."""
    bodies = members.bodies
    leading = _leading(bodies, calls)
    listed = {row for row, body in enumerate(bodies) if len(body.members) > 1}
    records, jumps = [], []
    for caller, branches in sorted(calls.branches.items()):
        for branch in sorted(branches):
            if branch.callee.body not in leading:
                continue
            listed |= {caller.body, branch.callee.body}
            if branch.is_call:
                records.append((branch.end, _number(bodies, branch.callee), _number(bodies, caller)))
            else:
                jumps.append((branch.start, caller, branch.callee))
    order = sorted(listed)
    place = {row: idx for idx, row in enumerate(order)}
    classes = [fold_class(image, bodies[row], complete=members.complete) for row in order]
    tail_calls = [
        TailCall(
            Vaddr(jump), MemberRef(place[caller.body], caller.member), MemberRef(place[callee.body], callee.member)
        )
        for jump, caller, callee in jumps
    ]
    direct = DirectCalls.of(records)
    dcall, _ = encode_dcall(direct, *_ALL_RECORDS)
    evidence = bytes([int(Evidence.OBJECT)]) * len(direct)
    icf = encode_icf(IcfTable(classes, tail_calls, evidence, code_digest=image.code_digest), {})
    return Made(SideTable(image.build_id, icf, dcall, b""), direct, len(tail_calls))


def _leading(bodies: list[PdbBody], calls: ObjectCalls) -> set[int]:
    """Return the bodies that are merged, or lead to one that is by tail calls."""
    into: dict[int, set[int]] = {}
    for caller, branches in calls.branches.items():
        for branch in branches:
            if not branch.is_call:
                into.setdefault(branch.callee.body, set()).add(caller.body)
    leading = {row for row, body in enumerate(bodies) if len(body.members) > 1}
    todo = [*leading]
    while todo:
        new = into.get(todo.pop(), set()) - leading
        leading |= new
        todo += new
    return leading


def _number(bodies: list[PdbBody], function: Function) -> int:
    return bodies[function.body].members[function.member].number
