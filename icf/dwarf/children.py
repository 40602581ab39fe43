"""DIEs with those directly below them, in bulk: parameters of functions; members, bases and one method of classes.

    DW_TAG_class_type Each          row: the class itself
      DW_TAG_inheritance Visitor    row
      DW_TAG_subprogram visit       row: the first one that has a linkage name
        DW_TAG_formal_parameter     -
      DW_TAG_member then            row

Of a row the columns L_* are known: tag, type, offset in the class, size. Types by signature count as not known.
"""

from __future__ import annotations

import numpy as np

from icf.columns import U64
from icf.dwarf import columns as col
from icf.dwarf._children import read_children
from icf.dwarf._forms import child_slots, operations
from icf.dwarf.units import DebugInfo, compile_abbreviations
from icf.sets import runs

_ROWS = 1 << 13
_KEPT_BYTES = 32 << 20  # of units, which are asked again and again: for a type, for what it points to


class ChildReader:
    """Reads the DIEs of one image."""

    def __init__(self, debug: DebugInfo) -> None:
        self.debug = debug
        self._units = debug.units.copy()
        self._units[:, col.TABLE] = debug.tables[debug.units[:, col.TABLE].astype(np.intp), col.T_OFFSET]
        self._tables = compile_abbreviations(debug.abbrev, self._units, slot_of=child_slots())
        self._rows = np.empty((_ROWS, col.L_COUNT), np.uint64)
        self._kept: dict[int, memoryview] = {}
        self._room_bytes = _KEPT_BYTES

    def read(self, offsets: U64, *, variables: bool = False) -> U64:
        """Return the rows of the DIEs at `offsets`, which ascend: of each its own first; L_OWNER is its index there.

        `variables`: those in lists or registers at any depth, parameters included, in place of children.
        """
        unit_of = self.debug.unit_of(offsets)
        found = [self._rows[:0]]
        for unit, first, end in zip(*(column.tolist() for column in runs(unit_of)), strict=True):
            if unit >= 0:
                found += self._read_unit(unit, offsets, first, end, variables)
        return np.concatenate(found)

    def _read_unit(self, unit: int, offsets: U64, first: int, end: int, variables: bool) -> list[U64]:
        debug, columns = self.debug, self._units[unit]
        start, info = int(columns[col.OFFSET]), self._bytes_of(unit)
        scratch, result = np.empty(2 * col.SLOT_COUNT, np.uint64), np.zeros(2, np.uint64)
        tables, decls, ops, consts = self._tables
        found = []
        while first < end:
            read_children(
                info, start, len(debug.more), self._units.data, unit, tables.data, decls.data, ops.data, consts.data,
                operations().data, offsets.data, first, end, variables, self._rows.data, scratch.data, result.data,
            )  # fmt: skip
            reached, count = result.tolist()
            found.append(self._rows[:count].copy())
            if reached == first:
                self._rows = np.empty((2 * len(self._rows), col.L_COUNT), np.uint64)
            first = reached
        return found

    def _bytes_of(self, unit: int) -> memoryview:
        """Return the bytes of a unit; those of units that were read last are at hand."""
        start, stop, shift = (int(self._units[unit, at]) for at in (col.OFFSET, col.END, col.SHIFT))
        if shift:
            return self.debug.more[start - shift : stop - shift]
        info = self._kept.get(unit)
        if info is None:
            info = self.debug.info[start:stop]
            if len(info) > self._room_bytes:
                self._kept.clear()
                self._room_bytes = _KEPT_BYTES
            self._kept[unit] = info
            self._room_bytes -= len(info)
        return info
