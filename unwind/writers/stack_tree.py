"""Stacks added up as one tree, for what shows no single sample.

Stacks that begin alike share nodes. A tree grows node by node, a caller before what it calls, and is columns: millions
of nodes are a few numbers each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ROOT = 0
_BITS = 32  # of the number of a frame in a key


class StackTree:
    """Stacks, each as the numbers of its frames from the outermost; the root has number -1.

    Attributes:
        callers: by node, the node further out.
        frames: by node, the number of its frame.
        weights: by node, that of the stacks that end there: numbers of one type.
    """

    def __init__(self) -> None:
        self.callers = [ROOT]
        self.frames = [-1]
        self.weights: list[Any] = [0]
        self._inwards: dict[int, int] = {}  # a node and the number of a frame -> the node of that frame

    def then(self, node: int, frames: Iterable[int]) -> int:
        """Return the node of the last of some frames, one inwards of the other, which stand inwards of a node."""
        inwards = self._inwards
        for frame in frames:
            key = node << _BITS | frame
            found = inwards.get(key)
            if found is None:
                found = inwards[key] = len(self.callers)
                self.callers.append(node)
                self.frames.append(frame)
                self.weights.append(0)
            node = found
        return node

    def finish(self) -> None:
        """Free what only more stacks would need: there are none."""
        self._inwards.clear()
