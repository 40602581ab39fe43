"""Words that may be slots of a vtable that has no symbol.

A linker can drop local symbols, those of vtables of local classes among them. Then a word with the address
of a function lies in no object that the symbol table has. Words of the GOT, of the arrays of functions that the loader
calls and of objects with another name are not slots.
"""

from __future__ import annotations

import numpy as np

from icf.code.pointers import CALLED_BY_LOADER
from icf.columns import U64, Mask
from icf.elf.image import Image
from icf.elf.types import STT_OBJECT
from icf.vtables.layout import Vtables

_NOT_SLOTS = (".got", ".got.plt", ".eh_frame")


def may_be_unlisted_slots(image: Image, vtables: Vtables, places: U64) -> Mask:
    """Return which of the places that hold addresses of functions may be slots of a vtable that is not listed."""
    symbols = image.symbols
    rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined & (symbols.size_bytes > 0))
    starts, ends = symbols.value[rows], symbols.value[rows] + symbols.size_bytes[rows]
    for section in image.sections:
        if section.name in _NOT_SLOTS or section.type in CALLED_BY_LOADER:
            starts = np.append(starts, np.uint64(section.vaddr))
            ends = np.append(ends, np.uint64(section.vaddr + section.size_bytes))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    at = np.searchsorted(starts, places, side="right").astype(np.int64) - 1
    inside = (at >= 0) & (places < np.append(ends, np.uint64(0))[at])
    return np.asarray((places != 0) & ~inside | vtables.are_unplaced(places))
