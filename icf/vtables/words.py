"""Words of data as the loader leaves them: numbers, addresses of code or data, symbols of other modules.

    how an address gets into a word        its value
    RELATIVE                               r_addend
    R_X86_64_64, R_AARCH64_ABS64, GLOB_DAT that of the symbol in .dynsym, and r_addend; without one it is an IMPORT
    RELR (packed RELATIVE)                 what the file has there
    nothing, in images loaded as linked    what the file has there, if it lies in a section

In an image that is loaded anywhere a word without a relocation is a NUMBER, whatever it looks like. Relocations that
are packed in other ways (REL, Android's) are not read: then there are numbers only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.elf.image import Image
from icf.elf.types import ET_EXEC, SHF_EXECINSTR, SHT_RELA, Machine

U64 = NDArray[np.uint64]
NUMBER, CODE, DATA, IMPORT = 0, 1, 2, 3

SHT_RELR = 19
_WORD_BYTES = 8
_RELR_BITS = 63
_ABSOLUTE = {Machine.X86_64: (1, 6), Machine.AARCH64: (257, 1025)}  # 64-bit absolute, GLOB_DAT
_RELATIVE = {Machine.X86_64: (8, 38), Machine.AARCH64: (1027,)}


class Words(NamedTuple):
    """The words at some places."""

    place: U64
    value: U64  # of an IMPORT, the row of its symbol in .dynsym
    kind: NDArray[np.uint8]
    symbol: NDArray[np.uint32]  # the row in .dynsym that a relocation names, 0 for none


def load_words(image: Image, places: U64) -> Words:
    """The words at `places`: ascending, none twice, multiples of 8. What the file does not back is the number 0."""
    value, symbol = _stored(image, places), np.zeros(len(places), np.uint32)
    is_import = np.zeros(len(places), np.bool_)
    is_address = _in_relr(image, places)
    if image.elf_type == ET_EXEC:
        is_address[:] = True
    symbols = image.dynamic_symbols
    for section in image.sections if len(places) else ():
        relocations = image.relocations(section) if section.is_alloc and section.type == SHT_RELA else None
        if relocations is None or not relocations.count:
            continue
        at = np.searchsorted(places, relocations.offset)
        rows = np.flatnonzero(places[np.minimum(at, len(places) - 1)] == relocations.offset)
        types, addend = relocations.type[rows], relocations.addend[rows].astype(np.uint64)
        is_relative = np.isin(types, _RELATIVE[image.machine])
        is_named = np.isin(types, _ABSOLUTE[image.machine]) & (relocations.symbols is symbols)
        row = np.where(is_named, relocations.symbol[rows], 0)
        is_defined = symbols.is_defined[row] if symbols.count else row != 0
        base = symbols.value[row] if symbols.count else np.zeros(len(row), np.uint64)
        known = is_relative | is_named
        at = at[rows[known]]
        value[at] = np.where(is_defined | (row == 0), base + addend, row.astype(np.uint64))[known]
        symbol[at] = row[known]
        is_import[at] = ((row != 0) & ~is_defined)[known]
        is_address[at] = True
    kind = np.where(is_address, _kinds(image, value), np.uint8(NUMBER))
    kind[is_import] = IMPORT
    return Words(places, value, kind, symbol)


def _stored(image: Image, places: U64) -> U64:
    """What the file has at each place."""
    value = np.zeros(len(places), np.uint64)
    for start, end, offset in image.backed:
        lead = -start % _WORD_BYTES
        count = (end - start - lead) // _WORD_BYTES
        if count <= 0:
            continue
        words = np.frombuffer(image.data, "<u8", count, offset + lead)
        first, last = np.searchsorted(places, np.array([start, end], np.uint64)).tolist()
        at = ((places[first:last] - np.uint64(start + lead)) // np.uint64(_WORD_BYTES)).astype(np.int64)
        inside = at < count
        value[first:last][inside] = words[at[inside]]
    return value


def _kinds(image: Image, value: U64) -> NDArray[np.uint8]:
    """What lies at each address."""
    kind = np.full(len(value), NUMBER, np.uint8)
    for section in image.sections:
        if section.is_alloc and section.vaddr:
            inside = (value >= np.uint64(section.vaddr)) & (
                value - np.uint64(section.vaddr) < np.uint64(section.size_bytes)
            )
            kind[inside] = CODE if section.flags & SHF_EXECINSTR else DATA
    return kind


def _in_relr(image: Image, places: U64) -> NDArray[np.bool_]:
    """Which places the packed relocations of the gABI cover.

    An even word is a place; an odd one has a bit for each of the 63 words that follow what came before.
    """
    found = np.zeros(len(places), np.bool_)
    for section in image.sections:
        contents = image.contents(section) if section.is_alloc and section.type == SHT_RELR else b""
        entries = np.frombuffer(contents, "<u8", len(contents) // _WORD_BYTES)
        if not len(entries) or not len(places):
            continue
        rows = np.arange(len(entries))
        is_place = entries & np.uint64(1) == 0
        last = np.maximum.accumulate(np.where(is_place, rows, -1))
        found |= np.isin(places, entries[is_place])
        maps = np.flatnonzero(~is_place & (last >= 0))
        behind = (maps - last[maps] - 1) * (_RELR_BITS * _WORD_BYTES) + _WORD_BYTES
        start = entries[last[maps]] + behind.astype(np.uint64)
        order = np.argsort(start)
        start, bits = start[order], entries[maps][order] >> np.uint64(1)
        if not len(start):
            continue
        at = np.maximum(np.searchsorted(start, places, side="right") - 1, 0)
        distance = (places - start[at]) // np.uint64(_WORD_BYTES)
        inside = (places >= start[at]) & (distance < _RELR_BITS)
        shift = np.minimum(distance, np.uint64(_RELR_BITS))
        found |= inside & ((bits[at] >> shift) & np.uint64(1) == 1)
    return found
