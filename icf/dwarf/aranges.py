"""Which code each unit claims: .debug_aranges (DWARF 5, 6.1.2), in .debug_info of the image.

gcc lists every section that it has filled with functions, described or not. A table that cannot be read counts as
absent, together with those after it: callers must work without any.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U64
from icf.elf.image import Image
from icf.errors import FormatError
from icf.reader import Reader

SECTION = ".debug_aranges"
_DWARF64 = 0xFFFFFFFF


class Ranges(NamedTuple):
    """One row for each range that is not empty: the offset of its unit in .debug_info, its start and its end."""

    unit: U64
    low: U64
    high: U64


def read_ranges(file: Image) -> Ranges:
    """Read all tables with addresses of 8 bytes."""
    units: list[U64] = []
    pairs: list[U64] = [np.empty((0, 2), np.uint64)]
    reader = Reader(file.contents(SECTION), file.path, SECTION)
    try:
        while reader.remaining:
            start = reader.pos
            size_bytes, offset_bytes = reader.u32(), 4
            if size_bytes == _DWARF64:
                size_bytes, offset_bytes = reader.u64(), 8
            table = Reader(reader.take(size_bytes), file.path, SECTION)
            version, unit, address_bytes, segment_bytes = table.u16(), table.uint(offset_bytes), table.u8(), table.u8()
            if version != 2 or address_bytes != 8 or segment_bytes:
                continue
            head_bytes = reader.pos - start - table.remaining
            table.take(-head_bytes % 16)
            found = np.frombuffer(table.take(table.remaining // 16 * 16), "<u8").astype(np.uint64).reshape(-1, 2)
            units.append(np.full(len(found), unit, np.uint64))
            pairs.append(found)
    except FormatError:
        pass
    low, size = np.concatenate(pairs).T
    unit_of = np.concatenate([np.empty(0, np.uint64), *units])
    filled = size > 0
    return Ranges(unit_of[filled], low[filled], low[filled] + size[filled])
