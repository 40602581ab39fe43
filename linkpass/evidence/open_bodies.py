"""Merged bodies with callers for which evidence is missing, and all branches in their code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from icf.columns import I32, I64, U64
from icf.dwarf.scan import Functions
from icf.folds.body_members import Members
from icf.folds.member_columns import MemberColumns
from icf.sets import distinct, is_in, rows_with, runs
from linkpass.evidence.body_branches import find_body_branches
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Records
from linkpass.linked import Linked

_CALL, _JUMP = False, True


@dataclass(slots=True)
class OpenBody:
    """A merged body with callers for which there is no evidence yet, and its branches."""

    vaddr: int
    kept_dies: U64
    several_parts: bool
    callers: I64  # members
    dies: U64  # of each of these, one of its DIEs
    # (is a jump, merged target) -> rows of `Reach`, by address
    branches: dict[tuple[bool, int], list[int]] = field(default_factory=dict)
    # (is a jump, target) -> branches in all parts, those that only look like one included
    counts: Counter[tuple[bool, int]] = field(default_factory=Counter)
    slots: set[tuple[bool, int]] = field(default_factory=set)  # (is a jump, word in memory that holds a target)


def find_open_bodies(linked: Linked, reach: Reach, records: Records) -> Iterator[OpenBody]:
    """Yield merged bodies with branches to merged bodies that lack records of folded callers that have call sites."""
    matters = is_in(reach.source, linked.vaddrs) & is_in(reach.target, linked.vaddrs)
    matters &= ~(reach.is_jump & (reach.source == reach.target))  # loops
    rows = np.flatnonzero(matters)
    rows = rows[np.argsort(reach.source[rows], kind="stable")]
    calls = np.array(list(reach.stub_symbol), np.int64)
    stub_target = dict(zip(reach.end[calls].tolist(), reach.target[calls].tolist(), strict=True))
    known = np.flatnonzero(reach.operand != 0)
    by_register = reach.end[known], reach.target[known]
    parts = _Parts(linked.functions)
    vaddrs, firsts, ends = (column.tolist() for column in runs(reach.source[rows]))
    dies = _Dies([linked.folds[vaddr].members for vaddr in vaddrs])
    for idx, (vaddr, first, end) in enumerate(zip(vaddrs, firsts, ends, strict=True)):
        own = rows[first:end]
        slots = records.slots.all_of(own)
        silent = distinct(records.slots.member[slots[~records.is_known[slots]]])
        kept = distinct(linked.functions.die[linked.bodies.dwarf_at(vaddr)])
        callers, described = dies.of_others(idx, silent, kept)
        if not len(callers):
            continue
        body = OpenBody(vaddr, kept, parts.are_several(kept), callers, described)
        for row, is_jump, target in zip(
            own.tolist(), reach.is_jump[own].tolist(), reach.target[own].tolist(), strict=True
        ):
            body.branches.setdefault((is_jump, target), []).append(row)
        if _read_code(linked, body, parts, stub_target, by_register):
            yield body


class _Dies:
    """The DIEs of the members of some bodies."""

    def __init__(self, bodies: list[Members]) -> None:
        columns = MemberColumns(bodies)
        row, die = columns.dies
        order = np.argsort(row, kind="stable")
        self._start, self._row, self._die = columns.start, row[order], die[order]

    def of_others(self, body: int, members: I64 | I32, kept: U64) -> tuple[I64, U64]:
        """Return, of members that no DIE of the kept function describes, each DIE with its member."""
        owner, at = rows_with(self._row, self._start[body] + members)
        die = self._die[at]
        is_other = ~is_in(owner, owner[is_in(die, kept)])
        return members[owner[is_other]].astype(np.int64), die[is_other]


class _Parts:
    """The ranges of functions, by their DIEs."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._order = np.argsort(functions.die, kind="stable")
        self._die = functions.die[self._order]

    def rows(self, dies: U64) -> I64:
        """Return the rows of `Functions` of these DIEs."""
        return np.asarray(self._order[rows_with(self._die, dies)[1]])

    def are_several(self, dies: U64) -> bool:
        """Return whether one of these functions has several parts."""
        return bool((self._functions.part[self.rows(dies)] > 0).any())


def _read_code(
    linked: Linked, body: OpenBody, parts: _Parts, stub_target: dict[int, int], by_register: tuple[U64, U64]
) -> bool:
    """Find all branches of the body, all parts of it; False if some of its code is not known.

    `by_register` are return addresses and targets of calls through registers.
    """
    functions = linked.functions
    rows = parts.rows(body.kept_dies)
    ranges = set(zip(functions.low[rows].tolist(), functions.high[rows].tolist(), strict=True))
    for low, high in ranges:
        found = find_body_branches(linked.image, low, high)
        if found is None:
            return False
        first, last = np.searchsorted(by_register[0], np.array([low, high], np.uint64), side="right").tolist()
        calls = [*found.calls, *zip(*(column[first:last].tolist() for column in by_register), strict=True)]
        body.counts.update((_CALL, stub_target.get(end, target)) for end, target in calls)
        body.counts.update((_JUMP, target) for _, target in found.jumps)
        body.slots.update((_CALL, slot) for slot in found.call_slots)
        body.slots.update((_JUMP, slot) for slot in found.jump_slots)
    return bool(ranges)
