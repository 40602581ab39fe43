"""The rule of evidence `aligned` (`linkpass.evidence.aligned`) on columns: which call sites are at which branches.

    copy     one function as one DIE describes it: a list of call sites in the order of their DIEs
    lane     the calls of one target in one body, or its jumps to one target

A site fits the lanes of its copy's body that its callee can be at. A copy with a site that fits none, or with more
sites that fit one lane only than the lane has branches, describes other code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.sets import distinct, rows_of_runs, runs

UNCOUNTED = 1 << 32  # more than there can be


class Lanes(NamedTuple):
    """The branches of bodies by what they lead to."""

    size: I64  # branches in all parts of the body, those that only look like one included; or UNCOUNTED
    start: I64  # first row of `branch` of each lane; one more than there are lanes
    branch: I64  # those whose callee is asked for, by address


class Sites(NamedTuple):
    """Call sites, by copy and then in the order of their DIEs."""

    copy: I64
    scope: U64


class Fits(NamedTuple):
    """Which sites can be in which lanes: each pair once, by site."""

    site: I64
    lane: I64
    member: I64  # the member of the target that the site means; negative if that is not known


class Aligned(NamedTuple):
    """What the sites say."""

    is_sound: Mask  # for each copy: it may describe the body
    copy: I64  # a row for each branch that a sound copy says something about
    branch: I64
    member: I64


def align(lanes: Lanes, sites: Sites, fits: Fits, in_order: Mask) -> Aligned:
    """Return the branches that must be those of the sites.

    `in_order`: for each copy, whether the sites of one scope are in the order of the branches.
    """
    lane_count = np.bincount(fits.site, minlength=len(sites.copy))
    is_sound = np.ones(len(in_order), np.bool_)
    is_sound[sites.copy[lane_count == 0]] = False
    only = lane_count[fits.site] == 1
    site, lane, member = fits.site[only], fits.lane[only], fits.member[only]
    copy = sites.copy[site]
    order = np.lexsort((site, lane, copy))
    site, lane, member, copy = site[order], lane[order], member[order], copy[order]

    # by copy and lane: the sites that can only be there
    _, first, end = runs(copy * len(lanes.size) + lane)
    of_lane, of_copy, size = lane[first], copy[first], end - first
    is_sound[of_copy[size > lanes.size[of_lane]]] = False
    if not len(first):
        none = np.empty(0, np.int64)
        return Aligned(is_sound, none, none, none)
    branch_count = np.diff(lanes.start)[of_lane]
    is_full = (size == lanes.size[of_lane]) & (branch_count > 0)
    is_one_member = _are_equal(member, first)
    is_one_scope = _are_equal(sites.scope[site], first)
    by_order = is_full & ~is_one_member & in_order[of_copy] & is_one_scope & (size == branch_count)
    alike, alike_branch = rows_of_runs(lanes.start[of_lane], np.where(is_full & is_one_member, branch_count, 0))
    ordered, ordered_site = rows_of_runs(first, np.where(by_order, size, 0))
    run = np.append(alike, ordered)
    branch = lanes.branch[np.append(alike_branch, ordered_site - first[ordered] + lanes.start[of_lane[ordered]])]
    meant = member[np.append(first[alike], ordered_site)]
    keep = (meant >= 0) & is_sound[of_copy[run]]
    return Aligned(is_sound, of_copy[run[keep]], branch[keep], meant[keep])


def _are_equal(values: I64 | U64, first: I64) -> Mask:
    """Return which runs have one value only."""
    return np.asarray(np.minimum.reduceat(values, first) == np.maximum.reduceat(values, first))


def agreed(aligned: Aligned, caller: I64) -> tuple[I64, I64, I64]:
    """Return the caller, branch and member of what all sound copies of a caller say something about.

    Where they say different things, each is returned. `caller`: of each copy.
    """
    copies = np.bincount(caller[aligned.is_sound], minlength=int(caller.max(initial=-1)) + 1)
    of_row = caller[aligned.copy]
    order = np.lexsort((aligned.member, aligned.branch, of_row))
    of_row, branch, member = of_row[order], aligned.branch[order], aligned.member[order]
    _, first, end = runs(of_row * (int(branch.max(initial=-1)) + 1) + branch)
    is_common = np.repeat(end - first == copies[of_row[first]], end - first)
    return of_row[is_common], branch[is_common], member[is_common]


def find_unordered(function: I64, scope: U64, end: U64) -> I64:
    """Return the functions with a scope whose call sites do not ascend by `end`, where each call ends."""
    order = np.lexsort((scope, function))
    function, scope, end = function[order], scope[order], end[order]
    is_first = np.append(True, (function[1:] != function[:-1]) | (scope[1:] != scope[:-1]))[: len(end)]
    before = np.where(is_first, np.uint64(0), np.append(np.uint64(0), end)[: len(end)])
    return distinct(function[end <= before])
