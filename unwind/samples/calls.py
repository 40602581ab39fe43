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
from unwind.samples._tree import add_path, frames_along, refill
from unwind.samples.recording import RecordedFrame, RecordedProcess

_NODES = 1 << 12  # at the beginning


class CallTree:
    """The stacks of any number of processes; compared by identity.

    Attributes:
        frames: by number.
        is_first: by number, whether it stands for the frame as the first of a stack, whose address is a program
            counter then.
        nodes: u64[m]: node of the caller << 32 | number of the frame; a root has caller 0.
        places: u64[2 ** n, 2]: the nodes by what `nodes` has, as a hash table.
        state: u64: how many nodes there are, and what kernels report.
        depth: at most so many nodes are in a stack.
    """

    def __init__(self) -> None:
        self.frames: list[RecordedFrame] = []
        self.is_first: list[bool] = []
        self.nodes, self.places = _zeros(_NODES), _zeros(2 * _NODES, 2)
        self.state = _zeros(c.TREE_WIDTH)
        self.state[c.NODE_COUNT] = 1  # the caller of all roots
        self.depth = 1
        self._numbers: dict[tuple[RecordedFrame, bool], int] = {}
        self._roots: dict[RecordedProcess, int] = {}

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return self.state[c.NODE_COUNT]

    def root(self, process: RecordedProcess) -> int:
        """Return the node that stands for the caller of the outermost frames of a process."""
        root = self._roots.get(process)
        if root is None:
            root = self._roots[process] = self._add(0, [c.FIRST_ROOT + len(self._roots)])
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
        return self._add(self.root(process), numbers)

    def reserve(self, count: int) -> None:
        """Make room for so many more nodes."""
        needed = self.node_count + count
        if needed > len(self.nodes):
            size = 1 << (needed - 1).bit_length()
            more, places = _zeros(size), _zeros(2 * size, 2)
            more[: len(self.nodes)] = self.nodes
            refill(self.places, places)
            self.nodes, self.places = more, places

    def _add(self, root: int, numbers: list[int]) -> int:
        self.reserve(len(numbers))
        return add_path(np.array(numbers, np.uint64).data, root, self.places, self.nodes, self.state)


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


def _zeros(*shape: int) -> memoryview:
    return np.zeros(shape, np.uint64).data
