"""Stacks that share their outer frames.

    (root) <── main <── run <── grow        a node is a frame and the node of its caller
                           └─── shrink

A recording has millions of stacks, and most of each is in others, too. In a tree of calls what is known of a frame
after its callers is looked up once, however many stacks it is part of. The tree is columns of numbers
(`unwind.samples.columns`), which kernels walk.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unwind.samples import columns as c
from unwind.samples._tree import frames_along
from unwind.samples.path_tree import PathTree
from unwind.samples.recording import RecordedFrame, RecordedProcess


class CallTree(PathTree):
    """The stacks of any number of processes: a node has the number of its frame, and comes after that of its caller.

    Node 0 is the caller of all roots.

    Attributes:
        frames: by number.
        is_first: by number, whether it stands for the frame as the first of a stack, whose address is a program
            counter then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[RecordedFrame] = []
        self.is_first: list[bool] = []
        self._numbers: dict[tuple[RecordedFrame, bool], int] = {}
        self._roots: dict[RecordedProcess, int] = {}

    @property
    def roots(self) -> list[int]:
        """The nodes that stand for the callers of outermost frames."""
        return list(self._roots.values())

    def root(self, process: RecordedProcess) -> int:
        """Return the node that stands for the caller of the outermost frames of a process."""
        root = self._roots.get(process)
        if root is None:
            root = self._roots[process] = self.add(0, [c.FIRST_ROOT + len(self._roots)])
        return root

    def number(self, frame: RecordedFrame, is_first: bool = False) -> int:
        """Return the number of a frame."""
        number = self._numbers.get((frame, is_first))
        if number is None:
            number = self._numbers[frame, is_first] = len(self.frames)
            self.frames.append(frame)
            self.is_first.append(is_first)
        return number

    def node_of(self, process: RecordedProcess, frames: Sequence[RecordedFrame], is_called: bool) -> int:
        """Return the node of a stack, given innermost first; `is_called`: the first frame has a return address, too."""
        numbers = [self.number(frame) for frame in frames[:0:-1]]
        if frames:
            numbers.append(self.number(frames[0], not is_called))
        self.depth = max(self.depth, len(numbers))
        return self.add(self.root(process), numbers)


class CallStack(tuple[RecordedFrame, ...]):
    """The frames of a stack, innermost first, and its node in a tree; compared by identity."""

    tree: CallTree
    node: int

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


def stacks_at(tree: CallTree, nodes: Sequence[int]) -> list[CallStack]:
    """Return the stacks of nodes."""
    stacks = []
    for node, frames in zip(nodes, frames_along(np.array(nodes, np.uint64).data, tree.nodes, tree.frames), strict=True):
        stack = CallStack(frames)
        stack.tree, stack.node = tree, node
        stacks.append(stack)
    return stacks
