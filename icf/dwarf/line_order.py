"""Which sequence of a line table belongs to which function, by the order that LLVM writes both in.

LLVM finishes one function after the other. Each gets a sequence of its own (-ffunction-sections), and its address a
place in .debug_addr, after those of the functions before it:

    .debug_info   h: addrx 0, 32 bytes    f: addrx 3, 20 bytes, tombstoned    g: addrx 9, 20 bytes, tombstoned
    .debug_line   0x1200 32 bytes         0x1800 20 bytes                     0x1800 20 bytes

So where f and g were folded into one body, the first of its two sequences is f's. The functions that have kept their
addresses, and the sizes, show whether the order holds: each remaining function must have the size of the remaining
sequence, or the answer is empty. Other compilers have no such order: with -gsplit-dwarf gcc fills .debug_addr, too, in
another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from icf.columns import I64, U64
from icf.sets import difference

if TYPE_CHECKING:
    from icf.dwarf.line import LineProgram

_STRAY = 20  # one of so many functions may have got its place early, by a reference from another one


def sequences_in_order(program: LineProgram, address_idx: U64, low: U64, high: U64) -> I64:
    """Return the sequence of each function of the unit, -1 where that is not certain.

    The columns have a row for each range of each function that has code, also where that code is not in the image;
    `address_idx` is 0 for one whose address does not stand in .debug_addr.
    """
    found = np.full(len(low), -1, np.int64)
    sequences = program.sequences
    live = np.flatnonzero(~sequences.dead)
    if not address_idx.all() or not len(live):
        return found
    order = live[np.argsort(sequences.start[live], kind="stable")]
    starts = sequences.start[order]
    first, last = np.searchsorted(starts, low), np.searchsorted(starts, low, side="right")
    _, back, here = np.unique(low, return_inverse=True, return_counts=True)
    is_anchor = (last - first == 1) & (here[back.reshape(-1)] == 1)
    found[is_anchor] = order[first[is_anchor]]
    is_within = (first == last) & (last > 0) & (sequences.end[order[np.maximum(last, 1) - 1]] > low)
    rows = np.argsort(address_idx, kind="stable")
    steps = np.diff(found[rows[is_anchor[rows]]])
    rows = rows[~is_anchor[rows] & ~is_within[rows]]
    rest = difference(np.arange(len(sequences)), np.sort(found[is_anchor]))
    if len(rows) != len(rest) or _STRAY * int((steps < 0).sum()) > len(steps):
        return found
    has_size = sequences.end[rest] - sequences.start[rest] == high[rows] - low[rows]
    if (has_size & ((first[rows] == last[rows]) | (sequences.start[rest] == low[rows]))).all():
        found[rows] = rest
    return found
