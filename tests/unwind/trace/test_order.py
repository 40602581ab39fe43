"""The order of the stretches of a thread: what all orders that fit have in common, found by trying all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from unwind.trace import order
from unwind.trace.order import Before, Place, predecessors
from unwind.trace.stretches import Left, Stretch


def stretch(
    number: int,
    first: int | None,
    following: int,
    *,
    times: tuple[int, int] = (0, 0),
    is_last: bool = False,
    is_level: bool = False,
    tid: int = 5,
) -> Stretch:
    goes_on = (following,) if following else ()
    return Stretch(number, (1, tid), first, goes_on, *times, is_last, is_level)


def places(files: Sequence[Sequence[Stretch]], has_times: bool = False) -> dict[Place, Place]:
    return {place: before.place for place, before in predecessors(files, has_times).items()}


def orders(files: Sequence[Sequence[Stretch]], done: tuple[Place, ...] = ()) -> Iterator[tuple[Place, ...]]:
    """Yield all orders that fit."""
    if len(done) == sum(map(len, files)):
        yield done
    for idx, stretches in enumerate(files):
        at = sum(file == idx for file, _ in done)
        last = files[done[-1][0]][done[-1][1]] if done else None
        if at < len(stretches) and (last is None or not last.is_last):
            first = stretches[at].first
            if last is None or first is None or not last.following or first in last.following:
                yield from orders(files, (*done, (idx, at)))


def test_a_thread_goes_on_where_it_was() -> None:
    files = [[stretch(0, 0x10, 0x20), stretch(2, 0x90, 0x99)], [stretch(1, 0x20, 0x50), stretch(4, 0x50, 0x90)]]
    assert places(files) == {(1, 1): (0, 0), (1, 4): (1, 1), (0, 2): (1, 4)}


def test_threads_are_told_apart() -> None:
    files = [[stretch(0, 0x10, 0x20), stretch(1, 0x10, 0x20, tid=6)], [stretch(0, 0x20, 9, tid=6), stretch(1, 0x20, 9)]]
    assert places(files) == {(1, 0): (0, 1), (1, 1): (0, 0)}


@pytest.mark.parametrize("seed", range(300))
def test_what_is_found_is_so_in_all_orders(seed: int) -> None:
    chance = random.Random(seed)
    files: list[list[Stretch]] = [[], [], []]
    at = chance.randrange(4)
    for number in range(7):
        following = chance.randrange(1, 4)
        known = chance.random() < 0.9
        files[chance.randrange(3)].append(
            stretch(number, at if known and at else None, following, is_last=number == 6, is_level=False)
        )
        at = following
    rows = {(idx, each.number): (idx, row) for idx, file in enumerate(files) for row, each in enumerate(file)}
    found = {rows[place]: rows[before] for place, before in places(files).items()}
    every = list(orders(files))
    assert every
    common = set.intersection(*({*zip(one[1:], one, strict=False)} for one in every))
    assert {*found.items()} == common


def test_the_order_of_stretches_that_leave_the_stack_as_it_was_does_not_matter() -> None:
    def files(is_level: bool) -> list[list[Stretch]]:
        return [
            [stretch(0, 0x10, 0x20), stretch(1, 0x20, 0x20, is_level=True), stretch(2, 0x20, 0x30)],
            [stretch(0, 0x20, 0x20, is_level=is_level), stretch(1, 0x30, 0x40)],
        ]

    first = 0, 0
    assert places(files(True)) == {(0, 1): first, (1, 0): first, (0, 2): first, (1, 1): (0, 2)}
    assert places(files(False)) == {(1, 1): (0, 2)}


def test_what_stretches_have_returned_from_must_be_on_the_stack() -> None:
    left = (Left(0x105, 0x7FF0), Left(0x205, 0x7FF8))
    again = stretch(1, 0x20, 0x20, is_level=True)
    files = [[stretch(0, 0x10, 0x20), replace(again, left=left)], [again, stretch(2, 0x20, 0x30, is_last=True)]]
    before = Before((0, 0), frozenset({left}))
    assert predecessors(files, False) == {(0, 1): before, (1, 1): before, (1, 2): before}


def test_times_at_which_threads_ran_decide() -> None:
    files = [
        [stretch(0, 0x10, 0x20, times=(1, 2)), stretch(1, 0x20, 0x20, times=(7, 8))],
        [stretch(0, 0x20, 0x20, times=(3, 6))],
    ]
    assert places(files, True) == {(1, 0): (0, 0), (0, 1): (1, 0)}
    assert predecessors(files, False) == {}


def test_a_thread_of_which_a_part_is_missing_has_no_order() -> None:
    files = [[stretch(0, 0x10, 0x20), stretch(1, 0x20, 0x30)], [stretch(0, 0x70, 0x80, is_last=True)]]
    assert predecessors(files, False) == {}


def test_too_many_orders_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    def files() -> list[list[Stretch]]:
        return [[stretch(number, 0x20, 0x20, is_level=True) for number in range(40)] for _ in range(8)]

    assert predecessors(files(), False) == {}
    monkeypatch.setattr(order, "_MOST_ORDERS", 4)
    twice = [[stretch(0, 0x10, 0x20), stretch(1, 0x20, 0x20, is_level=True)], [stretch(0, 0x20, 0x20, is_level=True)]]
    assert len(predecessors(twice, False)) == 2
