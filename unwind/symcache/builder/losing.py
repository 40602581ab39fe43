"""Definitions that lost to another one: their symbol is that of the other, and nothing calls their code by its name.

    a.cpp   [[gnu::weak]] void pick() {...}     0x1c82, no symbol     the linker folds `mine`, which has one, into it
    b.cpp   void pick() {...}                   0x1cb6  _Z4pickv

So what describes such code does not describe the function that runs there.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from icf.columns import I64, U64, Mask
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

    @cached_property
    def _names(self) -> U64:
        symbols = self._image.symbols
        return distinct(symbols.hashes(symbols.functions))
