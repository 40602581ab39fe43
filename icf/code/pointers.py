"""Words of data that hold the address of a function, and other ways in which an address leaves the image.

    dynamic relocations   without a symbol: RELATIVE, IRELATIVE. One with a symbol names an export anyway
    words                 of images that are not position-independent, or whose relocations are packed (RELR): any
                          four bytes that hold the address; in all images: any that hold the distance to it
    entry points          e_entry, DT_INIT, DT_FINI
    personality routines  in the CIEs of .eh_frame

Left out: unwind tables, which name functions to describe them, and hash and symbol tables. A function that
.dynsym exports has no row here: the symbol names the member (`linkpass.pointers.address_taken`).
"""

from __future__ import annotations

import re

import numpy as np

from icf.code.addresses import Mentions, find_words, hits
from icf.columns import U64
from icf.elf.image import Image
from icf.elf.types import (
    DT_FINI,
    DT_INIT,
    ET_EXEC,
    SHF_EXECINSTR,
    SHT_FINI_ARRAY,
    SHT_INIT_ARRAY,
    SHT_PREINIT_ARRAY,
    SHT_PROGBITS,
    SHT_REL,
    SHT_RELA,
    SHT_RELR,
)

CALLED_BY_LOADER = (SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY)
_DATA_TYPES = (SHT_PROGBITS, *CALLED_BY_LOADER)
_PACKED_TYPES = (SHT_REL, 0x60000001, 0x60000002)  # REL, Android's packed REL and RELA: no linker's default
_UNWIND = (".eh_frame", ".eh_frame_hdr", ".gcc_except_table")
_CIE_WITH_PERSONALITY = re.compile(rb"\0\0\0\0[\x01\x03]z[A-Z]*P")
_CIE_BYTES = 48  # from the id of a CIE to beyond its personality


def is_readable(image: Image) -> bool:
    """Return whether all pointers in data can be found: False if relocations are packed in an unsupported format."""
    return not any(section.is_alloc and section.type in _PACKED_TYPES for section in image.sections)


def find_pointers(image: Image, targets: U64) -> Mentions:
    """Return words of data that hold one of `targets`, which ascend; entry points of the image have the place 0."""
    entries = [value for tag, value in image.dynamic if tag in (DT_INIT, DT_FINI)]
    values = np.array([image.entry, *entries], np.uint64)
    values = values[hits(values, targets)]
    rows = [(np.zeros(len(values), np.uint64), values), *_relocated(image, targets)]
    fixed = image.elf_type == ET_EXEC or any(section.type == SHT_RELR for section in image.sections)
    for section in image.sections:
        if not section.is_alloc or section.flags & SHF_EXECINSTR or section.type not in _DATA_TYPES:
            continue
        contents = image.contents(section)
        if section.name == ".eh_frame":
            for cie in _CIE_WITH_PERSONALITY.finditer(contents):
                place, window = section.vaddr + cie.start(), contents[cie.start() : cie.start() + _CIE_BYTES]
                rows += [find_words(window, place, targets, 1), _distances(window, place, targets, 1)]
        elif section.name not in _UNWIND:
            rows.append(_distances(contents, section.vaddr, targets, 4))
            if fixed:
                rows.append(find_words(contents, section.vaddr, targets, 1))
    return Mentions.of(rows)


def _relocated(image: Image, targets: U64) -> list[tuple[U64, U64]]:
    rows = []
    for section in image.sections:
        relocations = image.relocations(section) if section.is_alloc and section.type == SHT_RELA else None
        if relocations is not None and relocations.count:
            value = relocations.addend.astype(np.uint64)
            hit = hits(value, targets) & (relocations.symbol == 0)
            rows.append((relocations.offset[hit], value[hit]))
    return rows


def _distances(contents: memoryview, vaddr: int, targets: U64, step: int) -> tuple[U64, U64]:
    """Return the places, all or those at multiples of four, where four bytes hold the distance to a target."""
    places, values = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for lead in range(4) if step == 1 else [-vaddr % 4]:
        count = (len(contents) - lead) // 4
        if count <= 0:
            continue
        words = np.frombuffer(contents[lead : lead + 4 * count], "<i4").astype(np.int64)
        place = np.arange(count, dtype=np.uint64) * np.uint64(4) + np.uint64(vaddr + lead)
        value = place + words.view(np.uint64)
        hit = hits(value, targets)
        places.append(place[hit])
        values.append(value[hit])
    return np.concatenate(places), np.concatenate(values)
