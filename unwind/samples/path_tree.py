"""Paths of numbers that share their beginnings, in columns (`unwind.samples.columns`) that kernels walk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unwind.samples import columns as c
from unwind.samples._tree import add_path, refill

_NODES = 1 << 12  # at the beginning


class PathTree:
    """A tree that only grows: a node is a number and the node before it; compared by identity.

    Attributes:
        nodes: u64[m]: node before it << 32 | number.
        places: u64[2 ** n, 2]: the nodes by what `nodes` has, as a hash table.
        state: u64: how many nodes there are, and what kernels report.
        depth: at most so many nodes are in a path.
    """

    def __init__(self) -> None:
        self.nodes, self.places = zeros(_NODES), zeros(2 * _NODES, 2)
        self.state = zeros(c.TREE_WIDTH)
        self.state[c.NODE_COUNT] = 1  # node 0 comes before all others
        self.depth = 1

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return self.state[c.NODE_COUNT]

    def add(self, node: int, numbers: Sequence[int]) -> int:
        """Return the node of the last of some numbers, one after the other, which come after a node."""
        self.reserve(len(numbers))
        return add_path(np.array(numbers, np.uint64).data, node, self.places, self.nodes, self.state)

    def reserve(self, count: int) -> None:
        """Make room for so many more nodes."""
        needed = self.node_count + count
        if needed > len(self.nodes):
            size = 1 << (needed - 1).bit_length()
            more, places = zeros(size), zeros(2 * size, 2)
            more[: len(self.nodes)] = self.nodes
            refill(self.places, places)
            self.nodes, self.places = more, places


def zeros(*shape: int) -> memoryview:
    """Return a column of numbers, as kernels take it."""
    return np.zeros(shape, np.uint64).data
