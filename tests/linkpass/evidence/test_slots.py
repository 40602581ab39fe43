"""Slots: one for each branch and each member of its body."""

from __future__ import annotations

import numpy as np

from linkpass.evidence.slots import Slots


def test_slots_are_by_branch_and_then_member() -> None:
    slots = Slots.of(np.array([2, 1, 3]))
    assert list(zip(slots.branch.tolist(), slots.member.tolist(), strict=True)) == [
        (0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2),
    ]  # fmt: skip
    assert slots.at(slots.branch, slots.member).tolist() == list(range(len(slots)))
    assert slots.all_of(np.array([2, 0])).tolist() == [3, 4, 5, 0, 1]
    assert slots.all_of(np.array([], np.int64)).tolist() == []


def test_no_branches_have_no_slots() -> None:
    assert len(Slots.of(np.array([], np.int64))) == 0
