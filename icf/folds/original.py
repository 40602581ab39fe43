"""The functions that the linker had overwritten with a tombstone: the folded ones.

After their addresses have been restored (see icf.dwarf.units) a folded function looks like the kept one. The image as
linked distinguishes them: it has only the kept function's own address.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64
from icf.dwarf import _ranges
from icf.dwarf.dies import read_dies
from icf.dwarf.range_lists import range_requests
from icf.dwarf.scan import Functions
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.sets import distinct


def lost_addresses(debug: DebugInfo, image: Image, functions: Functions, rows: I64) -> frozenset[int]:
    """Return the DIEs among `rows` of `functions` whose address in the image is a tombstone."""
    if not debug.restored or not len(rows):
        return frozenset()
    before = debug.as_linked(image)
    dies = distinct(functions.die[rows])
    there = read_dies(before, dies)
    lost = set(dies[(there.low <= 1) & ((there.flags & 1) != 0)].tolist())
    listed = np.flatnonzero((there.flags & 1) == 0)
    if len(listed):
        form = there.flags[listed] & np.uint64(6)
        ask = range_requests(debug, listed, there.ranges[listed], form, there.unit[listed])
        out = np.empty((64 * len(listed) + 64, 4), np.uint64)
        count = _ranges.expand(ask, before.units, before.ranges, before.rnglists[:], before.addr[:], out)
        alive = {(int(row), int(low)) for row, low in out[:count, :2]}
        wanted = {int(d): i for i, d in enumerate(dies[listed].tolist())}
        for row in rows.tolist():
            die = int(functions.die[row])
            if die in wanted and (int(listed[wanted[die]]), int(functions.low[row])) not in alive:
                lost.add(die)
    return frozenset(lost)
