"""Which functions have code at an address: the DIEs of functions, found without a scan of every unit.

    address ──> units that claim it (`.debug_aranges`, or the ranges of the units' own DIEs) ──> functions of a unit

gold leaves the DIEs of folded functions at the body that was kept, so an address can have several functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U64
from icf.dwarf import columns as col
from icf.dwarf.aranges import read_ranges
from icf.dwarf.constants import DW_AT_low_pc, DW_AT_ranges
from icf.dwarf.range_lists import expand_lists
from icf.dwarf.scan import Functions, scan_unit
from icf.dwarf.trees import Trees
from icf.elf.image import Image
from icf.errors import FormatError

_LAST_VADDR = (1 << 64) - 1


class FunctionAt(NamedTuple):
    """A function; `low` is where the part of it begins that has the address."""

    die: int
    low: int


class FunctionIndex:
    """Finds the functions of one image."""

    def __init__(self, image: Image, trees: Trees) -> None:
        self._trees, self._debug = trees, trees.debug
        listed = read_ranges(image.debug)
        rows = self._debug.unit_of(listed.unit) if self._debug.unit_count else np.empty(0, np.int64)
        known = rows >= 0
        self._listed = _Claims(self._with_code(rows[known]), listed.low[known], listed.high[known])
        self._own: _Claims | None = None
        self._functions: dict[int, Functions] = {}

    def at(self, vaddr: int) -> list[FunctionAt]:
        """Return the functions at an address, in the order of their DIEs."""
        found = self._in_units(self._listed.at(vaddr), vaddr)
        if not found:
            if self._own is None:
                self._own = self._claims_of_units()
            found = self._in_units(self._own.at(vaddr), vaddr)
        return found

    def _in_units(self, units: list[int], vaddr: int) -> list[FunctionAt]:
        found = set()
        for unit in units:
            functions = self._functions.get(unit)
            if functions is None:
                functions = self._functions[unit] = scan_unit(self._debug, unit)
            rows = np.flatnonzero((functions.low <= np.uint64(vaddr)) & (functions.high > np.uint64(vaddr)))
            found |= {FunctionAt(int(functions.die[row]), int(functions.low[row])) for row in rows.tolist()}
        return sorted(found)

    def _claims_of_units(self) -> _Claims:
        """Return what the units' own DIEs claim; a unit without ranges claims nothing."""
        debug, trees = self._debug, self._trees
        plain: list[tuple[int, int, int]] = []
        lists: list[tuple[int, int, int]] = []  # unit, value, form
        for unit in np.flatnonzero(debug.units[:, col.ERROR] == 0).tolist():
            try:
                die = trees.unit_die(unit)
            except FormatError:
                continue
            low, ranges = trees.address(die, DW_AT_low_pc), die.attributes.get(DW_AT_ranges)
            if ranges is not None and ranges.number >= 0:
                form = col.RANGES_INDEX if ranges.kind == col.CLS_LIST_INDEX else col.RANGES_AT
                lists.append((unit, ranges.number, form))
            elif low is not None and (end := trees.end(die, low)) is not None and low < end <= _LAST_VADDR:
                plain.append((unit, low, end))
        asked: U64 = np.array(lists, np.uint64).reshape(-1, 3)
        listed = expand_lists(debug, asked[:, 0].astype(np.int64), asked[:, 1], asked[:, 2], asked[:, 0])
        units, low_ends, high_ends = np.array(plain, np.uint64).reshape(-1, 3).T
        units = np.concatenate([units, listed[:, 0]]).astype(np.int64)
        low_ends, high_ends = np.concatenate([low_ends, listed[:, 1]]), np.concatenate([high_ends, listed[:, 2]])
        return _Claims(self._with_code(units), low_ends, high_ends)

    def _with_code(self, units: np.ndarray) -> np.ndarray:
        """Return the units, the split unit in the place of each skeleton."""
        columns = self._debug.units
        is_skeleton = columns[:, col.UNIT_TYPE] == col.UT_SKELETON
        split_of = {int(columns[row, col.DWO_ID]): row for row in np.flatnonzero(~is_skeleton).tolist()}
        return np.array(
            [
                split_of.get(int(columns[unit, col.DWO_ID]), unit) if is_skeleton[unit] else unit
                for unit in units.tolist()
            ],
            np.int64,
        )


class _Claims:
    """Ranges of code, each with the unit that claims it."""

    def __init__(self, units: np.ndarray, low: U64, high: U64) -> None:
        order = np.argsort(low, kind="stable")
        self._units, self._low, self._high = units[order], low[order], high[order]
        self._reach: U64 = np.maximum.accumulate(self._high) if len(order) else self._high

    def at(self, vaddr: int) -> list[int]:
        """Return the units that claim an address."""
        end = int(np.searchsorted(self._low, np.uint64(vaddr), side="right"))
        begin = int(np.searchsorted(self._reach[:end], np.uint64(vaddr), side="right"))
        claims = slice(begin, end)
        units: list[int] = self._units[claims][self._high[claims] > np.uint64(vaddr)].tolist()
        return sorted(set(units))
