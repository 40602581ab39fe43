"""`.debug_cu_index`: the contributions of each unit to the sections of a package (.dwp).

DWARF 5, 7.3.5.3; version 2 is GNU's, for DWARF 4:

    version        2: 4 bytes; 5: 2 bytes and 2 of padding
    counts         4 bytes each: columns, units, slots of the hash table
    hash table     8 bytes for each slot: a unit's id; 4 bytes for each slot: its row, counted from 1, 0 for none
    column heads   4 bytes each: which section
    offsets        4 bytes for each row and column: where its contribution to the section begins
    sizes          4 bytes for each row and column: the size of that contribution

The hash table is not needed: units are found by their offset in .debug_info.dwo and carry their id.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U32
from icf.reader import Reader

CU_INDEX = ".debug_cu_index"
_NAMES = {
    2: {1: "info", 2: "types", 3: "abbrev", 4: "line", 5: "loc", 6: "str_offsets", 7: "macinfo", 8: "macro"},
    5: {1: "info", 3: "abbrev", 4: "line", 5: "loclists", 6: "str_offsets", 7: "macro", 8: "rnglists"},
}
_COLUMN_MAX = 16


class Contribution(NamedTuple):
    """A unit's piece of one section of the package."""

    offset: int
    size_bytes: int


class UnitIndex(NamedTuple):
    """A contribution for each unit (row) and section (column)."""

    offsets: dict[str, U32]  # by the section's name without .debug_ and .dwo
    sizes: dict[str, U32]

    def row_at(self, info_offset: int) -> int:
        """Return the row of the unit that begins at that offset of .debug_info.dwo, -1 if there is none."""
        rows = np.flatnonzero(self.offsets["info"] == info_offset)
        return int(rows[0]) if len(rows) else -1

    def contribution(self, row: int, section: str) -> Contribution:
        """Return the contribution of a unit to a section; an empty one if the package has none."""
        if section not in self.offsets:
            return Contribution(0, 0)
        return Contribution(int(self.offsets[section][row]), int(self.sizes[section][row]))


def parse_unit_index(contents: memoryview, path: str) -> UnitIndex:
    """Return the index of a package."""
    reader = Reader(contents, path, CU_INDEX)
    version = reader.u16()
    if version not in _NAMES:
        raise reader.error(f"version {version}, must be 2 or 5", 0)
    reader.u16()
    column_count, unit_count, slot_count = reader.u32(), reader.u32(), reader.u32()
    if column_count > _COLUMN_MAX:
        raise reader.error(f"{column_count} columns, must be {_COLUMN_MAX} or fewer", 4)
    reader.take(12 * slot_count)
    names = [_NAMES[version].get(reader.u32(), "") for _ in range(column_count)]
    if "info" not in names:
        raise reader.error("no column for .debug_info")
    shape = (unit_count, column_count)
    offsets, sizes = (
        np.frombuffer(reader.take(4 * unit_count * column_count), "<u4").reshape(shape).T for _ in range(2)
    )
    return UnitIndex(dict(zip(names, offsets, strict=True)), dict(zip(names, sizes, strict=True)))
