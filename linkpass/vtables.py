"""The vtables of an image, as far as symbols show them: which words of data are slots.

    _ZTV1A + 0   offset to top       _ZTV: of a class   _ZTC: of a base while it is under construction
           + 8   its type_info       one symbol covers the vtables of all bases, each with these two words
           + 16  slot 0, slot 1 ...

A pointer to a function in one of these symbols is a slot, whatever its place; the two words before the first address
point hold none. A vtable without a symbol (the table was stripped) is data like any other, and then the functions
in it are address-taken: a mark too many.

A linker that folds read-only data folds vtables too, where their type_info is the same: in programs without RTTI,
and of local classes with one name. A relocation in such a table names the functions of one of the classes only.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from icf.elf.image import Image
from icf.elf.symbols import Symbols
from icf.elf.types import SHF_WRITE, SHT_RELA, STT_OBJECT

U64 = NDArray[np.uint64]
_PREFIXES = (b"_ZTV", b"_ZTC")
_PREFIX_BYTES = 4
_FIRST_SLOT = 16


class Vtables:
    """The vtable symbols of one image, by address."""

    def __init__(self, image: Image) -> None:
        symbols = image.symbols
        rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined & (symbols.size_bytes > 0))
        self._image = image
        self._objects = np.sort(symbols.value[rows])
        vtables = rows[are_vtable_names(symbols, rows)]
        vtables = vtables[np.argsort(symbols.value[vtables], kind="stable")]
        self._start = symbols.value[vtables]
        self._end = self._start + symbols.size_bytes[vtables]

    def __len__(self) -> int:
        return len(self._start)

    def at(self, places: U64) -> U64:
        """The vtable in which each word is a slot, 0 for none."""
        if not len(self._start):
            return np.zeros(len(places), np.uint64)
        row = np.searchsorted(self._start, places, side="right").astype(np.int64) - 1
        start, end = self._start[np.maximum(row, 0)], self._end[np.maximum(row, 0)]
        is_slot = (row >= 0) & (places >= start + np.uint64(_FIRST_SLOT)) & (places < end)
        return np.where(is_slot & ((places - start) % np.uint64(8) == 0), start, np.uint64(0))

    def is_one(self, vtable: int) -> bool:
        """Whether the vtable is that of one class: one symbol is there, and it has a type_info."""
        first, last = np.searchsorted(self._objects, np.array([vtable, vtable + 1], np.uint64))
        return int(last - first) == 1 and self._is_filled(vtable + 8)

    def _is_filled(self, place: int) -> bool:
        """Whether the word at an address is not 0 once the program runs."""
        if any(self._image.read(place, 8)):
            return True
        return place in self._relocated

    @cached_property
    def _relocated(self) -> frozenset[int]:
        """The words in the range of the vtables that the loader fills."""
        low, high = np.uint64(self._start[0]), np.uint64(self._end.max())
        places: set[int] = set()
        for section in self._image.sections:
            relocations = self._image.relocations(section) if section.is_alloc and section.type == SHT_RELA else None
            if relocations is not None:
                offset = relocations.offset
                places.update(offset[(offset >= low) & (offset < high)].tolist())
        return frozenset(places)


def are_vtable_names(symbols: Symbols, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each of these symbols is called like a vtable."""
    strtab = np.frombuffer(symbols.strtab, np.uint8)
    name = symbols.name_offset[rows].astype(np.int64)
    ends = name + _PREFIX_BYTES <= len(strtab)
    name = np.where(ends, name, 0)
    found = np.zeros(len(name), np.bool_)
    if len(strtab) >= _PREFIX_BYTES:
        for prefix in _PREFIXES:
            found |= np.logical_and.reduce([strtab[name + idx] == byte for idx, byte in enumerate(prefix)])
    return found & ends


def is_relro(name: str, flags: int) -> bool:
    """Whether a section is one that linkers fold like code: it does not change once the program runs."""
    return not flags & SHF_WRITE or name.startswith(".data.rel.ro")
