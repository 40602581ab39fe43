"""The rows of a flame graph: a tree of stacks without its twigs.

main  8        4 of 8 stacks end in each, so with a threshold of 2 the row of `c` is left out
  a   4
    b 3        c 1
  d   4
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unwind.report.data import Kind, Row, Tree
from unwind.report.tree import TreeSums
from unwind.writers.stack_tree import ROOT

DEPTH_LIMIT = 256
_SMALLEST_SHARE = 10_000  # a frame of less than a ten thousandth is a tenth of a pixel on a wide screen
_ROW_LIMIT = 30_000


class Shown(NamedTuple):
    """A frame as a tree shows it."""

    name: str
    kind: Kind = Kind.SAME
    other: str = ""


class FrameNumbers:
    """Numbers of frames; equal ones have the same."""

    def __init__(self) -> None:
        self.frames: list[Shown] = []
        self._numbers: dict[Shown, int] = {}

    def of(self, frame: Shown) -> int:
        """Return the number of a frame."""
        number = self._numbers.get(frame)
        if number is None:
            number = self._numbers[frame] = len(self.frames)
            self.frames.append(frame)
        return number


def rows_of(stacks: TreeSums, frames: Sequence[Shown], row_limit: int = _ROW_LIMIT) -> Tree:
    """Return the tree of a flame graph; the lighter frames are left out until `row_limit` rows stay."""
    threshold = -(-stacks.weight // _SMALLEST_SHARE)
    depths = _depths(stacks, threshold)
    weights = stacks.totals[list(depths)]
    while sum(weights >= threshold) > row_limit:
        threshold *= 2
    heavy = [node for node, weight in zip(depths, weights.tolist(), strict=True) if weight >= threshold]
    inwards: dict[int, list[int]] = {node: [] for node in heavy}
    for node in heavy[1:]:
        inwards[int(stacks.callers[node])].append(node)
    rows: list[Row] = []
    waiting = [ROOT]
    while waiting:
        node = waiting.pop()
        weight = int(stacks.totals[node])
        name, kind, other = frames[stacks.frames[node]] if node != ROOT else Shown("all")
        rows.append(Row(depths[node], name, kind, weight, other))
        waiting += sorted(inwards[node], key=lambda each: int(stacks.frames[each]), reverse=True)
    return Tree(tuple(rows), threshold)


def _depths(stacks: TreeSums, threshold: int) -> dict[int, int]:
    """Return how deep each node of at least the threshold is, up to the limit; callers come first, and the root."""
    depths = {ROOT: 0}
    nodes = np.flatnonzero(stacks.totals >= threshold)
    for node, caller in zip(nodes.tolist(), stacks.callers[nodes].tolist(), strict=True):
        depth = depths.get(caller, DEPTH_LIMIT)
        if node != ROOT and depth < DEPTH_LIMIT:
            depths[node] = depth + 1
    return depths
