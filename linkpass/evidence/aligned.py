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

import numpy as np

from icf.columns import I64, U64, Mask
from icf.dwarf import sites as dwarf_sites
from icf.model import Evidence
from icf.pairs import PairIndex
from icf.sets import distinct, is_in, rows_of_runs, rows_with
from linkpass.evidence.alignment import UNCOUNTED, Fits, Lanes, Sites, agreed, align, find_unordered
from linkpass.evidence.callees import NONE, SEVERAL, Callees, Candidates
from linkpass.evidence.open_bodies import OpenBody, find_open_bodies
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Records, Statements
from linkpass.evidence.targets import Targets
from linkpass.linked import Linked


def from_folded_callers(linked: Linked, reach: Reach, records: Records) -> Statements:
    """Return the statements of call sites without addresses about the branches that have no record yet."""
    statements = Statements(Evidence.ALIGNED)
    bodies = list(find_open_bodies(linked, reach, records))
    if not bodies:
        return statements
    # a row for each copy: a DIE of a caller
    body = np.repeat(np.arange(len(bodies)), [len(each.dies) for each in bodies])
    member, die = np.concatenate([each.callers for each in bodies]), np.concatenate([each.dies for each in bodies])
    sites = dwarf_sites.read_sites(linked.debug, np.concatenate([die, *(each.kept_dies for each in bodies)]))
    function = np.searchsorted(sites.die, die)
    copy, site = rows_of_runs(sites.start[function], np.diff(sites.start)[function])
    known = _BodyLanes(linked, bodies)
    fits = known.fits(linked, body[copy], sites.is_tail_call[site], sites.origin[site])
    aligned = align(known.lanes, Sites(copy, sites.scope[site]), fits, _are_in_order(bodies, sites)[body])
    callers, first, caller = np.unique(body * (int(member.max()) + 1) + member, return_index=True, return_inverse=True)
    unfit = len(callers) - len(distinct(caller[aligned.is_sound]))
    if unfit:
        statements.dropped["call sites do not fit the code of the function"] = unfit
    caller, branch, callee = agreed(aligned, caller)
    statements.state(records.slots.at(branch, member[first[caller]]), callee)
    return statements


class _BodyLanes:
    """The lanes of bodies, those of words that hold a target included, and the target of each."""

    def __init__(self, linked: Linked, bodies: list[OpenBody]) -> None:
        keys = [(idx, key, count) for idx, body in enumerate(bodies) for key, count in body.counts.items()]
        slots = [(idx, key, UNCOUNTED) for idx, body in enumerate(bodies) for key in sorted(body.slots)]
        branches = [bodies[idx].branches.get(key, []) for idx, key, _ in keys] + [[] for _ in slots]
        self.lanes = Lanes(
            size=np.array([count for _, _, count in keys + slots], np.int64),
            start=np.cumsum([0, *map(len, branches)]),
            branch=np.array([branch for own in branches for branch in own], np.int64),
        )
        vaddrs, words = (np.array([vaddr for _, (_, vaddr), _ in rows], np.uint64) for rows in (keys, slots))
        self._targets = Targets(linked, distinct(vaddrs), distinct(words))
        self._target = np.append(
            np.searchsorted(distinct(vaddrs), vaddrs),
            len(distinct(vaddrs)) + np.searchsorted(distinct(words), words),
        )
        body, is_jump = np.array([(idx, is_jump) for idx, (is_jump, _), _ in keys + slots], np.int64).reshape(-1, 2).T
        self._group = _group(body, is_jump)
        self._index = PairIndex(self._group.astype(np.uint64), self._target.astype(np.uint64))

    def fits(self, linked: Linked, body: I64, is_jump: Mask, origin: U64) -> Fits:
        """Return the lanes of its body that each site can be in, by what its callee can be."""
        group = _group(body, is_jump)
        origins, callee, counts = np.unique(origin, return_inverse=True, return_counts=True)
        callees = Callees(linked, self._targets, origins)
        by_callee, first_site = np.argsort(callee, kind="stable"), np.append(0, np.cumsum(counts))
        found = []
        for candidates in callees.candidates(counts):
            first, last = int(candidates.callee[0]), int(candidates.callee[-1])
            sites = by_callee[first_site[first] : first_site[last + 1]]
            found.append(self._known_fits(callees, candidates, sites, callee[sites], group[sites]))
        others, any_lane = self._open_to_any(group, callees.is_local[callee])
        found.append(Fits(others, any_lane, np.full(len(others), SEVERAL)))
        site, lane, member = map(np.concatenate, zip(*found, strict=True))
        order = np.lexsort((lane, site))  # stable: what is known of a pair comes first
        site, lane, member = site[order], lane[order], member[order]
        fresh = np.append(True, (site[1:] != site[:-1]) | (lane[1:] != lane[:-1]))[: len(site)]
        return Fits(site[fresh], lane[fresh], member[fresh])

    def _known_fits(self, callees: Callees, candidates: Candidates, sites: I64, callee: I64, group: I64) -> Fits:
        """Return the lanes of some sites whose target is one of the candidates for the callee."""
        at, row = rows_with(candidates.callee, callee)
        lane = self._index.find(group[at].astype(np.uint64), candidates.target[row].astype(np.uint64))
        site, row, lane = sites[at[lane >= 0]], row[lane >= 0], lane[lane >= 0]
        used = distinct(row)
        member = callees.settle(candidates.rows(used))[np.searchsorted(used, row)]
        can_be = member != NONE
        return Fits(site[can_be], lane[can_be], member[can_be])

    def _open_to_any(self, group: I64, is_local: Mask) -> tuple[I64, I64]:
        """Return lanes whose target can be any callee, or any local one: a site, and a lane of its body."""
        is_any, is_any_local = self._targets.is_any[self._target], self._targets.is_any_local[self._target]
        lanes = np.flatnonzero(is_any | is_any_local)
        lanes = lanes[np.argsort(self._group[lanes], kind="stable")]
        site, at = rows_with(self._group[lanes], group)
        lane = lanes[at]
        can_be = is_any[lane] | is_local[site]
        return site[can_be], lane[can_be]


def _group(body: I64, is_jump: I64 | Mask) -> I64:
    """Return a number for the calls of each body, and one for its jumps."""
    return 2 * body + is_jump


def _are_in_order(bodies: list[OpenBody], sites: dwarf_sites.Sites) -> Mask:
    """Return whether the kept function of each body has one part, and its own sites ascend by address."""
    function = np.repeat(np.arange(len(sites.die)), np.diff(sites.start))
    unordered = sites.die[find_unordered(function, sites.scope, sites.pc + sites.at_instruction)]
    return np.array([not body.several_parts and not is_in(body.kept_dies, unordered).any() for body in bodies])
