"""Sets as ascending columns, against those of Python."""

from __future__ import annotations

import random
from itertools import groupby

import numpy as np
import pytest

from icf.sets import (
    connected,
    difference,
    distinct,
    distinct_pairs,
    distinct_rows,
    in_order_met,
    is_in,
    is_one_of,
    rows_of_runs,
    runs,
    union,
)

U64_MAX = (1 << 64) - 1
VALUES = [(), (5,), (5, 5), (3, 1, 2, 1), (U64_MAX, 0, U64_MAX - 1, 1 << 63, (1 << 63) - 1)]


def column(values: object) -> np.typing.NDArray[np.uint64]:
    return np.array(values, np.uint64)


@pytest.mark.parametrize("left", VALUES)
@pytest.mark.parametrize("right", VALUES)
def test_sets_are_those_of_python(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    assert distinct(column(left)).tolist() == sorted(set(left))
    assert union(column(left), column(right)).tolist() == sorted({*left, *right})
    for others in (right, sorted(right)):
        assert difference(column(left), column(others)).tolist() == sorted(set(left) - set(right))
        assert is_in(column(left), column(others)).tolist() == [value in right for value in left]
    assert is_one_of(column(left), right).tolist() == [value in right for value in left]


def test_pairs_are_by_left_and_then_right() -> None:
    choose = random.Random(1)
    pairs = [(choose.randrange(4), choose.choice((0, 7, U64_MAX))) for _ in range(50)]
    left, right = distinct_pairs(*(column(each) for each in zip(*pairs, strict=True)))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == sorted(set(pairs))
    assert [len(each) for each in distinct_pairs(column(()), column(()))] == [0, 0]


@pytest.mark.parametrize("rows", [[], [(5, 1, 0)], [(2, 1, 0), (1, U64_MAX, 0), (2, 0, 9), (1, U64_MAX, 0), (1, 0, 7)]])
def test_rows_are_ordered_by_their_first_column_that_differs(rows: list[tuple[int, int, int]]) -> None:
    assert distinct_rows(column(rows).reshape(-1, 3)).tolist() == [list(row) for row in sorted(set(rows))]


@pytest.mark.parametrize("values", [(), (5,), (5, 5, 3, 5, 3, 3)])
def test_runs_are_of_equal_neighbours(values: tuple[int, ...]) -> None:
    found = zip(*(each.tolist() for each in runs(column(values))), strict=True)
    parts = [(value, values[first:end]) for value, first, end in found]
    assert [part for _, part in parts] == [tuple(group) for _, group in groupby(values)]
    assert all(value == part[0] for value, part in parts)


def test_rows_of_runs_come_with_the_run_they_are_of() -> None:
    index, rows = rows_of_runs(np.array([7, 0, 2, 7]), np.array([2, 0, 3, 1]))
    assert index.tolist() == [0, 0, 2, 2, 2, 3] and rows.tolist() == [7, 8, 2, 3, 4, 7]
    assert [len(each) for each in rows_of_runs(np.empty(0, np.int64), np.empty(0, np.int64))] == [0, 0]


@pytest.mark.parametrize("rows", [[], [(5, 1)], [(2, 1), (1, U64_MAX), (2, 0), (1, U64_MAX), (2, 1), (0, 0)]])
def test_rows_in_the_order_in_which_they_are_met(rows: list[tuple[int, int]]) -> None:
    first, number = in_order_met(column(rows).reshape(-1, 2))
    met = list(dict.fromkeys(rows))
    assert first.tolist() == [rows.index(row) for row in met]
    assert number.tolist() == [met.index(row) for row in rows]


@pytest.mark.parametrize(
    "pairs", [[], [(3, 1), (1, 2)], [(at + 1, at) for at in range(99)], [(5, 90), (90, 7), (6, 6)]]
)
def test_connected_points_have_the_lowest_of_them(pairs: list[tuple[int, int]]) -> None:
    expected = list(range(100))
    for _ in pairs:
        for first, second in pairs:
            expected[first] = expected[second] = min(expected[first], expected[second])
    one, other = np.array(pairs, np.int64).reshape(-1, 2).T
    assert connected(100, one, other).tolist() == expected
    assert connected(100, other, one).tolist() == expected


def test_thousands_of_connected_points_take_few_rounds() -> None:
    order = np.random.default_rng(1).permutation(50_000)
    assert not connected(50_000, order[1:], order[:-1]).any()
