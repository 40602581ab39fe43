"""The call chains of samples as stacks that share their callers (`unwind.samples.calls`).

The kernel finds chains in a tree (`_samples`); this makes the frame of an address when the kernel meets it first. What
is kept is bounded: a tree that grew too large is begun anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from icf.columns import U64
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data._samples import add_frame, find_nodes, move_frames
from unwind.readers.perf_data.frames import Tables
from unwind.readers.perf_data.layout import (
    CONTEXT_GUEST,
    CONTEXT_GUEST_KERNEL,
    CONTEXT_GUEST_USER,
    CONTEXT_HYPERVISOR,
    CONTEXT_KERNEL,
)
from unwind.samples.calls import CallStack, CallTree, stacks_at

_ADDRESSES = 1 << 12  # room for half as many at the beginning
_KEPT_FRAMES, _KEPT_NODES = 1 << 19, 1 << 21
# in the order of `rows`
_MARKERS = (CONTEXT_HYPERVISOR, CONTEXT_KERNEL, CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER)


class ChainTree:
    """The stacks of a recording; `others` are the tables of the spaces that are of no process, by their markers."""

    def __init__(self, others: Mapping[int, Tables]) -> None:
        self._others = [others[marker] for marker in _MARKERS]
        self._numbers = np.zeros(r.CHAIN_LIMIT, np.uint64).data
        self._state = np.zeros(r.FIND_WIDTH, np.uint64).data
        self.clear()

    @property
    def is_full(self) -> bool:
        """Whether it should be begun anew."""
        return len(self.calls.frames) > _KEPT_FRAMES or self.calls.node_count > _KEPT_NODES

    def space_of(self, tables: Tables) -> int:
        """Return the number of the space that these tables are of."""
        space = self._space_of.get(tables)
        if space is None:
            space = self._space_of[tables] = len(self._spaces)
            self._spaces.append(tables)
        return space

    def find(self, buffer: bytes, rows: U64) -> None:
        """Store the NODE of the stack of each row; NONE where SPACE is NONE, or a later record completes the chain."""
        first, calls, state = 0, self.calls, self._state
        view = memoryview(buffer), rows.data
        while (
            reason := find_nodes(
                *view, first, self._addresses, calls.places, calls.nodes, calls.state, state, self._numbers
            )
        ) != r.DONE:
            first = state[r.WANTED_ROW]
            if reason == r.NEEDS_FRAME:
                self._add_frame(state[r.WANTED_ADDRESS], state[r.WANTED_KEY])
            else:
                calls.reserve(r.CHAIN_LIMIT)
        rows[rows[:, r.SPACE] == r.NONE, r.NODE] = r.NONE

    def stacks(self, nodes: Sequence[int]) -> list[CallStack | None]:
        """Return the stacks of nodes; None for NONE."""
        known = self._stacks
        new = [node for node in dict.fromkeys(nodes) if node not in known]
        known.update(zip(new, stacks_at(self.calls, new), strict=True))
        return list(map(known.__getitem__, nodes))

    def clear(self) -> None:
        """Begin anew: the numbers of spaces are other ones then."""
        self.calls = CallTree()
        self.calls.depth = r.CHAIN_LIMIT
        self._spaces = list(self._others)
        self._space_of: dict[Tables, int] = {}
        self._address_count = 0
        self._stacks: dict[int, CallStack | None] = {r.NONE: None}
        self._addresses = np.zeros((_ADDRESSES, 3), np.uint64).data

    def _add_frame(self, address: int, key: int) -> None:
        """Make the frame of an address, which `find_nodes` wants."""
        tables = self._spaces[(key - 1) >> 1]
        number = self.calls.number((tables.exact if (key - 1) & 1 else tables.called)[address])
        self._address_count += 1
        if 2 * self._address_count > len(self._addresses):
            larger = np.zeros((2 * len(self._addresses), 3), np.uint64).data
            move_frames(self._addresses, larger)
            self._addresses = larger
        add_frame(self._addresses, address, key, number)
