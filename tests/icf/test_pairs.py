"""Rows by pairs of values, against a dictionary."""

from __future__ import annotations

import random

import numpy as np

from icf.pairs import PairIndex

VALUES = (0, 7, 1 << 63, (1 << 64) - 1)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.typing.NDArray[np.uint64], np.typing.NDArray[np.uint64]]:
    left, right = np.array(pairs, np.uint64).reshape(-1, 2).T
    return left, right


def test_each_pair_has_its_last_row() -> None:
    choose = random.Random(1)
    for count in (0, 1, 5, 40):
        pairs = [(choose.choice(VALUES), choose.choice(VALUES)) for _ in range(count)]
        row_of = {pair: row for row, pair in enumerate(pairs)}
        asked = [(left, right) for left in (*VALUES, 3) for right in (*VALUES, 9)]
        found = PairIndex(*columns(pairs)).find(*columns(asked)).tolist()
        assert found == [row_of.get(pair, -1) for pair in asked]


def test_pairs_have_all_their_rows() -> None:
    choose = random.Random(2)
    for count in (0, 1, 5, 40):
        pairs = [(choose.choice(VALUES), choose.choice(VALUES)) for _ in range(count)]
        asked = [(left, right) for left in (*VALUES, 3) for right in (*VALUES, 9)]
        index, row = PairIndex(*columns(pairs)).rows(*columns(asked))
        found = list(zip(index.tolist(), row.tolist(), strict=True))
        assert found == [(at, row) for at, pair in enumerate(asked) for row in range(count) if pairs[row] == pair]
