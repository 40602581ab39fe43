"""Trees of stacks, and what is summed over them."""

from __future__ import annotations

import random

import pytest

from unwind.report.tree import TreeSums
from unwind.writers.stack_tree import ROOT, StackTree

Path = tuple[int, ...]
A, B, C = range(3)


def summed(stacks: dict[Path, int]) -> TreeSums:
    tree = StackTree()
    for stack, weight in stacks.items():
        tree.weights[tree.add(ROOT, stack)] += weight
    return TreeSums(tree)


def some(seed: int) -> dict[Path, int]:
    """Return stacks of few functions, which stand in themselves often."""
    choose = random.Random(seed)
    stacks: dict[Path, int] = {}
    for _ in range(choose.choice([1, 30, 300])):
        stack = tuple(choose.choice((A, B, C)) for _ in range(choose.randrange(7)))
        stacks[stack] = choose.choice([1, 5, 200, 3000, 1 << 62])
    return stacks


@pytest.mark.parametrize("seed", range(10))
def test_sums_are_those_of_plain_counting(seed: int) -> None:
    stacks = some(seed)
    sums, keys = summed(stacks), (7, -1, 7)  # of A and C the same, of B none
    with_key = [(stack, weight) for stack, weight in stacks.items() if A in stack or C in stack]
    assert sums.weight == sums.totals[ROOT] == sum(stacks.values())
    assert sums.of_stacks(keys) == ({7: sum(weight for _, weight in with_key)} if with_key else {})
    each = {number: sum(stack.count(number) * weight for stack, weight in stacks.items()) for number in (A, B, C)}
    assert sums.of_frames((A, B, C)) == {number: weight for number, weight in each.items() if weight}
    last = {number: sum(weight for stack, weight in stacks.items() if stack[-1:] == (number,)) for number in (A, B, C)}
    ends = {number for stack in stacks for number in stack}
    assert sums.of_innermost((A, B, C)) == {number: weight for number, weight in last.items() if number in ends}


def test_a_frame_counts_once_for_a_stack_and_often_for_frames() -> None:
    sums = summed({(A, B, A, A): 3, (B, A): 1, (B,): 10})
    assert sums.of_stacks((A, B)) == {A: 4, B: 14}
    assert sums.of_frames((A, B)) == {A: 10, B: 14}
    assert sums.of_innermost((A, B)) == {A: 4, B: 10}


def test_stacks_that_begin_alike_share_their_nodes() -> None:
    tree = StackTree()
    assert tree.add(ROOT, (A, B)) == tree.add(tree.add(ROOT, (A,)), (B,)) != tree.add(ROOT, (B,))
    assert tree.frames.tolist() == [-1, A, B, B] and tree.callers.tolist() == [ROOT, ROOT, 1, ROOT]


@pytest.mark.parametrize("stacks", [{}, {(): 3}])
def test_no_frames(stacks: dict[Path, int]) -> None:
    sums = summed(stacks)
    assert sums.totals.tolist() == [sum(stacks.values())]
    assert not sums.of_stacks(()) and not sums.of_frames(()) and not sums.of_innermost(())
