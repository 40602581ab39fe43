"""The records of calls and tail calls as the tables have them: by DIEs, and by rows of members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U8, U64
from icf.model import ALL_MEMBERS
from icf.sets import runs
from icf.tables.dcall import DirectCalls
from linkpass.evidence.collect import Collected
from linkpass.tables.rows import Rows


class TailCalls(NamedTuple):
    """Columns of `icf.tables.icftable.IcfColumns`."""

    jump: U64
    caller: U64
    callee: U64


def call_slots(collected: Collected) -> I64:
    """Return the slots of calls with a callee."""
    slots = np.flatnonzero(collected.records.is_known)
    return slots[~collected.reach.is_jump[collected.records.slots.branch[slots]]]


def jump_slots(collected: Collected) -> I64:
    """Return the slots of jumps out of their function, ascending, with and without a callee."""
    records = collected.records
    is_jump = records.is_known & collected.reach.is_jump[records.slots.branch]
    is_jump[collected.open_jumps] = True
    return np.flatnonzero(is_jump)


def direct_calls(collected: Collected, rows: Rows) -> tuple[DirectCalls, U8]:
    """Return the records of calls and the evidence of each, by call site, callee, caller."""
    records, reach = collected.records, collected.reach
    slots = call_slots(collected)
    branch = records.slots.branch[slots]
    site, evidence = reach.end[branch], records.evidence[slots]
    callee = rows.die[rows.of_members(reach.target[branch], records.callee[slots])]
    caller = rows.die[rows.of_members(reach.source[branch], records.slots.member[slots])]
    order = np.lexsort((evidence, caller, callee, site))
    return DirectCalls(site[order], callee[order], caller[order]), evidence[order]


def tail_calls(collected: Collected, rows: Rows) -> TailCalls:
    """Return the tail calls by address; one for all members of a body if it means the same in each.

    Bodies of visitors have thousands of members that tail-call the same few functions.
    """
    records, reach = collected.records, collected.reach
    slots = jump_slots(collected)
    branch, member = records.slots.branch[slots], records.slots.member[slots]
    callee = np.where(records.is_known[slots], records.callee[slots], ALL_MEMBERS)

    branches, first, end = runs(branch)
    count = end - first
    is_shared = (count > 1) & (count == records.slots.member_count[branches])
    if len(first):
        is_shared &= np.minimum.reduceat(callee, first) == np.maximum.reduceat(callee, first)
    is_united = np.repeat(is_shared, count)
    keep = ~is_united
    keep[first] = True
    branch, member, callee, is_united = branch[keep], member[keep], callee[keep], is_united[keep]

    jump = reach.end[branch] - reach.size[branch]
    caller = np.where(is_united, 0, rows.of_members(reach.source[branch], member) + 1).astype(np.uint64)
    order = np.lexsort((member, jump))
    return TailCalls(jump[order], caller[order], rows.functions(reach.target[branch], callee)[order])
