"""The inlined calls of the functions that members claim, ready to be encoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from icf.columns import I64, U32
from icf.dwarf.inlines import InlineScan
from unwind.symcache.builder.names import Names
from unwind.symcache.builder.origins import Origins
from unwind.symcache.builder.twins import Placed

_LOW_BITS = np.uint64(40)


class Trees:
    """Ranges of nodes by function, then low, then node, and the name of each node."""

    def __init__(self, scan: InlineScan, wanted: I64, origins: Origins, names: Names, placed: Sequence[Placed]) -> None:
        functions, nodes, ranges = scan.functions, scan.nodes, scan.node_ranges
        self.nodes = nodes
        self.first_node, self.last_node = functions.first_node, functions.last_node
        is_wanted = np.zeros(len(functions.die), np.bool_)
        is_wanted[wanted] = True
        function = nodes.function[ranges.owner]
        kept = np.flatnonzero(is_wanted[function] & (ranges.low >> _LOW_BITS == 0))
        function = function[kept]
        # one number to sort by, which is twice as fast as three
        order = kept[np.argsort(function.astype(np.uint64) << _LOW_BITS | ranges.low[kept], kind="stable")]
        self.low, self.high = ranges.low[order], ranges.high[order]
        function = nodes.function[ranges.owner[order]]
        self.range_node: U32 = (ranges.owner[order] - functions.first_node[function]).astype(np.uint32)
        edges = np.searchsorted(function, np.arange(len(functions.die) + 1))
        counts = np.cumsum([edges[-1], *(len(each.ranges) for each in placed)])
        self.first_range, self.last_range = np.append(edges[:-1], counts[:-1]), np.append(edges[1:], counts[1:])
        if placed:
            more = np.array([each for ranges in placed for each in ranges.ranges], np.uint64).reshape(-1, 3)
            self.low, self.high = np.append(self.low, more[:, 0]), np.append(self.high, more[:, 1])
            self.range_node = np.append(self.range_node, more[:, 2].astype(np.uint32))
        self.name: U32 = np.zeros(len(nodes.origin), np.uint32)
        named = np.flatnonzero(is_wanted[nodes.function])
        origin = origins.of_node[named]
        uses = np.bincount(origin, minlength=len(origins.identity.name))
        used = np.flatnonzero(uses)
        numbers = np.zeros(len(uses), np.uint32)
        numbers[used] = names.number(names.of_functions(origins.identity.rows(used)), uses[used])
        self.name[named] = numbers[origin]
