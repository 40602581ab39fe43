"""Which calls the sites without addresses must be at: each rule on sites and branches given as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from icf.dwarf.sites import Site
from linkpass.evidence.aligned import _agreed, _align, _ascend, _Body
from linkpass.linked import Place

T, U = 0x2000, 0x3000  # merged bodies that are called
F, G, H, ELSEWHERE = 1, 2, 3, 4  # DIEs of callees
MEMBERS = {F: Place(T, 0), G: Place(T, 1), H: Place(U, 0)}


class Callees:
    """f and g share the body T, h is at U; `anything` may be at either."""

    def __init__(self, anything: Sequence[int] = ()) -> None:
        self._anything = anything

    def targets(self, origin: int, targets: frozenset[int], _slots: frozenset[int]) -> set[int]:
        if origin in self._anything:
            return set(targets)
        return {MEMBERS[origin].vaddr} & targets if origin in MEMBERS else set()

    def members(self, target: int, origin: int) -> frozenset[Place]:
        return frozenset({MEMBERS[origin]})


def body(*calls: int, jumps: Sequence[int] = (), uncounted: Sequence[int] = ()) -> _Body:
    """The kept function's calls, by target, at 0x10, 0x20 ...; `uncounted` only look like calls."""
    made = _Body(0x1000, [], several_parts=False)
    for is_jump, targets in ((False, calls), (True, jumps)):
        for at, target in enumerate(targets, 1):
            made.ends.setdefault((is_jump, target), []).append(0x10 * at + 0x100 * is_jump)
        made.targets[is_jump] = frozenset(targets)
        made.slots[is_jump] = frozenset()
    made.counts = Counter({key: len(ends) for key, ends in made.ends.items()})
    made.counts.update((False, target) for target in uncounted)
    return made


def site(origin: int, *, scope: int = 0, is_jump: bool = False, pc: int = 0) -> Site:
    return Site(pc, origin, scope, is_jump, False)


def aligned(made: _Body, *sites: Site, in_order: bool = True, anything: Sequence[int] = ()) -> dict[int, Place] | None:
    """What each call, by its end, means; None: the sites are another function's."""
    callees: Any = Callees(anything)
    found = _align(made, list(sites), callees, in_order)
    if found is None:
        return None
    return {end: next(iter(members)) for (_, end), members in found.items()}


def test_a_callee_at_the_only_call_of_its_body() -> None:
    assert aligned(body(T, U), site(F), site(H)) == {0x10: MEMBERS[F], 0x20: MEMBERS[H]}


def test_one_callee_at_all_calls_of_its_body_needs_no_order() -> None:
    sites = [site(F, scope=1), site(F, scope=2)]
    assert aligned(body(T, T), *sites, in_order=False) == {0x10: MEMBERS[F], 0x20: MEMBERS[F]}


def test_different_callees_are_in_the_order_of_the_calls() -> None:
    assert aligned(body(T, T), site(G), site(F)) == {0x10: MEMBERS[G], 0x20: MEMBERS[F]}


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
    assert aligned(body(T, U), site(F), site(H), anything=[F]) == {0x20: MEMBERS[H]}


def test_tail_calls_are_aligned_with_jumps() -> None:
    assert aligned(body(T, jumps=[T]), site(F), site(G, is_jump=True)) == {0x10: MEMBERS[F], 0x110: MEMBERS[G]}


def test_the_kept_functions_own_sites_show_whether_there_is_an_order() -> None:
    assert _ascend([site(F, pc=0x10), site(G, pc=0x20), site(F, scope=1, pc=0x18)])
    assert not _ascend([site(F, pc=0x20), site(G, pc=0x10)])


def test_only_what_all_copies_say_something_about_is_said() -> None:
    one, two = frozenset({MEMBERS[F]}), frozenset({MEMBERS[G]})
    assert _agreed([{(False, 0x10): one, (False, 0x20): one}, {(False, 0x10): one}]) == {(False, 0x10): one}
    assert _agreed([{(False, 0x10): one}, {(False, 0x10): two}]) == {(False, 0x10): one | two}
