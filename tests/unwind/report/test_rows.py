"""The rows of flame graphs: weights, order, and what is left out."""

from __future__ import annotations

import random

import pytest

from unwind.report.data import Kind, Tree
from unwind.report.rows import DEPTH_LIMIT, FrameNumbers, Shown, rows_of
from unwind.report.tree import TreeSums
from unwind.writers.stack_tree import ROOT, StackTree

Path = tuple[int, ...]
NUMBERS = FrameNumbers()
MAIN, A, B, C, D = (NUMBERS.of(Shown(name)) for name in ("main", "a", "b", "c", "d"))


def tree_of(stacks: dict[Path, int], row_limit: int = 1000) -> Tree:
    tree = StackTree()
    for stack, weight in stacks.items():
        tree.weights[tree.add(ROOT, stack)] += weight
    return rows_of(TreeSums(tree), NUMBERS.frames, row_limit)


def drawn(tree: Tree) -> list[str]:
    """Return a line for each row, indented by its depth."""
    return [f"{'  ' * row.depth}{row.name} {row.weight}" for row in tree.rows]


def test_stacks_that_begin_alike_share_their_frames() -> None:
    tree = tree_of({(MAIN, A, B): 3, (MAIN, D): 4, (MAIN, A, C): 1, (MAIN,): 2})
    assert drawn(tree) == ["all 10", "  main 10", "    a 4", "      b 3", "      c 1", "    d 4"]
    assert tree.threshold == 1


def test_a_frame_that_stands_in_itself() -> None:
    assert drawn(tree_of({(A, A, A): 2, (A, A): 1})) == ["all 3", "  a 3", "    a 3", "      a 2"]


def test_frames_of_one_name_and_different_kinds_are_different() -> None:
    changed = NUMBERS.of(Shown("a", Kind.CHANGED, "b"))
    rows = tree_of({(A,): 1, (changed,): 2}).rows
    assert [(row.name, row.kind, row.other, row.weight) for row in rows[1:]] == [
        ("a", Kind.SAME, "", 1),
        ("a", Kind.CHANGED, "b", 2),
    ]


def test_frames_lighter_than_a_ten_thousandth_are_left_out() -> None:
    tree = tree_of({(MAIN, A): 99_000, (MAIN, B, C): 9, (MAIN, D): 991})
    assert tree.threshold == 10
    assert drawn(tree) == ["all 100000", "  main 100000", "    a 99000", "    d 991"]


def test_the_heaviest_frames_stay_where_rows_are_limited() -> None:
    paths: dict[Path, int] = {(MAIN, NUMBERS.of(Shown(f"f{idx}"))): idx + 1 for idx in range(100)}
    tree = tree_of(paths, row_limit=50)
    assert len(tree.rows) <= 50 and tree.threshold == 64
    assert all(row.weight >= tree.threshold for row in tree.rows)
    assert [row.weight for row in tree.rows[2:]] == list(range(64, 101))


def test_deep_stacks_end_at_the_limit() -> None:
    tree = tree_of({(A,) * (DEPTH_LIMIT + 1000): 5})
    assert [row.depth for row in tree.rows] == list(range(DEPTH_LIMIT + 1))
    assert {row.weight for row in tree.rows} == {5}


def plain(paths: dict[Path, int], threshold: int) -> list[str]:
    """Return what `drawn` does, by counting each frame of each stack."""
    weights: dict[Path, int] = {}
    for path, weight in paths.items():
        for depth in range(len(path) + 1):
            weights[path[:depth]] = weights.get(path[:depth], 0) + weight
    kept = sorted(path for path, weight in weights.items() if weight >= threshold)
    return [f"{'  ' * len(path)}{NUMBERS.frames[path[-1]].name if path else 'all'} {weights[path]}" for path in kept]


@pytest.mark.parametrize("seed", range(20))
def test_weights_are_those_of_plain_counting(seed: int) -> None:
    choose = random.Random(seed)
    paths: dict[Path, int] = {}
    for _ in range(choose.choice([1, 30, 300])):
        path = tuple(choose.choice((A, B, C)) for _ in range(choose.randrange(7)))
        paths[path] = choose.choice([1, 5, 200, 3000])
    tree = tree_of(paths)
    assert drawn(tree) == plain(paths, tree.threshold)


@pytest.mark.parametrize("paths", [{}, {(): 3}])
def test_no_frames(paths: dict[Path, int]) -> None:
    assert [row.name for row in tree_of(paths).rows] == ["all"]
