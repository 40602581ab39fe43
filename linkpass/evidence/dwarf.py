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
from icf.folds.fold_index import FoldIndex
from icf.folds.identity import Described
from icf.folds.member_columns import MemberColumns
from icf.model import Evidence
from icf.pairs import PairIndex
from icf.sets import distinct, is_in
from icf.tables.dcall import DirectCalls
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Statements
from linkpass.evidence.slots import Slots
from linkpass.evidence.wrapping import wrapping_names
from linkpass.linked import Linked

_NONE, _SEVERAL = -1, -2  # in place of a member


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
    callee = _Callees(linked).members_of(target, sites.origin[rows])

    statements = Statements(Evidence.DWARF)
    is_inside, is_one = caller >= 0, callee >= 0
    good = is_inside & is_one
    statements.state(slots.at(branches[good], caller[good]), callee[good])
    for reason, count in (
        ("the call lies in another function", len(rows) - int(is_inside.sum())),
        ("callee is none of the functions that the code calls", int((is_inside & (callee == _NONE)).sum())),
        ("callee is several of the functions that the code calls", int((is_inside & (callee == _SEVERAL)).sum())),
    ):
        if count:
            statements.dropped[reason] = count
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
            table.dropped["callee is several of the functions that the code calls"] += 1
    end, caller, callee = np.array(found, np.uint64).reshape(-1, 3).T
    statements.state(slots.at(np.searchsorted(ends, end), caller.astype(np.int64)), callee)
    statements.dropped = table.dropped
    return statements


class _Roots:
    """The members of all merged bodies by the DIEs that declare them."""

    def __init__(self, linked: Linked) -> None:
        assert linked.finder.identities is not None
        self._identities = linked.finder.identities
        columns = MemberColumns([linked.folds[vaddr].members for vaddr in linked.vaddrs.tolist()])
        wrapping = [row for row, _ in wrapping_names(columns, linked.image.symbols)]
        # bodies with a member whose name is that of another function in the objects
        self.wrapping: U64 = linked.vaddrs[np.searchsorted(columns.start, wrapping, side="right") - 1]
        row, root = columns.roots
        body = np.searchsorted(columns.start, row, side="right") - 1
        order = np.lexsort((row, root, body))
        row, root, body = row[order], root[order], body[order]
        first = np.flatnonzero(np.append(True, (root[1:] != root[:-1]) | (body[1:] != body[:-1]))[: len(row)])
        last = np.append(first, len(row))[1:] - 1
        self._index = PairIndex(linked.vaddrs[body[first]], root[first])
        # with a value for pairs that have no member
        self._lowest = np.append(row[first] - columns.start[body[first]], len(row))
        self._highest = np.append(row[last] - columns.start[body[first]], -1)

    def members_of(self, vaddrs: U64, dies: U64) -> I64:
        """Return the member of each body that a DIE, or the end of its chain of origins, declares; _NONE, _SEVERAL."""
        described, which = np.unique(dies, return_inverse=True)
        roots = self._identities.columns(described).root[which]
        pairs = [self._index.find(vaddrs, declared) for declared in (dies, roots)]
        lowest = np.minimum(*(self._lowest[pair] for pair in pairs))
        highest = np.maximum(*(self._highest[pair] for pair in pairs))
        return np.where(lowest == highest, lowest, np.where(highest < 0, _NONE, _SEVERAL))


class _Callees:
    """Finds the members that call sites mean by their callees."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self._described: dict[int, Described] = {}
        self._indexes: dict[int, FoldIndex] = {}

    def members_of(self, targets: U64, origins: U64) -> I64:
        """Return the member of each body that a callee DIE means, _NONE or _SEVERAL.

        Thousands of functions make the same calls: each pair is looked up once, by the declaration of the callee, and
        only if no member has this by name.
        """
        found = np.zeros(len(targets), np.int64)
        rows = np.flatnonzero(is_in(targets, self._linked.vaddrs))
        targets, origins = targets[rows], origins[rows]
        order = np.lexsort((origins, targets))
        vaddr, die = targets[order], origins[order]
        is_first = np.append(True, (vaddr[1:] != vaddr[:-1]) | (die[1:] != die[:-1]))[: len(order)]
        vaddr, die = vaddr[is_first], die[is_first]
        roots = _Roots(self._linked)
        members = roots.members_of(vaddr, die)
        unknown = np.flatnonzero((members == _NONE) | is_in(vaddr, roots.wrapping))
        self._learn(die[unknown])
        members[unknown] = list(map(self._member, vaddr[unknown].tolist(), die[unknown].tolist()))
        found[rows[order]] = members[np.cumsum(is_first) - 1]
        return found

    def _learn(self, origins: U64) -> None:
        """Read the names of callees."""
        identities = self._linked.finder.identities
        assert identities is not None
        known = distinct(origins).tolist()
        self._described = dict(zip(known, identities.of(known), strict=True))

    def _member(self, target: int, origin: int) -> int:
        index = self._indexes.get(target)
        if index is None:
            index = self._indexes[target] = FoldIndex(self._linked.folds[target])
        members = index.members_of(origin, self._described[origin])
        if len(members) == 1:
            return members[0]
        return _SEVERAL if members else _NONE
