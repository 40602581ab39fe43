"""Stacks added up as one tree, for what shows no single sample.

Stacks that begin alike share nodes. A tree is columns, to which a kernel adds: millions of nodes are a few numbers
each.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from icf.columns import I64, U64
from unwind.samples import columns as c
from unwind.samples._tree import add_along
from unwind.samples.path_tree import PathTree, zeros

ROOT = 0


class NumberRows:
    """Rows of numbers, one after the other."""

    def __init__(self) -> None:
        self._starts, self._numbers = array("Q", [0]), array("Q")
        self.widest = 0  # how many are in the longest row

    def __len__(self) -> int:
        return len(self._starts) - 1

    def append(self, numbers: Sequence[int]) -> None:
        """Add a row."""
        self._numbers.extend(numbers)
        self._starts.append(len(self._numbers))
        self.widest = max(self.widest, len(numbers))

    @property
    def columns(self) -> tuple[memoryview, memoryview]:
        """Where each row starts, and where the last ends; the numbers."""
        return memoryview(self._starts), memoryview(self._numbers)


class StackTree(PathTree):
    """Stacks, each as the numbers of its frames from the outermost; compared by identity.

    Attributes:
        weights: by node, that of the stacks that end there, numbers of one type; nodes where none ends may be missing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weights: defaultdict[int, Any] = defaultdict(int)

    @property
    def callers(self) -> I64:
        """By node, the node further out."""
        return (np.asarray(self.nodes)[: self.node_count] >> np.uint64(c.NUMBER_BITS)).astype(np.int64)

    @property
    def frames(self) -> I64:
        """By node, the number of its frame; -1 of the root."""
        frames = (np.asarray(self.nodes)[: self.node_count] & np.uint64(c.NUMBER_MASK)).astype(np.int64)
        frames[ROOT] = -1
        return frames

    def add_along(
        self, tree: PathTree, nodes: U64, rows: memoryview, frames: NumberRows, start: tuple[Sequence[int], int]
    ) -> I64:
        """Add stacks of another tree, and return their nodes here.

        Args:
            tree: the other tree.
            nodes: those of the stacks there.
            rows: u32[m]: of each node there the row of the frames that stand for it here, in the low 31 bits.
            frames: these rows.
            start: nodes there where stacks begin, and the node here that stands for all of these.
        """
        known, path = zeros(tree.node_count), zeros(tree.node_count)
        for node in start[0]:
            known[node] = start[1] + 1
        self.state[c.AT] = 0
        while not add_along(
            nodes.data, tree.nodes, rows, *frames.columns, known, path, self.places, self.nodes, self.state
        ):
            self.reserve(frames.widest)
        return np.asarray(known)[nodes].astype(np.int64) - 1
