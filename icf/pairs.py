"""Rows of a table by two of its columns, looked up many at a time."""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U64
from icf.sets import distinct, rows_with


class PairIndex:
    """The rows of a table by the pairs of values in two columns."""

    def __init__(self, left: U64, right: U64) -> None:
        self._left, self._right = distinct(left), distinct(right)
        numbers = self._number(np.searchsorted(self._left, left), np.searchsorted(self._right, right))
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._order]

    def find(self, left: U64, right: U64) -> I64:
        """Return the last row of each pair, -1 where there is none."""
        if not len(self._numbers):
            return np.full(len(left), -1)
        numbers = self._numbers_of(left, right)
        at = np.maximum(np.searchsorted(self._numbers, numbers, side="right") - 1, 0)
        return np.where(self._numbers[at] == numbers, self._order[at], -1)

    def rows(self, left: U64, right: U64) -> tuple[I64, I64]:
        """Return all rows of these pairs: of each the index of the pair, and the row."""
        if not len(self._numbers):
            return self._order, self._order
        pair, at = rows_with(self._numbers, self._numbers_of(left, right))
        return pair, self._order[at]

    def _numbers_of(self, left: U64, right: U64) -> I64:
        """Return the number of each pair, -1 if one of its values is in no row."""
        at_left = np.minimum(np.searchsorted(self._left, left), len(self._left) - 1)
        at_right = np.minimum(np.searchsorted(self._right, right), len(self._right) - 1)
        is_known = (self._left[at_left] == left) & (self._right[at_right] == right)
        return np.where(is_known, self._number(at_left, at_right), -1)

    def _number(self, at_left: I64, at_right: I64) -> I64:
        """Return a number for each pair: no more values are in either column than the table has rows."""
        return np.asarray(at_left * len(self._right) + at_right)
