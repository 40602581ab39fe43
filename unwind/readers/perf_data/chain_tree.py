"""The call chains of samples as stacks that share their callers (`unwind.samples.calls`).

The kernel finds chains in a tree (`_samples`); this makes the frame of an address when the kernel meets it first, and
the calls that are new in the tree. What is kept is bounded: a tree that grew too large is begun anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from icf.columns import U64
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data._samples import add_frame, fill_tree, find_nodes, move_frames
from unwind.readers.perf_data.frames import Tables
from unwind.readers.perf_data.layout import (
    CONTEXT_GUEST,
    CONTEXT_GUEST_KERNEL,
    CONTEXT_GUEST_USER,
    CONTEXT_HYPERVISOR,
    CONTEXT_KERNEL,
)
from unwind.samples.calls import Call, CallStack
from unwind.samples.recording import RecordedFrame

_FRAME_BITS, _NODE_BITS = 12, 14  # of the tables at the beginning
_KEPT_FRAMES, _KEPT_NODES = 1 << 19, 1 << 21
# in the order of `rows`
_MARKERS = (CONTEXT_HYPERVISOR, CONTEXT_KERNEL, CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER)
_FRAME_MASK = (1 << 32) - 1


class ChainTree:
    """The stacks of a recording; `others` are the tables of the spaces that are of no process, by their markers."""

    def __init__(self, others: Mapping[int, Tables]) -> None:
        self._others = [others[marker] for marker in _MARKERS]
        self._numbers = _zeros(r.CHAIN_LIMIT)
        self.clear()

    @property
    def is_full(self) -> bool:
        """Whether it should be begun anew."""
        return len(self._frames) > _KEPT_FRAMES or len(self._calls) > _KEPT_NODES

    def space_of(self, tables: Tables) -> int:
        """Return the number of the space that these tables are of."""
        space = self._space_of.get(tables)
        if space is None:
            space = self._space_of[tables] = len(self._spaces)
            self._spaces.append(tables)
        return space

    def stacks(self, buffer: bytes, rows: U64) -> list[CallStack | None]:
        """Return the stack of each row; None where SPACE is NONE, or a later record completes the chain."""
        first = 0
        view, state = (memoryview(buffer), rows.data), self._state
        while (reason := find_nodes(*view, first, *self._tables, state, self._numbers)) != r.DONE:
            first = state[r.WANTED_ROW]
            if reason == r.NEEDS_FRAME:
                self._add_frame(state[r.WANTED_ADDRESS], state[r.WANTED_KEY])
            else:
                self._enlarge_tree()
        self._make_calls()
        known = self._stacks
        found: list[CallStack | None] = []
        for space, node in rows[:, r.SPACE : r.NODE + 1].tolist():
            if space == r.NONE or node == r.NONE:
                found.append(None)
                continue
            stack = known.get(node)
            if stack is None:
                stack = known[node] = CallStack.of(self._calls[node])
            found.append(stack)
        return found

    def clear(self) -> None:
        """Begin anew: the numbers of spaces are other ones then."""
        self._spaces = list(self._others)
        self._space_of: dict[Tables, int] = {}
        self._frames: list[RecordedFrame] = []
        self._frame_numbers: dict[RecordedFrame, int] = {}
        self._address_count = 0
        self._calls: list[Call] = [Call(RecordedFrame(), None)]  # of the root, which no chain is
        self._stacks: dict[int, CallStack] = {}
        self._tables = (
            _zeros(1 << _FRAME_BITS, 3),
            _zeros(1 << _NODE_BITS, 2),
            _zeros(1 << _NODE_BITS - 1),
        )
        self._state = _zeros(r.NODES_WIDTH)
        self._state[r.ADDRESS_SHIFT], self._state[r.NODE_SHIFT] = 64 - _FRAME_BITS, 64 - _NODE_BITS
        self._state[r.NODE_COUNT] = 1  # the root

    def _add_frame(self, address: int, key: int) -> None:
        """Make the frame of an address, which `find_nodes` wants."""
        tables = self._spaces[(key - 1) >> 1]
        frame = (tables.exact if (key - 1) & 1 else tables.called)[address]
        number = self._frame_numbers.setdefault(frame, len(self._frames))
        if number == len(self._frames):
            self._frames.append(frame)
        addresses, tree, nodes = self._tables
        self._address_count += 1
        if 2 * self._address_count > len(addresses):
            self._state[r.ADDRESS_SHIFT] -= 1
            larger = _zeros(2 * len(addresses), 3)
            move_frames(addresses, larger, self._state)
            self._tables = larger, tree, nodes
        add_frame(self._tables[0], self._state, address, key, number)

    def _enlarge_tree(self) -> None:
        addresses, tree, nodes = self._tables
        self._state[r.NODE_SHIFT] -= 1
        more = _zeros(2 * len(nodes))
        more[: len(nodes)] = nodes
        self._tables = addresses, _zeros(2 * len(tree), 2), more
        fill_tree(more, self._tables[1], self._state)

    def _make_calls(self) -> None:
        """Make the calls that are new in the tree; the caller of each comes before it."""
        calls, frames = self._calls, self._frames
        count = self._state[r.NODE_COUNT]
        for node in self._tables[2][len(calls) : count].tolist():
            caller = node >> 32
            calls.append(Call(frames[node & _FRAME_MASK], calls[caller] if caller else None))


def _zeros(*shape: int) -> memoryview:
    return np.zeros(shape, np.uint64).data
