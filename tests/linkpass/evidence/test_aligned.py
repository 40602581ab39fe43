"""Which calls the sites without addresses must be at: each rule on sites and branches given as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from icf.dwarf.sites import Site
from linkpass.evidence.aligned import _agreed, _align, _ascend, _Body

T, U = 0x2000, 0x3000  # merged bodies that are called
F, G, H, ELSEWHERE = 1, 2, 3, 4  # DIEs of callees
BODIES, MEMBERS = {F: T, G: T, H: U}, {F: 0, G: 1, H: 0}


class Callees:
    """f and g share the body T, h is at U; `anything` may be at either."""

    def __init__(self, anything: Sequence[int] = ()) -> None:
        self._anything = anything

    def targets(self, origin: int, targets: frozenset[int], _slots: frozenset[int]) -> set[int]:
        if origin in self._anything:
            return set(targets)
        return {BODIES[origin]} & targets if origin in BODIES else set()

    def members(self, target: int, origin: int) -> frozenset[int]:
        return frozenset({MEMBERS[origin]})


def body(*calls: int, jumps: Sequence[int] = (), uncounted: Sequence[int] = ()) -> _Body:
    """Calls at these targets are branches 1, 2 ..., jumps are 101, 102 ...; `uncounted` only look like calls."""
    made = _Body(0x1000, [], several_parts=False)
    for is_jump, targets in ((False, calls), (True, jumps)):
        for at, target in enumerate(targets, 1):
            made.branches.setdefault((is_jump, target), []).append(at + 100 * is_jump)
        made.targets[is_jump] = frozenset(targets)
        made.slots[is_jump] = frozenset()
    made.counts = Counter({key: len(own) for key, own in made.branches.items()})
    made.counts.update((False, target) for target in uncounted)
    return made


def site(origin: int, *, scope: int = 0, is_jump: bool = False, pc: int = 0) -> Site:
    return Site(pc, origin, scope, is_jump, False)


def aligned(made: _Body, *sites: Site, in_order: bool = True, anything: Sequence[int] = ()) -> dict[int, int] | None:
    """What each branch means; None: the sites are another function's."""
    callees: Any = Callees(anything)
    found = _align(made, list(sites), callees, in_order)
    if found is None:
        return None
    return {branch: next(iter(members)) for branch, members in found.items()}


def test_a_callee_at_the_only_call_of_its_body() -> None:
    assert aligned(body(T, U), site(F), site(H)) == {1: MEMBERS[F], 2: MEMBERS[H]}


def test_one_callee_at_all_calls_of_its_body_needs_no_order() -> None:
    sites = [site(F, scope=1), site(F, scope=2)]
    assert aligned(body(T, T), *sites, in_order=False) == {1: MEMBERS[F], 2: MEMBERS[F]}


def test_different_callees_are_in_the_order_of_the_calls() -> None:
    assert aligned(body(T, T), site(G), site(F)) == {1: MEMBERS[G], 2: MEMBERS[F]}


@pytest.mark.parametrize("in_order", [True, False])
def test_where_no_order_is_sure_no_record_is_made(in_order: bool) -> None:
    sites = [site(G, scope=1), site(F, scope=2)] if in_order else [site(G), site(F)]
    assert aligned(body(T, T), *sites, in_order=in_order) == {}


def test_fewer_sites_than_calls_say_nothing() -> None:
    assert aligned(body(T, T), site(F)) == {}


def test_bytes_that_look_like_a_call_cost_a_record() -> None:
    assert aligned(body(T, uncounted=[T]), site(F)) == {}


def test_more_sites_than_calls_are_of_another_function() -> None:
    assert aligned(body(T), site(F), site(G)) is None


def test_a_callee_that_is_nowhere_in_the_body_is_of_another_function() -> None:
    assert aligned(body(T), site(F), site(ELSEWHERE)) is None


def test_a_site_that_can_be_at_several_targets_does_not_count() -> None:
    assert aligned(body(T, U), site(F), site(H), anything=[F]) == {2: MEMBERS[H]}


def test_tail_calls_are_aligned_with_jumps() -> None:
    assert aligned(body(T, jumps=[T]), site(F), site(G, is_jump=True)) == {1: MEMBERS[F], 101: MEMBERS[G]}


def test_the_kept_functions_own_sites_show_whether_there_is_an_order() -> None:
    assert _ascend([site(F, pc=0x10), site(G, pc=0x20), site(F, scope=1, pc=0x18)])
    assert not _ascend([site(F, pc=0x20), site(G, pc=0x10)])


def test_only_what_all_copies_say_something_about_is_said() -> None:
    one, two = frozenset({MEMBERS[F]}), frozenset({MEMBERS[G]})
    assert _agreed([{1: one, 2: one}, {1: one}]) == {1: one}
    assert _agreed([{1: one}, {1: two}]) == {1: one | two}
