"""The contents of an address of a PE image outside of functions, as `unwind.disasm.data` has those of ELF images.

The PDB and the COFF symbols name data where it begins, and have no sizes. Words hold addresses where a base
relocation says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from icf.columns import U64
from icf.elf.symbols import Symbols
from icf.elf.types import STT_OBJECT
from icf.pdb import columns as col
from icf.pe.headers import WRITE, PeSection
from icf.pe.image import PeImage
from icf.pe.relocations import pointer_places
from unwind.disasm.data import text_of
from unwind.disasm.notes import Data

_WORD_BYTES = 8
_LONGEST_TEXT_BYTES = 4096


class PeData:
    """The data of one image."""

    def __init__(self, image: PeImage) -> None:
        self._image = image
        self._starts = [each.vaddr for each in image.sections]

    def is_code(self, vaddr: int) -> bool:
        """Return whether code may lie there."""
        return self._image.is_code(vaddr)

    def is_constant(self, vaddr: int) -> bool:
        """Return whether the bytes there stay as the loader has left them."""
        section = self._section_at(vaddr)
        return section is not None and not section.characteristics & WRITE

    def at(self, vaddr: int, *, with_text: bool = False) -> Data | None:
        """Return the contents there; with `with_text` also the string. None: no section has the address."""
        section = self._section_at(vaddr)
        if section is None:
            return None
        names, text = self._names.get(vaddr, ()), self._text(vaddr, section) if with_text else None
        return Data(vaddr, names, 0 if names else vaddr - section.vaddr, section.name, text)

    def pointers(self, places: Iterable[int]) -> dict[int, int]:
        """Return the addresses that the words at some of `places` hold in a loaded image; imports are left out."""
        wanted = np.array(sorted({each for each in places if 0 <= each < 1 << 64}), np.uint64)
        found = {}
        for place in np.intersect1d(wanted, self._pointer_places).tolist():
            word = self._image.read(place, _WORD_BYTES)
            if len(word) == _WORD_BYTES and place not in self._image.got_imports:
                found[place] = int.from_bytes(word, "little")
        return found

    def _section_at(self, vaddr: int) -> PeSection | None:
        row = bisect_right(self._starts, vaddr) - 1
        section = self._image.sections[row] if row >= 0 else None
        return section if section is not None and vaddr < section.vaddr + section.size_bytes else None

    def _text(self, vaddr: int, section: PeSection) -> str | None:
        if section.is_code or section.characteristics & WRITE:
            return None
        return text_of(bytes(self._image.read(vaddr, _LONGEST_TEXT_BYTES)))

    @cached_property
    def _pointer_places(self) -> U64:
        return pointer_places(self._image)

    @cached_property
    def _names(self) -> dict[int, tuple[str, ...]]:
        """The symbols of data, of a PDB the public ones, by address."""
        pdb, found = self._image.pdb, dict[int, tuple[str, ...]]()
        if self._image.dwarf is not None:
            return _data_symbols(self._image.dwarf.symbols)
        if pdb is None:
            return found
        rvas = pdb.rvas(pdb.publics[:, col.U_SEGMENT], pdb.publics[:, col.U_ADDRESS]).tolist()
        for rva, name in zip(rvas, pdb.public_names(slice(None)), strict=True):
            vaddr = self._image.base + rva
            if not self._image.is_code(vaddr):
                found[vaddr] = (*found.get(vaddr, ()), name)
        return found


def _data_symbols(symbols: Symbols) -> dict[int, tuple[str, ...]]:
    """Return the symbols of data, by address."""
    found = dict[int, tuple[str, ...]]()
    rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined)
    for vaddr, name in zip(symbols.value[rows].tolist(), symbols.names(rows), strict=True):
        found[vaddr] = (*found.get(vaddr, ()), name)
    return found
