"""Definitions that lost to another one: their symbol is that of the other, and nothing calls their code by its name.

    a.cpp   [[gnu::weak]] void pick() {...}     0x1c82, no symbol     the linker folds `mine`, which has one, into it
    b.cpp   void pick() {...}                   0x1cb6  _Z4pickv

So what describes such code does not describe the function that runs there.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from icf.columns import I64, U64, Mask
from icf.dwarf.columns import FLAGS, HAS_STMT_LIST, STMT_LIST
from icf.dwarf.dies import resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.sets import distinct, is_in


class Losing:
    """Tells which functions of the debug information are described at code that has no symbol of theirs."""

    def __init__(self, image: Image, debug: DebugInfo, scan: InlineScan) -> None:
        self._image, self._debug, self._die = image, debug, scan.functions.die

    def of(self, functions: I64) -> Mask:
        """Return which functions, at whose code there is no symbol of their name, have one elsewhere."""
        if not self._image.linker.folds_functions or not len(functions):
            return np.zeros(len(functions), np.bool_)
        rows, back = np.unique(functions, return_inverse=True)
        identity = resolve(self._debug, self._die[rows])
        losing = identity.external.copy()
        if losing.any():
            name = np.where(identity.linkage_name != 0, identity.linkage_name, identity.name)[losing]
            losing[losing] = is_in(self._debug.string_hashes(name), self._names)
        return losing[back.reshape(-1)]

    def tables(self, names: U64, lost_names: U64, lost: I64) -> dict[int, frozenset[int]]:
        """Return, by row of `names`, the line tables of definitions of that name without an address, by their offsets.

        lld and mold fold such a definition into the one of the symbol, and leave its lines there.

        Args:
            names: hashes of the names of symbols whose code is not described.
            lost_names: those of functions without an address.
            lost: these functions.
        """
        rows = np.flatnonzero(is_in(lost_names, names))
        units = self._debug.units[self._debug.unit_of(self._die[lost[rows]])]
        has_table = (units[:, FLAGS] & np.uint64(HAS_STMT_LIST)) != 0
        offsets: dict[int, set[int]] = {}
        for name, offset in zip(
            lost_names[rows[has_table]].tolist(), units[has_table, STMT_LIST].tolist(), strict=True
        ):
            offsets.setdefault(name, set()).add(offset)
        of_row = enumerate(names.tolist())
        return {row: frozenset(offsets[name]) for row, name in of_row if name in offsets}

    @cached_property
    def _names(self) -> U64:
        symbols = self._image.symbols
        return distinct(symbols.hashes(symbols.functions))
