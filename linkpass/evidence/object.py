"""Evidence `object`: the objects of the link are at hand.

In an object the relocation of every call names its callee, at any debug level, and an object has all of its
functions, those that were folded, too. So a call in the image is looked up once for each function
that its body stands for:

    image    body of f, g     ... call T      return address R
    object   section of g     ... call ?      relocation at the same place in g: symbol h
    record   at R, in g: h    if h is one of the functions at T

A call through a register has the relocation of the instruction that forms or loads the address. A call of a local
function is relocated against its section, or a symbol that only the object has; either way the
place identifies the function. The assembler resolves a call within its own section, as of a local function
that calls itself: the object then has the operand already.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.elf.types import Machine
from icf.model import Evidence
from icf.sets import in_order_met, is_in, rows_with, runs
from linkpass.evidence.callees import NONE, SEVERAL
from linkpass.evidence.object_callees import ObjectCallees
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Records, Statements
from linkpass.linked import Linked
from linkpass.objects.functions import LinkObjects
from linkpass.objects.wanted import wanted_members
from linkpass.relocation_types import name_callee


class _Callers(NamedTuple):
    """Members with such branches; a row each."""

    vaddr: U64
    member: I64


class _Branches(NamedTuple):
    """Calls and jumps whose callee in one caller is wanted; a row each."""

    slot: I64
    caller: I64  # a row of `_Callers`
    end: U64
    target: U64
    is_jump: Mask
    operand: U64  # of a call through a register, 0 else


def from_objects(linked: Linked, reach: Reach, objects: LinkObjects, records: Records) -> Statements:
    """Return the statements of objects about the calls and jumps into merged bodies that `records` lacks."""
    statements = Statements(Evidence.OBJECT)
    callers, branches = _unknown_branches(linked, reach, records)
    wanted = wanted_members(linked, callers.vaddr, callers.member)
    rows, functions = _in_functions(branches, *objects.definitions(linked.image, wanted))
    slot, end, target = branches.slot[rows], branches.end[rows], branches.target[rows]
    is_jump, operand = branches.is_jump[rows], branches.operand[rows]
    starts = callers.vaddr[branches.caller[rows]]
    ends = np.where(operand != 0, operand + np.uint64(4), end) - starts  # of operands, in their callers
    entries = _entries_of(linked, objects, functions, ends.astype(np.int64), is_jump)
    is_loop = is_jump & (target == starts)
    statements.loops += slot[(entries < 0) & is_loop].tolist()
    beside = np.flatnonzero((entries < 0) & ~is_loop & (operand == 0))
    named = np.flatnonzero(entries >= 0)
    relocations = objects.code.relocations(entries[named])
    names = name_callee(relocations.type, operand[named] != 0, linked.image.machine)
    named, relocations = named[names], relocations.rows(names)
    callees = ObjectCallees(linked, objects, np.concatenate([target[named], target[beside]]))
    is_alone = np.bincount(slot, minlength=1)[slot] == 1  # else one of several functions with a name and code is meant
    found = np.full(len(slot), NONE)
    found[named] = callees.members_of(relocations, target[named], may_learn=is_alone[named])
    columns = functions[beside], end[beside], starts[beside]
    has_operand = [
        objects.has_operand(function, linked.image, own_end, start)
        for function, own_end, start in zip(*(each.tolist() for each in columns), strict=True)
    ]
    beside = beside[np.array(has_operand, np.bool_)]
    distances = (target[beside] - starts[beside]).view(np.int64)
    found[beside] = callees.members_beside(functions[beside], distances, target[beside])
    asked = np.concatenate([named, beside])
    statements.state_found(slot[asked], np.where(_agree(slot, found), found, SEVERAL)[asked])
    return statements


def _agree(slot: I64, found: I64) -> Mask:
    """Return for which rows all those of the same slot have found the same."""
    order = np.lexsort((found, slot))
    _, first, end = runs(slot[order])
    is_same = np.empty(len(slot), np.bool_)
    is_same[order] = np.repeat(found[order[first]] == found[order[end - 1]], end - first)
    return is_same


def _unknown_branches(linked: Linked, reach: Reach, records: Records) -> tuple[_Callers, _Branches]:
    """Return the branches into merged bodies for which `records` has no callee, and their callers.

    The callers stand in the order of their first branches.
    """
    slots = np.flatnonzero(~records.is_known)
    branches = records.slots.branch[slots]
    matter = (reach.source[branches] != 0) & is_in(reach.target[branches], linked.vaddrs)
    slots, branches = slots[matter], branches[matter]
    source, member = reach.source[branches], records.slots.member[slots]
    first, caller = in_order_met(np.stack([source.view(np.int64), member], axis=1))
    end, target, operand = reach.end[branches], reach.target[branches], reach.operand[branches]
    callers = _Callers(source[first], member[first])
    return callers, _Branches(slots, caller, end, target, reach.is_jump[branches], operand)


def _in_functions(branches: _Branches, caller: I64, functions: I64) -> tuple[I64, I64]:
    """Return the rows of the branches of each of these callers, which ascend, and the function that it is there."""
    order = np.argsort(branches.caller, kind="stable")
    which, rows = rows_with(branches.caller[order], caller)
    return order[rows], functions[which]


def _entries_of(linked: Linked, objects: LinkObjects, functions: I64, ends: I64, is_jump: Mask) -> I64:
    """Return the relocation of each operand that ends there in a function, -1 if it has none."""
    entries = objects.code.relocations_at(functions, ends - 4)
    if linked.image.machine is Machine.X86_64:
        # `jmp *f@GOTPCREL(%rip)` relaxed is one byte shorter than it was: its operand ends before the nop
        shorter = np.flatnonzero((entries < 0) & is_jump)
        entries[shorter] = objects.code.relocations_at(functions[shorter], ends[shorter] - 3)
    return entries
