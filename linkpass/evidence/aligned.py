"""Evidence `aligned`: call sites of folded functions whose addresses the linker overwrote.

lld and mold put a tombstone over every address in the debug information of a folded function. Its call sites are
still listed, each with its callee, but without their addresses. The code, however, is that of the kept
function, byte for byte, and there the calls can be found:

    kept body        call T   call U   call T           its calls, from the machine code
    folded DIE       {f, g, h}                          f and h share the body T, g is at U

A site is at some call, no two sites are at one, and a site is only at a call whose target is a body of its callee.
Compilers leave sites out, so a call need not have one; but if there are as many sites that can only be at calls of T as
there are calls of T, every such call has its site. Then

    if all these sites name one callee              it is the callee of each of the calls;
    else if they are children of one DIE            they are in the order of the calls;
    else                                            their order is not known, and no record is made.

Sites of one DIE are in the order of the code with gcc and clang: 70,000 pairs of neighbours in eight programs have no
exception. The kept function's own sites, whose addresses are known, have to show the same before the rule is used.
The parts of a function (hot and cold) have an order of their own; there only the first case counts.

Calls through registers are at hand where the code shows their target; gcc has call sites for them, clang none with a
callee. The others are counted in a superset (see body_branches): a byte sequence that only looks like a call of T makes
the count too high and costs a record. It cannot make one. A function may be described by several DIEs, a copy in
each unit, of which one is the copy that was folded. A DIE with a site that fits no branch of the body is not that
copy's: inlining differs from unit to unit. Nothing shows which of the others is, so these have to agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from icf.columns import I64, U64
from icf.dwarf.scan import Functions
from icf.dwarf.sites import Site, read_sites
from icf.model import Evidence
from icf.sets import distinct, is_in, runs
from linkpass.evidence.body_branches import find_body_branches
from linkpass.evidence.callees import Callees
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Records, Statements
from linkpass.linked import Linked

_CALL, _JUMP = False, True
Choices = dict[int, frozenset[int]]  # branch -> members of its target that may be the callee


@dataclass(slots=True)
class _Body:
    """A merged body with callers for which there is no evidence yet, and its branches."""

    vaddr: int
    kept_dies: list[int]
    several_parts: bool
    callers: list[int] = field(default_factory=list)  # members
    # (is a jump, merged target) -> branches, by address
    branches: dict[tuple[bool, int], list[int]] = field(default_factory=dict)
    # (is a jump, merged target) -> branches in all parts
    counts: Counter[tuple[bool, int]] = field(default_factory=Counter)
    targets: dict[bool, frozenset[int]] = field(default_factory=dict)  # all targets, merged or not
    slots: dict[bool, frozenset[int]] = field(default_factory=dict)  # words that hold a target


def from_folded_callers(linked: Linked, reach: Reach, records: Records) -> Statements:
    """Return the statements of call sites without addresses about the branches that have no record yet."""
    statements = Statements(Evidence.ALIGNED)
    bodies = list(_open_bodies(linked, reach, records))
    if not bodies:
        return statements
    dies_of = {body.vaddr: [linked.members(body.vaddr).dies_of(caller) for caller in body.callers] for body in bodies}
    silent = {die for callers in dies_of.values() for dies in callers for die in dies}
    sites = read_sites(linked.debug, silent.union(*(body.kept_dies for body in bodies)))
    callees = Callees(linked)
    callees.learn(
        {site.origin for die in silent for site in sites[die]},
        {target for body in bodies for targets in body.targets.values() for target in targets},
    )
    stated: list[tuple[int, int]] = []  # slot, callee
    for body in bodies:
        in_order = not body.several_parts and all(_ascend(sites[die]) for die in body.kept_dies)
        for caller, dies in zip(body.callers, dies_of[body.vaddr], strict=True):
            copies = [copy for die in dies if (copy := _align(body, sites[die], callees, in_order)) is not None]
            if not copies:
                statements.dropped["call sites do not fit the code of the function"] += 1
                continue
            for branch, choices in _agreed(copies).items():
                stated += [(int(records.slots.first[branch]) + caller, callee) for callee in choices]
    statements.state([slot for slot, _ in stated], [callee for _, callee in stated])
    return statements


def _open_bodies(linked: Linked, reach: Reach, records: Records) -> Iterator[_Body]:
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
    for vaddr, first, end in zip(*(column.tolist() for column in runs(reach.source[rows])), strict=True):
        own = rows[first:end]
        slots = records.slots.all_of(own)
        silent = distinct(records.slots.member[slots[~records.is_known[slots]]])
        kept = distinct(linked.functions.die[linked.bodies.dwarf_at(vaddr)]).tolist()
        kept_dies = frozenset(kept)
        members = linked.members(vaddr)
        callers = [idx for idx in silent.tolist() if (dies := members.dies_of(idx)) and not kept_dies & {*dies}]
        if not callers:
            continue
        body = _Body(vaddr, kept, parts.are_several(kept), callers)
        for row, is_jump, target in zip(
            own.tolist(), reach.is_jump[own].tolist(), reach.target[own].tolist(), strict=True
        ):
            body.branches.setdefault((is_jump, target), []).append(row)
        if _read_code(linked, body, parts, stub_target, by_register):
            yield body


class _Parts:
    """The ranges of functions, by their DIEs."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._order = np.argsort(functions.die, kind="stable")
        self._die = functions.die[self._order]

    def rows(self, dies: list[int]) -> I64:
        """Return the rows of `Functions` of these DIEs."""
        wanted = np.array(dies, np.uint64)
        first, last = (np.searchsorted(self._die, wanted, side=side).tolist() for side in ("left", "right"))
        runs = [self._order[start:end] for start, end in zip(first, last, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *runs])

    def are_several(self, dies: list[int]) -> bool:
        """Return whether one of these functions has several parts."""
        return bool((self._functions.part[self.rows(dies)] > 0).any())


