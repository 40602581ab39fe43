"""What is summed over the tree of all stacks of a profile (`unwind.writers.stack_tree`).

When all stacks are in it, the nodes are put in pre-order, where the nodes inwards of one are a range:

    main a b  3        node          own   total   first   end
    main a c  1        main            0       8       0     5
    main d    4        ├─ a            0       4       1     4
                       │  ├─ b         3       3       2     3
                       │  └─ c         1       1       3     4
                       └─ d            4       4       4     5

A total is then a difference of running sums; and of the nodes with one function the outermost of their stack are those
that begin after the ranges of all before them have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icf.columns import I64
from unwind.writers.stack_tree import StackTree

_LARGEST = (1 << 63) - 1
_Weights = NDArray[Any]  # int64, or integers of Python where a sum has more bits


class TreeSums:
    """What the stacks of a tree add up to.

    Attributes:
        totals: the weight of the stacks that have each node.
        weight: the weight of all stacks.
    """

    def __init__(self, tree: StackTree) -> None:
        self.weight = sum(tree.weights.values())
        self.frames, self.callers = tree.frames, tree.callers
        self._own: _Weights = np.zeros(tree.node_count, np.int64 if self.weight <= _LARGEST else object)
        self._own[list(tree.weights)] = list(tree.weights.values())
        callers = self.callers.tolist()
        sizes = [1] * len(callers)
        for node in range(len(callers) - 1, 0, -1):
            sizes[callers[node]] += sizes[node]
        first, free = [0] * len(callers), [1] * len(callers)  # `free`: where the next node inwards of each begins
        for node in range(1, len(callers)):
            caller = callers[node]
            first[node] = at = free[caller]
            free[caller] = at + sizes[node]
            free[node] = at + 1
        self._first: I64 = np.array(first, np.int64)
        self._end: I64 = self._first + np.array(sizes, np.int64)
        in_order = np.empty_like(self._own)
        in_order[self._first] = self._own
        running = np.concatenate([np.zeros(1, self._own.dtype), np.cumsum(in_order)])
        self.totals: _Weights = running[self._end] - running[self._first]

    def of_stacks(self, keys: Sequence[int]) -> dict[int, int]:
        """Return the weight of the stacks that have some frame of each key; `keys[frame]` is below 0 for none."""
        of_node = self._keys(keys)
        nodes = np.flatnonzero(of_node >= 0)
        nodes = nodes[np.lexsort((self._first[nodes], of_node[nodes]))]
        key, first = of_node[nodes], self._first[nodes]
        # each key's ranges are moved to where those of the keys before it have ended
        moved = key * (len(of_node) + 1)
        ended = np.maximum.accumulate(moved + self._end[nodes])
        is_outermost = np.ones(len(nodes), bool)
        is_outermost[1:] = (moved + first)[1:] >= ended[:-1]
        return _added(key[is_outermost], self.totals[nodes[is_outermost]])

    def of_frames(self, keys: Sequence[int]) -> dict[int, int]:
        """Return the weight of the frames of each key: a stack that has two of them counts twice."""
        return self._by_key(keys, self.totals)

    def of_innermost(self, keys: Sequence[int]) -> dict[int, int]:
        """Return the weight of the stacks that end with a frame of each key."""
        return self._by_key(keys, self._own)

    def _by_key(self, keys: Sequence[int], weights: _Weights) -> dict[int, int]:
        of_node = self._keys(keys)
        nodes = np.flatnonzero(of_node >= 0)
        nodes = nodes[np.argsort(of_node[nodes], kind="stable")]
        return _added(of_node[nodes], weights[nodes])

    def _keys(self, keys: Sequence[int]) -> I64:
        """Return the key of each node."""
        return np.array([*keys, -1], np.int64)[self.frames]  # frame -1, of the root, is the last one


def _added(keys: I64, weights: _Weights) -> dict[int, int]:
    """Return the sum of the weights of each key; keys ascend."""
    if not len(keys):
        return {}
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return dict(zip(keys[starts].tolist(), np.add.reduceat(weights, starts).tolist(), strict=True))
