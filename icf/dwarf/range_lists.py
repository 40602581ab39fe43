"""Range lists: the ranges of functions and inlined calls whose code is not in one piece.

DWARF 5 section 2.17.3: DW_AT_ranges, an offset or an index into .debug_rnglists, before that into .debug_ranges.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U64
from icf.contents import Contents
from icf.dwarf import _ranges
from icf.dwarf import columns as col
from icf.dwarf.units import DebugInfo

_HEAD_BYTES, _IS_64_BIT = 12, 0xFFFFFFFF
_CHUNK_BYTES = 1 << 20


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
    capacity, addr, lists = 4 * len(rows) + 64, debug.addresses_of(unit.astype(np.int64)), _lists_of(debug, ask)
    while True:
        out = np.empty((capacity, 4), np.uint64)
        count = _ranges.expand(ask.data, debug.units.data, debug.ranges, lists, addr, out.data)
        # every range takes two bytes or more, but hostile lists may be shared: their functions lose ranges
        if count < capacity or capacity > len(debug.ranges) + len(debug.rnglists):
            return out[:count]
        capacity *= 4


def _lists_of(debug: DebugInfo, ask: U64) -> memoryview:
    """Return .debug_rnglists with the contributions that have the lists of `ask`; others may be zero."""
    contents = debug.rnglists
    if contents.in_memory is not None:
        return contents.in_memory
    if debug.starts_of_lists is None:
        debug.starts_of_lists = contribution_starts(contents)
    units, starts = debug.units[ask[:, 3].astype(np.intp)], debug.starts_of_lists
    places = np.where(ask[:, 2] == col.RANGES_INDEX, units[:, col.RNGLISTS_BASE], ask[:, 1])
    places = places[(units[:, col.VERSION] >= 5) & (places < len(contents))]
    if not len(places):
        return contents.only([])
    first = int(np.searchsorted(starts, places.min(), side="right")) - 1
    last = int(np.searchsorted(starts, places.max(), side="right"))
    return contents.only([(int(starts[first]), int(starts[last]) if last < len(starts) else len(contents))])


def contribution_starts(contents: Contents) -> U64:
    """Return where the contributions to .debug_rnglists begin (DWARF 5, 7.28); bytes that are none end the last one."""
    starts, at, begin, chunk = [0], 0, 0, memoryview(b"")
    while True:
        if at + _HEAD_BYTES > begin + len(chunk):
            begin, chunk = at, contents[at : at + _CHUNK_BYTES]
            if len(chunk) < _HEAD_BYTES:
                break
        head = at - begin
        size_bytes = int.from_bytes(chunk[head : head + 4], "little")
        if size_bytes == _IS_64_BIT:
            size_bytes = 8 + int.from_bytes(chunk[head + 4 : head + 12], "little")
        at += 4 + size_bytes
        if size_bytes < _HEAD_BYTES - 4 or at >= len(contents):
            break
        starts.append(at)
    return np.array(starts, np.uint64)