def _read_code(
    linked: Linked, body: _Body, parts: _Parts, stub_target: dict[int, int], by_register: tuple[U64, U64]
) -> bool:
    """Find all branches of the body, all parts of it; False if some of its code is not known.

    `by_register` are return addresses and targets of calls through registers.
    """
    functions = linked.functions
    rows = parts.rows(body.kept_dies)
    ranges = set(zip(functions.low[rows].tolist(), functions.high[rows].tolist(), strict=True))
    targets: dict[bool, set[int]] = {_CALL: set(), _JUMP: set()}
    slots: dict[bool, set[int]] = {_CALL: set(), _JUMP: set()}
    for low, high in ranges:
        found = find_body_branches(linked.image, low, high)
        if found is None:
            return False
        first, last = np.searchsorted(by_register[0], np.array([low, high], np.uint64), side="right").tolist()
        calls = [*found.calls, *zip(*(column[first:last].tolist() for column in by_register), strict=True)]
        for is_jump, branches in ((_CALL, calls), (_JUMP, found.jumps)):
            for end, target in branches:
                target = target if is_jump else stub_target.get(end, target)
                targets[is_jump].add(target)
                body.counts[is_jump, target] += 1
        slots[_CALL] |= found.call_slots
        slots[_JUMP] |= found.jump_slots
    body.targets = {is_jump: frozenset(found) for is_jump, found in targets.items()}
    body.slots = {is_jump: frozenset(found) for is_jump, found in slots.items()}
    return bool(ranges)


def _ascend(sites: list[Site]) -> bool:
    """Return whether the sites of each scope are in the order of their addresses."""
    last: dict[int, int] = {}
    for site in sites:
        end = site.pc + site.at_instruction
        if end <= last.get(site.scope, 0):
            return False
        last[site.scope] = end
    return True


def _align(body: _Body, sites: list[Site], callees: Callees, in_order: bool) -> Choices | None:
    """Return the callees of branches to merged bodies that one copy of the function allows.

    None if it is another function's.
    """
    fitting: dict[tuple[bool, int], list[Site]] = {}  # the sites that can be at branches to one target only
    for site in sites:
        is_jump = site.is_tail_call
        targets = callees.targets(site.origin, body.targets[is_jump], body.slots[is_jump])
        if not targets:
            return None
        if len(targets) == 1:
            fitting.setdefault((is_jump, next(iter(targets))), []).append(site)
    found: Choices = {}
    for key, mine in fitting.items():
        if len(mine) > body.counts[key]:
            return None
        branches = body.branches.get(key, [])
        if len(mine) < body.counts[key] or not branches:
            continue
        meant = [callees.members(key[1], site.origin) for site in mine]
        if all(members == meant[0] for members in meant):
            found.update(dict.fromkeys(branches, meant[0]))
        elif in_order and len({site.scope for site in mine}) == 1 and len(branches) == len(mine):
            found.update(zip(branches, meant, strict=True))
    return {branch: members for branch, members in found.items() if len(members) == 1}


def _agreed(copies: list[Choices]) -> Choices:
    """Return the calls for which every copy of the function has a callee; the records settle where they differ."""
    common = set(copies[0]).intersection(*copies[1:])
    return {branch: frozenset().union(*(copy[branch] for copy in copies)) for branch in common}
