"""Which calls the sites without addresses must be at: the rule on sites and branches given as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from linkpass.evidence.alignment import Aligned, Fits, Lanes, Sites, agreed, align, find_unordered

T, U = 0x2000, 0x3000  # merged bodies that are called
F, G, H, ELSEWHERE = 1, 2, 3, 4  # callees
TARGET, MEMBER = {F: T, G: T, H: U}, {F: 0, G: 1, H: 0}  # f and g share the body T, h is at U


class Site(NamedTuple):
    callee: int
    scope: int = 0
    is_jump: bool = False


def aligned(
    calls: Sequence[int],
    *sites: Site,
    jumps: Sequence[int] = (),
    uncounted: Sequence[int] = (),
    in_order: bool = True,
    anything: Sequence[int] = (),
) -> dict[int, int] | None:
    """What each branch means; None: the sites are another function's.

    Calls at these targets are branches 1, 2 ..., jumps are 101, 102 ...; `uncounted` only look like calls. Callees of
    `anything` may be at either target.
    """
    branches: dict[tuple[bool, int], list[int]] = {}
    for is_jump, targets in ((False, calls), (True, jumps)):
        for at, target in enumerate(targets, 1):
            branches.setdefault((is_jump, target), []).append(at + 100 * is_jump)
    keys = list(branches)
    lanes = Lanes(
        np.array([len(branches[key]) + uncounted.count(key[1]) for key in keys]),
        np.cumsum([0, *(len(branches[key]) for key in keys)]),
        np.array([branch for key in keys for branch in branches[key]]),
    )
    fits = [
        (at, lane, MEMBER[site.callee])
        for at, site in enumerate(sites)
        for lane, (is_jump, target) in enumerate(keys)
        if is_jump == site.is_jump and (site.callee in anything or TARGET.get(site.callee) == target)
    ]
    columns = np.array(fits, np.int64).reshape(-1, 3).T
    scopes = np.array([site.scope for site in sites], np.uint64)
    found = align(lanes, Sites(np.zeros(len(sites), np.int64), scopes), Fits(*columns), np.array([in_order]))
    if not found.is_sound[0]:
        return None
    return dict(zip(found.branch.tolist(), found.member.tolist(), strict=True))


def test_a_callee_at_the_only_call_of_its_body() -> None:
    assert aligned([T, U], Site(F), Site(H)) == {1: MEMBER[F], 2: MEMBER[H]}


def test_one_callee_at_all_calls_of_its_body_needs_no_order() -> None:
    sites = [Site(F, scope=1), Site(F, scope=2)]
    assert aligned([T, T], *sites, in_order=False) == {1: MEMBER[F], 2: MEMBER[F]}


def test_different_callees_are_in_the_order_of_the_calls() -> None:
    assert aligned([T, T], Site(G), Site(F)) == {1: MEMBER[G], 2: MEMBER[F]}


@pytest.mark.parametrize("in_order", [True, False])
def test_where_no_order_is_sure_no_record_is_made(in_order: bool) -> None:
    sites = [Site(G, scope=1), Site(F, scope=2)] if in_order else [Site(G), Site(F)]
    assert aligned([T, T], *sites, in_order=in_order) == {}


def test_fewer_sites_than_calls_say_nothing() -> None:
    assert aligned([T, T], Site(F)) == {}


def test_bytes_that_look_like_a_call_cost_a_record() -> None:
    assert aligned([T], Site(F), uncounted=[T]) == {}


def test_more_sites_than_calls_are_of_another_function() -> None:
    assert aligned([T], Site(F), Site(G)) is None


def test_a_callee_that_is_nowhere_in_the_body_is_of_another_function() -> None:
    assert aligned([T], Site(F), Site(ELSEWHERE)) is None


def test_a_site_that_can_be_at_several_targets_does_not_count() -> None:
    assert aligned([T, U], Site(F), Site(H), anything=[F]) == {2: MEMBER[H]}


def test_tail_calls_are_aligned_with_jumps() -> None:
    assert aligned([T], Site(F), Site(G, is_jump=True), jumps=[T]) == {1: MEMBER[F], 101: MEMBER[G]}


def test_a_function_without_sites_says_nothing() -> None:
    assert aligned([T]) == {}


def test_the_kept_functions_own_sites_show_whether_there_is_an_order() -> None:
    function, scope = np.array([5, 5, 5, 6, 6]), np.array([0, 0, 1, 0, 0], np.uint64)
    assert find_unordered(function, scope, np.array([0x10, 0x20, 0x18, 0x20, 0x30], np.uint64)).tolist() == []
    assert find_unordered(function, scope, np.array([0x20, 0x10, 0x18, 0x20, 0x20], np.uint64)).tolist() == [5, 6]
    assert find_unordered(function[:1], scope[:1], np.array([0], np.uint64)).tolist() == [5]  # no address


def copies(*said: dict[int, int] | None) -> dict[int, set[int]]:
    """What a caller does at its branches, by what each of its copies says; None: the copy is not sound."""
    rows = [(copy, *row) for copy, branches in enumerate(said) if branches for row in branches.items()]
    is_sound = np.array([branches is not None for branches in said])
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    _, branch, member = agreed(Aligned(is_sound, *columns), np.zeros(len(said), np.int64))
    found: dict[int, set[int]] = {}
    for at, meant in zip(branch.tolist(), member.tolist(), strict=True):
        found.setdefault(at, set()).add(meant)
    return found


def test_only_what_all_copies_say_something_about_is_said() -> None:
    assert copies({1: MEMBER[F], 2: MEMBER[F]}, {1: MEMBER[F]}) == {1: {MEMBER[F]}}
    assert copies({1: MEMBER[F]}, {1: MEMBER[G]}) == {1: {MEMBER[F], MEMBER[G]}}
    assert copies({1: MEMBER[F]}, {}) == {}
    assert copies({1: MEMBER[F]}, None) == {1: {MEMBER[F]}}
