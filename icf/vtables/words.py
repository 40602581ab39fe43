"""Words of data with the values that the loader stores: numbers, addresses of code or data, symbols of other modules.

    origin of an address in a word         its value
    RELATIVE                               r_addend
    R_X86_64_64, R_AARCH64_ABS64, GLOB_DAT that of the symbol in .dynsym, and r_addend; without one it is an IMPORT
    RELR (packed RELATIVE)                 what the file has there
    nothing, in images loaded as linked    what the file has there, if it lies in a section

In an image that is loaded anywhere a word without a relocation is a NUMBER, whatever it looks like. Relocations that
are packed in other ways (REL, Android's) are not read: then there are numbers only.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import U8, U32, U64, Mask
from icf.elf.image import Image
from icf.elf.types import ET_EXEC, SHF_EXECINSTR, SHT_RELA, SHT_RELR, Machine
from icf.sets import is_in, is_one_of

NUMBER, CODE, DATA, IMPORT = 0, 1, 2, 3

_WORD_BYTES = 8
_RELR_BITS = 63
_LAST_VADDR = (1 << 64) - 1
_ABSOLUTE = {Machine.X86_64: (1, 6), Machine.AARCH64: (257, 1025)}  # 64-bit absolute, GLOB_DAT
_RELATIVE = {Machine.X86_64: (8, 38), Machine.AARCH64: (1027,)}


class Words(NamedTuple):
    """The words at some places."""

    place: U64
    value: U64  # of an IMPORT, the row of its symbol in .dynsym
    kind: U8
    symbol: U32  # the row in .dynsym that a relocation names, 0 for none


class LoadedData:
    """The data of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def words(self, places: U64) -> Words:
        """Return the words at `places` (ascending, distinct, multiples of 8); 0 where the file backs no word."""
        image, relocated = self._image, self._relocated
        value, symbol = _stored(image, places), np.zeros(len(places), np.uint32)
        is_import = np.zeros(len(places), np.bool_)
        is_address = np.ones(len(places), np.bool_) if image.elf_type == ET_EXEC else _in_relr(image, places)
        if len(relocated.place):
            at = np.minimum(np.searchsorted(relocated.place, places), len(relocated.place) - 1)
            rows = np.flatnonzero(relocated.place[at] == places)
            at = at[rows]
            value[rows], symbol[rows], is_import[rows] = relocated.value[at], relocated.symbol[at], relocated.kind[at]
            is_address[rows] = True
        kind = np.where(is_address, _kinds(image, value), np.uint8(NUMBER))
        kind[is_import] = IMPORT
        return Words(places, value, kind, symbol)

    @cached_property
    def _relocated(self) -> Words:
        """The words that have a relocation; `kind` is IMPORT or 0."""
        image = self._image
        symbols = image.dynamic_symbols
        parts = []
        for section in image.sections:
            relocations = image.relocations(section) if section.is_alloc and section.type == SHT_RELA else None
            if relocations is None or not relocations.count:
                continue
            is_named = is_one_of(relocations.type, _ABSOLUTE[image.machine]) & (relocations.symbols is symbols)
            rows = np.flatnonzero(is_named | is_one_of(relocations.type, _RELATIVE[image.machine]))
            symbol = np.where(is_named[rows], relocations.symbol[rows], np.uint32(0))
            value = relocations.addend[rows].astype(np.uint64)
            named = np.flatnonzero(symbol)
            is_import = np.zeros(len(rows), np.bool_)
            is_import[named] = ~symbols.is_defined[symbol[named]]
            value[named] += symbols.value[symbol[named]]
            value[is_import] = symbol[is_import]
            parts.append(
                Words(relocations.offset[rows], value, np.where(is_import, IMPORT, 0).astype(np.uint8), symbol)
            )
        if not parts:
            none = np.empty(0, np.uint64)
            return Words(none, none, np.empty(0, np.uint8), np.empty(0, np.uint32))
        found = Words(*map(np.concatenate, zip(*parts, strict=True)))
        order = np.argsort(found.place, kind="stable")
        return Words(*(column[order] for column in found))  # type: ignore[arg-type]  # each as it was


def _stored(image: Image, places: U64) -> U64:
    """Return the stored word at each place."""
    value = np.zeros(len(places), np.uint64)
    for start, end, offset in image.backed:
        lead = -start % _WORD_BYTES
        count = (end - start - lead) // _WORD_BYTES
        if count <= 0:
            continue
        if start + lead > _LAST_VADDR:
            continue
        first, last = np.searchsorted(places, np.array([start, min(end, _LAST_VADDR)], np.uint64)).tolist()
        at = ((places[first:last] - np.uint64(start + lead)) // np.uint64(_WORD_BYTES)).astype(np.int64)
        inside = at < count
        at = at[inside]
        if len(at):
            low, end_at = int(at.min()), int(at.max()) + 1
            begin = offset + lead
            words = np.frombuffer(image.data[begin + low * _WORD_BYTES : begin + end_at * _WORD_BYTES], "<u8")
            value[first:last][inside] = words[at - low]
    return value


def _kinds(image: Image, value: U64) -> U8:
    """Return what lies at each address."""
    kind = np.full(len(value), NUMBER, np.uint8)
    for section in image.sections:
        if section.is_alloc and section.vaddr:
            inside = (value >= np.uint64(section.vaddr)) & (
                value - np.uint64(section.vaddr) < np.uint64(section.size_bytes)
            )
            kind[inside] = CODE if section.flags & SHF_EXECINSTR else DATA
    return kind


def _in_relr(image: Image, places: U64) -> Mask:
    """Return which places the packed relocations of the gABI cover.

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
        found |= is_in(places, entries[is_place])
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
