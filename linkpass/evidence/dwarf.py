"""Evidence `dwarf` and `table`: a call site, the DIE of its caller, the DIE of its callee.

Compilers describe calls by DW_TAG_call_site; the callee is an origin, often a mere declaration. A
`.debug_dcall` in the image has the same in fewer bytes (`icf.folds.calltable` reads it). Either is
believed only where the machine code agrees: a direct call ends at that address, and its target is the body of
exactly one member that the callee DIE can mean. As addresses of folded functions are restored (gold never overwrites
them), one return address may have several callers, each with a statement of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from icf.columns import I64, U64
from icf.dwarf.columns import AT_INSTRUCTION, TAIL_CALL
from icf.dwarf.scan import CallSites
from icf.elf.types import Machine
from icf.folds.fold_index import FoldIndex
from icf.folds.identity import Described
from icf.model import Evidence
from icf.sets import distinct
from icf.tables.dcall import DirectCalls
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Statements
from linkpass.linked import Linked, Place

Found = TypeVar("Found")


def from_call_sites(linked: Linked, reach: Reach, sites: CallSites) -> Statements:
    """Return the statements of DWARF's call sites about the branches."""
    tail = (sites.flags & TAIL_CALL) != 0
    call_size = 4 if linked.image.machine is Machine.AARCH64 else 5
    at_instruction = (sites.flags & AT_INSTRUCTION) != 0
    end = np.where(at_instruction & ~tail, sites.pc + np.uint64(call_size), sites.pc)
    statements = Statements(Evidence.DWARF)
    reader = _Reader(linked, reach, statements)
    reader.read(np.flatnonzero(~tail), end, sites, reach.call_end, is_jump=False)
    reader.read(np.flatnonzero(tail & ~at_instruction), end, sites, reach.jump_end, is_jump=True)
    jump_start = reach.jump_end - reach.jump_size
    reader.read(np.flatnonzero(tail & at_instruction), end, sites, jump_start, is_jump=True)
    return statements


def from_table(linked: Linked, reach: Reach, calls: DirectCalls) -> Statements:
    """Return the statements of an existing direct-call table about the calls."""
    from icf.folds.calltable import CallTable, DirectBranches

    statements = Statements(Evidence.TABLE)
    identities = linked.finder.identities
    assert identities is not None
    branches = DirectBranches(reach.call_end, reach.call_from, reach.call_target)
    table = CallTable(calls, branches, linked.folds, identities)
    for call in table.statements():
        if len(call.callees) == 1:
            key = call.end, Place(call.source, call.caller)
            statements.state(key, frozenset({Place(call.target, call.callees[0])}), is_jump=False)
        else:
            table.dropped["callee is several of the functions that the code calls"] += 1
    statements.dropped = table.dropped
    return statements


class _Reader:
    def __init__(self, linked: Linked, reach: Reach, statements: Statements) -> None:
        self.linked = linked
        self.reach = reach
        self.statements = statements
        self.callees: dict[int, Described] = {}
        self.matches: dict[tuple[int, int], frozenset[Place]] = {}
        self.indexes: dict[int, FoldIndex] = {}

    def read(self, rows: I64, key: U64, sites: CallSites, branch_keys: U64, *, is_jump: bool) -> None:
        """Match sites to branches by address; `branch_keys` ascend but for jumps of unlike sizes."""
        if not len(branch_keys) or not len(rows):
            return
        order = np.argsort(branch_keys, kind="stable")
        ordered = branch_keys[order]
        at = np.minimum(np.searchsorted(ordered, key[rows]), len(ordered) - 1)
        hit = ordered[at] == key[rows]
        rows, branches = rows[hit], order[at[hit]]
        ends = self.reach.jump_end if is_jump else self.reach.call_end
        sources = self.reach.jump_from if is_jump else self.reach.call_from
        targets = self.reach.jump_target if is_jump else self.reach.call_target
        self._learn(distinct(sites.origin[rows]).tolist())
        # a function makes many calls, and thousands of functions call the same: each pair is looked up once
        callers = _look_up(self.linked.place_of_die, sources[branches], sites.caller[rows])
        callees = _look_up(self._callees, targets[branches], sites.origin[rows])
        dropped = self.statements.dropped
        for end, caller, callee in zip(ends[branches].tolist(), callers, callees, strict=True):
            if caller is None:
                dropped["the call lies in another function"] += 1
            elif len(callee) == 1:
                self.statements.state((end, caller), callee, is_jump=is_jump)
            else:
                which = "several" if callee else "none"
                dropped[f"callee is {which} of the functions that the code calls"] += 1

    def _learn(self, origins: list[int]) -> None:
        identities = self.linked.finder.identities
        assert identities is not None
        self.callees.update(zip(origins, identities.of(origins), strict=True))

    def _callees(self, target: int, origin: int) -> frozenset[Place]:
        fold = self.linked.folds.get(target)
        if fold is None:
            return frozenset(self.linked.places(target))
        key = (target, origin)
        if key not in self.matches:
            index = self.indexes.get(target)
            if index is None:
                index = self.indexes[target] = FoldIndex(fold)
            places = self.linked.places(target)
            self.matches[key] = frozenset(places[idx] for idx in index.members_of(origin, self.callees[origin]))
        return self.matches[key]


def _look_up(find: Callable[[int, int], Found], vaddrs: U64, dies: U64) -> list[Found]:
    """Return what `find` returns for each pair, called once for each distinct one."""
    order = np.lexsort((dies, vaddrs))
    is_first = np.append(True, (vaddrs[order[1:]] != vaddrs[order[:-1]]) | (dies[order[1:]] != dies[order[:-1]]))
    first = order[is_first[: len(order)]]
    found = list(map(find, vaddrs[first].tolist(), dies[first].tolist()))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_first[: len(order)]) - 1
    return [found[at] for at in number.tolist()]
