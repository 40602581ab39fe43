"""All function bodies of an image, as columns: start, end, and the DIE that describes each.

They come from the symbol table and from DWARF together: gold drops folded local symbols, and an object without
debug information has symbols only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from icf.code.branches import executable_sections
from icf.columns import I64, U64, Mask
from icf.dwarf.scan import Functions
from icf.elf.image import Image
from icf.elf.types import STT_GNU_IFUNC
from icf.sets import is_in


class Bodies(NamedTuple):
    """Bodies by ascending start. Columns of symbols and of DWARF ranges are restricted to executable code."""

    start: U64
    end: U64
    symbol_rows: I64  # function symbols by (value, row)
    symbol_value: U64
    dwarf_rows: I64  # rows of `Functions` by (low, row)
    dwarf_low: U64

    def at(self, vaddrs: U64) -> I64:
        """Return the body that holds each address, -1 if none."""
        row = np.searchsorted(self.start, vaddrs, side="right").astype(np.int64) - 1
        ok = row >= 0
        if len(self.start):
            ok &= vaddrs < self.end[np.maximum(row, 0)]
        return np.where(ok, row, -1)

    def starts_at(self, vaddrs: U64) -> U64:
        """Return the start of the body that holds each address, 0 where none does."""
        rows = self.at(vaddrs)
        starts = self.start[np.maximum(rows, 0)] if len(self.start) else np.zeros(len(rows), np.uint64)
        return np.where(rows >= 0, starts, np.uint64(0))

    def symbols_at(self, vaddr: int) -> I64:
        """Return rows of the function symbols whose value is `vaddr`."""
        return self.symbol_rows[
            bisect_left(self.symbol_value.data, vaddr) : bisect_right(self.symbol_value.data, vaddr)
        ]

    def dwarf_at(self, vaddr: int) -> I64:
        """Return rows of the DWARF functions with a range that starts at `vaddr`."""
        return self.dwarf_rows[bisect_left(self.dwarf_low.data, vaddr) : bisect_right(self.dwarf_low.data, vaddr)]

    def end_of(self, vaddr: int) -> int:
        """Return the end of the body that starts there."""
        return int(self.end[bisect_left(self.start.data, vaddr)])


def find_bodies(image: Image, functions: Functions | None) -> Bodies:
    """Unite the function symbols and the functions of DWARF."""
    symbols = image.symbols
    rows = symbols.functions
    value = symbols.value[rows]
    inside = _in_code(image, value)
    # an ifunc has the address of the function that chooses what is called, which mostly has a symbol, too
    is_chosen = symbols.type[rows] == STT_GNU_IFUNC
    inside &= ~is_chosen | ~is_in(value, value[~is_chosen])
    rows, value = rows[inside], value[inside]
    starts, ends = [value], [value + symbols.size_bytes[rows]]
    if functions is None:
        dwarf_rows, dwarf_low = np.empty(0, np.int64), np.empty(0, np.uint64)
    else:
        dwarf_rows = np.flatnonzero(_in_code(image, functions.low) & (functions.high > functions.low))
        dwarf_low = functions.low[dwarf_rows]
        order = np.argsort(dwarf_low, kind="stable")
        dwarf_rows, dwarf_low = dwarf_rows[order], dwarf_low[order]
        starts.append(dwarf_low)
        ends.append(functions.high[dwarf_rows])
    start, inverse = np.unique(np.concatenate(starts), return_inverse=True)
    end = start.copy()
    np.maximum.at(end, inverse.reshape(-1), np.concatenate(ends))
    return Bodies(start, end, rows, value, dwarf_rows, dwarf_low)


def _in_code(image: Image, vaddrs: U64) -> Mask:
    inside = np.zeros(len(vaddrs), np.bool_)
    for section in executable_sections(image):
        inside |= (vaddrs >= section.vaddr) & (vaddrs < section.vaddr + section.size_bytes)
    return inside
