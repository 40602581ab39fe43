"""Evidence `dwarf` and `table`: a call site, the DIE of its caller, the DIE of its callee.

Compilers describe calls by DW_TAG_call_site; the callee is an origin, often a mere declaration. A
`.debug_dcall` in the image has the same in fewer bytes (`icf.folds.calltable` reads it). Either is
believed only where the machine code agrees: a direct call ends at that address, and its target is the body of
exactly one member that the callee DIE can mean. As addresses of folded functions are restored (gold never overwrites
them), one return address may have several callers, each with a statement of its own.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U64
from icf.dwarf.columns import AT_INSTRUCTION, TAIL_CALL
from icf.dwarf.scan import CallSites
from icf.elf.types import Machine
from icf.model import Evidence
from icf.sets import is_in
from icf.tables.dcall import DirectCalls
from linkpass.evidence.callees import Callees
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import SEVERAL_CALLEES, Statements
from linkpass.evidence.slots import Slots
from linkpass.evidence.targets import Targets
from linkpass.linked import Linked


def from_call_sites(linked: Linked, reach: Reach, slots: Slots, sites: CallSites) -> Statements:
    """Return the statements of DWARF's call sites about the branches."""
    tail = (sites.flags & TAIL_CALL) != 0
    call_size = 4 if linked.image.machine is Machine.AARCH64 else 5
    at_instruction = (sites.flags & AT_INSTRUCTION) != 0
    end = np.where(at_instruction & ~tail, sites.pc + np.uint64(call_size), sites.pc)
    jump_start = reach.end[reach.jumps] - reach.size[reach.jumps]
    matched = [
        _match(np.flatnonzero(~tail), end, reach.end[reach.calls], 0),
        _match(np.flatnonzero(tail & ~at_instruction), end, reach.end[reach.jumps], reach.jumps.start),
        _match(np.flatnonzero(tail & at_instruction), end, jump_start, reach.jumps.start),
    ]
    rows, branches = (np.concatenate(column) for column in zip(*matched, strict=True))
    source, target = reach.source[branches], reach.target[branches]
    caller = linked.members_of_dies(source, sites.caller[rows])
    callee = _members_meant(linked, target, sites.origin[rows])

    statements = Statements(Evidence.DWARF)
    inside = np.flatnonzero(caller >= 0)
    if len(inside) < len(rows):
        statements.dropped["the call lies in another function"] = len(rows) - len(inside)
    statements.state_found(slots.at(branches[inside], caller[inside]), callee[inside])
    return statements


def _match(rows: I64, key: U64, branch_keys: U64, first: int) -> tuple[I64, I64]:
    """Match sites to branches by address; `branch_keys` ascend but for jumps of unlike sizes.

    Args:
        rows: rows of the sites.
        key: the address of every site.
        branch_keys: of the branches, whose rows begin with `first`.

    Returns:
        The rows of the sites that are at a branch, and the branch of each.
    """
    if not len(branch_keys):
        return rows[:0], rows[:0]
    order = np.argsort(branch_keys, kind="stable")
    ordered = branch_keys[order]
    at = np.minimum(np.searchsorted(ordered, key[rows]), len(ordered) - 1)
    hit = ordered[at] == key[rows]
    return rows[hit], first + order[at[hit]]


def _members_meant(linked: Linked, vaddrs: U64, origins: U64) -> I64:
    """Return the member of each body that a callee DIE means, NONE or SEVERAL; 0 for bodies that are not merged."""
    found = np.zeros(len(vaddrs), np.int64)
    rows = np.flatnonzero(is_in(vaddrs, linked.vaddrs))
    merged, target = np.unique(vaddrs[rows], return_inverse=True)
    dies, callee = np.unique(origins[rows], return_inverse=True)
    found[rows] = Callees(linked, Targets(linked, merged, slots=merged[:0]), dies).members_of(callee, target)
    return found


def from_table(linked: Linked, reach: Reach, slots: Slots, calls: DirectCalls) -> Statements:
    """Return the statements of an existing direct-call table about the calls."""
    from icf.folds.calltable import CallTable, DirectBranches

    statements = Statements(Evidence.TABLE)
    identities = linked.finder.identities
    assert identities is not None
    ends = reach.end[reach.calls]
    branches = DirectBranches(ends, reach.source[reach.calls], reach.target[reach.calls])
    table = CallTable(calls, branches, linked.folds, identities)
    found = []
    for call in table.statements():
        if len(call.callees) == 1:
            found.append((call.end, call.caller, call.callees[0]))
        else:
            table.dropped[SEVERAL_CALLEES] += 1
    end, caller, callee = np.array(found, np.uint64).reshape(-1, 3).T
    statements.state(slots.at(np.searchsorted(ends, end), caller.astype(np.int64)), callee)
    statements.dropped = table.dropped
    return statements
