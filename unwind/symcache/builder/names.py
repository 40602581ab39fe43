"""The strings of a symcache: names of functions, each once, the most used first.

Numbers in records are LEB128, so the few names that are everywhere (`std::move`, `operator new`) should have the small
ones. A name gets a provisional number on first use; `finish` maps it to the final one.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U32, U64
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image


class Names:
    """Provisional numbers of names; 0 stands for none."""

    def __init__(self, image: Image, debug: DebugInfo | None) -> None:
        self._symbols = image.symbols
        self._debug = debug
        self._numbers: dict[bytes, int] = {b"": 0}

    @property
    def count(self) -> int:
        return len(self._numbers)

    def number(self, name: bytes) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def of_text(self, name: str) -> int:
        return self.number(name.encode("utf-8", "surrogateescape"))

    def of_symbols(self, rows: I64) -> U32:
        """Return the names of the symbols in these rows, without versions (`fopen@@GLIBC_2.2.5`)."""
        strtab = bytes(self._symbols.strtab)
        number = self.number
        offsets = self._symbols.name_offset[rows].tolist()
        last = max(offsets, default=0)
        if last > strtab.rfind(0):
            self._symbols.name_at(last)  # a FormatError: the name has no end
        names = [strtab[at : strtab.index(0, at)] if at else b"" for at in offsets]
        if b"@" in strtab:
            names = [name.partition(b"@")[0] for name in names]
        return np.array(list(map(number, names)), np.uint32)

    def of_references(self, references: U64) -> U32:
        """Return names of strings in the debug information, given by references as kernels make them."""
        distinct, back = np.unique(references, return_inverse=True)
        assert self._debug is not None
        numbers = [self.number(self._debug.string(reference)) for reference in distinct.tolist()]
        return np.array(numbers, np.uint32)[back.reshape(-1)]

    def finish(self, uses: I64) -> tuple[U32, list[bytes]]:
        """Return the final number of each provisional one, and the names by it; `uses` has how often each is used."""
        names = list(self._numbers)
        order = np.concatenate([np.zeros(1, np.int64), 1 + np.argsort(-uses[1:], kind="stable")])
        final = np.empty(len(names), np.uint32)
        final[order] = np.arange(len(names), dtype=np.uint32)
        return final, [names[i] for i in order.tolist()]
