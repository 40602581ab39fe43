"""Stacks as columns, from the file or the engine that has them to the tree of calls, without an object for each.

    addresses   0x9d8 0x87e 0x74a | 0x9d8 0x72a       of all stacks, innermost first
    starts      0                   3            5    where each stack begins, and where the last ends
    kinds                                             of each address: its module, and whether it is a program counter

A frame is an address with its kind. Each gets one `RecordedFrame` for all stacks. Each stack gets a number; equal ones,
which most rows of a profile are, have the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icf.columns import U32, U64, Mask
from unwind.samples import columns as c
from unwind.samples._stack_columns import add_stacks, copy_rows, keep_stacks, refill_numbers, refill_stacks
from unwind.samples.calls import CallTree
from unwind.samples.path_tree import zeros
from unwind.samples.recording import RecordedFrame, RecordedModule

FIRST, EXACT = 1, 2  # bits of a kind: the first of a stack, if that is a program counter; another program counter
MODULE_BITS = 2  # below the number of the module in a kind
NO_ADDRESS, NO_MODULE, FIRST_MODULE = range(3)  # numbers: a frame outside of all images; in no module that is known

_MET = 1 << 14  # new frames between two looks at them
_NUMBERS = 1 << 16  # places at the beginning
_STACKS, _FRAMES = 1 << 12, 1 << 16  # places at the beginning


class NewStacks(NamedTuple):
    """Stacks that were kept and have no answers yet.

    Attributes:
        first: the number of the first; the others follow.
        nodes: u64[n]: of each stack in the tree.
        starts: u64[n + 1]: where each begins in the columns of what is kept, and where the last ends.
        roots: u64[n]: the nodes of the callers of their outermost frames.
        is_called: of each, whether its first address is a return address, too.
    """

    first: int
    nodes: U64
    starts: U64
    roots: U64
    is_called: Mask


class StackTable:
    """Distinct stacks, by number, and the tree of calls that has them.

    Args:
        modules: those of kinds, by their number less `FIRST_MODULE`; the list may grow.

    Attributes:
        calls: the tree, which is filled from here alone.
        nodes: u64[k]: of each stack in the tree.
        rows: u32[m]: what stands for each frame of the kept stacks, at `starts` of `NewStacks`; set by the caller.
    """

    def __init__(self, modules: Sequence[RecordedModule]) -> None:
        self.calls = CallTree()
        self._modules = modules
        self._progress = zeros(c.PROGRESS_WIDTH)
        self._numbers, self._met = zeros(_NUMBERS, 3), zeros(_MET, 2)
        self._frames: dict[tuple[int, int], RecordedFrame] = {}
        self._table = zeros(4 * _STACKS, 2)
        self._starts, self._roots = np.zeros(_STACKS + 1, np.uint64), np.zeros(_STACKS, np.uint64)
        self._addresses, self._kinds = np.zeros(_FRAMES, np.uint64), np.zeros(_FRAMES, np.uint32)
        self.nodes, self.rows = np.zeros(_STACKS, np.uint64), np.zeros(_FRAMES, np.uint32)

    @property
    def frame_count(self) -> int:
        """How many frames all kept stacks have."""
        return int(self._starts[self._progress[c.STACKS]])

    def keep(self, addresses: U64, kinds: U32, starts: U64, roots: U64) -> tuple[U32, NewStacks]:
        """Return the numbers of stacks whose outermost frames come after nodes of the tree, and what is new."""
        found = np.empty(len(roots), np.uint32)
        deepest = int(np.diff(starts).max(initial=0))
        first = self._progress[c.STACKS]
        self._progress[c.DONE] = 0
        is_done = False
        while not is_done:
            self._make_room(deepest)
            is_done = keep_stacks(
                addresses.data, kinds.data, starts.data, roots.data, self._table, self._addresses.data,
                self._kinds.data, self._starts.data, self._roots.data, self._progress, found.data,
            )  # fmt: skip
        end = self._progress[c.STACKS]
        new = self._starts[first : end + 1]
        nodes = self.nodes[first:end]
        self._add(new, self._roots[first:end], nodes, deepest)
        is_called = np.zeros(end - first, np.bool_)
        has_frames = new[1:] > new[:-1]
        is_called[has_frames] = self._kinds[new[:-1][has_frames]] & FIRST == 0
        return found, NewStacks(first, nodes, new, self._roots[first:end], is_called)

    def is_called(self, stack: int) -> bool:
        """Return whether the first address of a stack is a return address, too."""
        start, end = self._starts[stack : stack + 2]
        return bool(start < end and not self._kinds[start] & FIRST)

    def rows_of(self, stacks: U32, starts: U64) -> U32:
        """Return what stands for each frame of stacks, by their numbers."""
        found = np.empty(int(starts[-1]), np.uint32)
        copy_rows(stacks.data, starts.data, self._starts.data, self.rows.data, found.data)
        return found

    def _add(self, starts: U64, roots: U64, nodes: U64, deepest: int) -> None:
        """Add stacks that are kept to the tree, and store their nodes."""
        tree = self.calls
        tree.depth = max(tree.depth, deepest)
        if deepest > len(self._met):
            self._met = zeros(1 << deepest.bit_length(), 2)
        self._progress[c.DONE] = 0
        is_done = False
        while not is_done:
            tree.reserve(deepest)
            self._make_room_for_numbers()
            is_done = add_stacks(
                self._addresses.data, self._kinds.data, starts.data, roots.data, self._numbers, self._met, tree.places,
                tree.nodes, tree.state, self._progress, nodes.data,
            )  # fmt: skip
            self._meet()

    def _meet(self) -> None:
        """Make the frames that are new."""
        for address, kind in np.asarray(self._met)[: self._progress[c.NEW]].tolist():
            number, key = kind >> MODULE_BITS, (address, kind & ~FIRST)
            frame = self._frames.get(key)
            if frame is None:
                module = self._modules[number - FIRST_MODULE] if number >= FIRST_MODULE else None
                at = None if number == NO_ADDRESS else address
                frame = self._frames[key] = RecordedFrame(at, module, is_exact=bool(kind & EXACT))
            self.calls.number(frame, bool(kind & FIRST))
        self._progress[c.NEW] = 0

    def _make_room(self, deepest: int) -> None:
        """Make room for one more stack at least."""
        stacks, frames = self._progress[c.STACKS], self.frame_count
        if stacks == len(self._roots):
            self._starts = np.concatenate([self._starts, np.zeros(stacks, np.uint64)])
            self._roots = np.concatenate([self._roots, np.zeros(stacks, np.uint64)])
            self.nodes = np.concatenate([self.nodes, np.zeros(stacks, np.uint64)])
            larger = zeros(2 * len(self._table), 2)
            refill_stacks(self._table, larger)
            self._table = larger
        if frames + deepest > len(self._addresses):
            more = (1 << (frames + deepest - 1).bit_length()) - len(self._addresses)
            self._addresses = np.concatenate([self._addresses, np.zeros(more, np.uint64)])
            self._kinds = np.concatenate([self._kinds, np.zeros(more, np.uint32)])
            self.rows = np.concatenate([self.rows, np.zeros(more, np.uint32)])

    def _make_room_for_numbers(self) -> None:
        """Keep at least half of the places free."""
        needed = 2 * (self._progress[c.FRAMES] + len(self._met))
        if needed > len(self._numbers):
            larger = zeros(1 << (needed - 1).bit_length(), 3)
            refill_numbers(self._numbers, larger)
            self._numbers = larger
