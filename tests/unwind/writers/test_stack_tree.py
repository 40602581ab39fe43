"""Trees of stacks: one takes over the stacks of another, and is written as lines; both against plain Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.support.builds import uncompiled
from unwind.samples import _tree, path_tree
from unwind.writers import _lines, lines, stack_tree
from unwind.writers.stack_tree import ROOT, NumberRows, StackTree

Path = tuple[int, ...]
NAMES = [b"main", b"run", b"a;b", b"", b"grow" * 50, b"\xff\xfe", b"runs"]


@pytest.fixture(params=[(_tree, _lines), (uncompiled(_tree), uncompiled(_lines))], ids=["installed", "uncompiled"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    tree, writes = request.param
    for module, name in ((path_tree, "add_path"), (path_tree, "refill"), (stack_tree, "add_along")):
        monkeypatch.setattr(module, name, getattr(tree, name))
    monkeypatch.setattr(lines, "write_lines", writes.write_lines)
    monkeypatch.setattr(path_tree, "_NODES", 2)  # so that the tree grows often
    monkeypatch.setattr(lines, "_AT_ONCE_BYTES", 2)


def some_paths(choose: random.Random, below: int, count: int) -> list[Path]:
    return [tuple(choose.choices(range(below), k=choose.randrange(1, 7))) for _ in range(count)]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("seed", range(5))
def test_the_stacks_of_one_tree_are_added_to_another(seed: int) -> None:
    choose = random.Random(seed)
    calls, rows = StackTree(), [tuple(choose.choices(range(9), k=choose.randrange(4))) for _ in range(5)]
    taken = NumberRows()
    for row in rows:
        taken.append(row)
    paths = some_paths(choose, len(rows), 60)
    nodes = np.array([calls.add(ROOT, path) for path in paths], np.uint64)
    of_node = calls.frames.astype(np.uint32)
    tree = StackTree()
    first = tree.add(ROOT, (4, 4))
    added = tree.add_along(calls, nodes, of_node.data, taken, ([ROOT], first))
    for node, path in zip(added.tolist(), paths, strict=True):
        assert node == tree.add(first, [number for frame in path for number in rows[frame]])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("seed", range(5))
def test_lines_are_those_of_sorted_paths(seed: int) -> None:
    choose = random.Random(seed)
    counts = {path: choose.randrange(1 << 70) for path in some_paths(choose, len(NAMES), 100 * seed)}
    tree = StackTree()
    texts = {tree.add(ROOT, path): b" %d\n" % count for path, count in counts.items()}
    wanted = sorted((tuple(NAMES[number] for number in path), count) for path, count in counts.items())
    written = b"".join(lines.lines(tree, NAMES, texts))
    assert written == b"".join(b"%b %d\n" % (joined(path), count) for path, count in wanted)


def joined(path: tuple[bytes, ...]) -> bytes:
    """A name without characters at the beginning is left out."""
    text = b""
    for name in path:
        text = b"%b;%b" % (text, name) if text else name
    return text
