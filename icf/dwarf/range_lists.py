"""Range lists: the ranges of functions and inlined calls whose code is not in one piece.

DWARF 5 section 2.17.3: DW_AT_ranges, an offset or an index into .debug_rnglists, before that into .debug_ranges.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U64
from icf.dwarf import _ranges
from icf.dwarf import columns as col
from icf.dwarf.units import DebugInfo


def range_requests(debug: DebugInfo, rows: I64, ranges: U64, forms: U64, unit: U64) -> U64:
    """Return the arguments of `_ranges.expand` for range lists given by DW_AT_ranges.

    Those of split units have a base.
    """
    units = debug.units[unit.astype(np.intp)]
    split = (units[:, col.FLAGS] & col.BASES_GIVEN) != 0
    if split.any():
        is_old = units[:, col.VERSION] < 5
        header = np.where(units[:, col.OFFSET_SIZE] == 8, np.uint64(20), np.uint64(12))
        base = np.where(is_old, units[:, col.RNGLISTS_BASE], units[:, col.RNGLISTS_BASE] - header)
        ranges = ranges + np.where(split & (forms == col.RANGES_AT), base, np.uint64(0))
    return np.stack([rows.astype(np.uint64), ranges, forms, unit], axis=1)


def expand_lists(debug: DebugInfo, rows: I64, ranges: U64, forms: U64, unit: U64) -> U64:
    """Return the ranges in the range lists of `rows`, in order: u64[n, 4] of row, low, high, position in the list."""
    ask = range_requests(debug, rows, ranges, forms, unit)
    capacity, addr = 4 * len(rows) + 64, debug.addresses_of(unit.astype(np.int64))
    while True:
        out = np.empty((capacity, 4), np.uint64)
        count = _ranges.expand(ask.data, debug.units.data, debug.ranges, debug.rnglists, addr, out.data)
        # every range takes two bytes or more, but hostile lists may be shared: their functions lose ranges
        if count < capacity or capacity > len(debug.ranges) + len(debug.rnglists):
            return out[:count]
        capacity *= 4
