"""What debug information says of virtual methods: their classes and slots. Each DIE is read once."""

from __future__ import annotations

import numpy as np

from icf.columns import U64
from icf.dwarf.dies import read_dies
from icf.dwarf.units import DebugInfo
from icf.sets import difference


class VirtualDies:
    """The containing types and slots of DIEs, of which only those that have either are kept."""

    def __init__(self, debug: DebugInfo) -> None:
        self._debug = debug
        self._asked = np.empty(0, np.uint64)
        self._rows: U64 = np.zeros((1, 3), np.uint64)  # DIE, type, slot; by DIE; the first stands for all others

    def containing_types(self, dies: U64) -> U64:
        """Return the DIE of the class of each method, 0 for none."""
        return self._column(dies, 1)

    def slots_after(self, dies: U64) -> U64:
        """Return the slot of each method + 1, 0 for none."""
        return self._column(dies, 2)

    def _column(self, dies: U64, column: int) -> U64:
        fresh = difference(dies, self._asked)
        if len(fresh):
            read = read_dies(self._debug, fresh)
            rows = np.stack([fresh, read.containing_type, read.vtable_slot], axis=1)
            rows = np.concatenate([self._rows, rows[(rows[:, 1:] != 0).any(axis=1)]])
            self._rows = rows[np.argsort(rows[:, 0])]
            self._asked = np.sort(np.concatenate([self._asked, fresh]))
        at = np.searchsorted(self._rows[:, 0], dies, side="right") - 1
        return np.where(self._rows[at, 0] == dies, self._rows[at, column], np.uint64(0))
