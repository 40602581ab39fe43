"""Sets of numbers as ascending columns, each number once.

`numpy` has functions of the same meaning. They import `numpy.ma` on first use, in whichever thread that is, which takes
a twentieth of a small pass: `np.unique` without further results, `np.setdiff1d`, `np.isin` of many values or an empty
column. They sort both of their arguments, though one is in order already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from icf.columns import I64, Mask

Number = TypeVar("Number", bound=np.integer)


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """Return the set of the values, which may be in any order."""
    ordered = np.sort(values)
    return ordered[_is_first(ordered)]


def distinct_pairs(left: NDArray[Number], right: NDArray[Number]) -> tuple[NDArray[Number], NDArray[Number]]:
    """Return the set of pairs of two columns, by left and then right."""
    order = np.lexsort((right, left))
    left, right = left[order], right[order]
    fresh = _is_first(left) | _is_first(right)
    return left[fresh], right[fresh]


def distinct_rows(rows: NDArray[Number]) -> NDArray[Number]:
    """Return the set of the rows of a table, by their columns from the first on."""
    ordered = rows[np.lexsort(rows.T[::-1])]
    fresh = np.ones(len(ordered), np.bool_)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=fresh[1:])
    return ordered[fresh]


def in_order_met(rows: NDArray[Number]) -> tuple[I64, I64]:
    """Return where each different row of a table is first, ascending, and for every row which of those it equals."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    fresh = np.ones(len(ordered), np.bool_)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=fresh[1:])
    met = order[fresh]  # the sort leaves equal rows in their order
    number = np.empty(len(met), np.int64)
    number[np.argsort(met)] = np.arange(len(met))
    numbers = np.empty(len(rows), np.int64)
    numbers[order] = number[np.cumsum(fresh) - 1]
    return np.sort(met), numbers


def runs(values: NDArray[Number]) -> tuple[NDArray[Number], I64, I64]:
    """Return the runs of equal neighbours in a column: the value, the first row and the row after the last of each."""
    first = np.flatnonzero(_is_first(values))
    return values[first], first, np.append(first, len(values))[1:]


def rows_of_runs(first: I64, counts: I64) -> tuple[I64, I64]:
    """Return the rows of runs, by first row and number of rows: of each row the index of its run, and the row."""
    run = np.repeat(np.arange(len(counts)), counts)
    return run, np.arange(len(run)) + np.repeat(first - (np.cumsum(counts) - counts), counts)


def rows_with(ascending: NDArray[Number], values: NDArray[Number]) -> tuple[I64, I64]:
    """Return the rows of an ascending column with any of these values: of each the index of the value, and the row."""
    first = np.searchsorted(ascending, values)
    return rows_of_runs(first, np.searchsorted(ascending, values, side="right") - first)


def union(left: NDArray[Number], right: NDArray[Number]) -> NDArray[Number]:
    """Return the set of the values of two columns, which may be in any order."""
    return distinct(np.concatenate([left, right]))


def difference(values: NDArray[Number], others: NDArray[Number]) -> NDArray[Number]:
    """Return the set of the values that are not in the second column."""
    return distinct(values[~is_in(values, others)])


def is_in(values: NDArray[Number], others: NDArray[Number]) -> Mask:
    """Return which values are in the second column; both may be in any order.

    A column that ascends already is not sorted again, and to see that it does takes no time beside the search.
    """
    if not len(others):
        return np.zeros(len(values), np.bool_)
    ascending = others if (others[1:] >= others[:-1]).all() else np.sort(others)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[at] == values)


def is_one_of(values: NDArray[Number], few: Iterable[int]) -> Mask:
    """Return which values are one of a few numbers, such as the types of some relocations."""
    found = np.zeros(len(values), np.bool_)
    for number in few:
        found |= values == number
    return found


def _is_first(ordered: NDArray[Number]) -> Mask:
    """Return which values differ from the one before."""
    fresh = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return fresh


def connected(count: int, one: I64, other: I64) -> I64:
    """Return for each of `count` points the lowest one that it is connected with; pairs of points are connected."""
    lowest = np.arange(count)
    while True:
        before = lowest
        of_pair = np.minimum(before[one], before[other])
        lowest = before.copy()
        for points in (before[one], before[other]):  # so all that are connected with these learn it, too
            np.minimum.at(lowest, points, of_pair)
        lowest = lowest[lowest]
        if (lowest == before).all():
            return lowest
