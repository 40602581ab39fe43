"""Versions of dynamic symbols, from the tables that the loader binds with (LSB core, "Symbol Versioning").

    .gnu.version      a number for each row of .dynsym: 0 local, 1 without a version; 0x8000: not the default one
    .gnu.version_d    number -> version that this module defines
    .gnu.version_r    number -> version that it needs of another

The loader binds a reference to `g@V1` to a definition of that version, or to one that has none, and a reference without
a version to any definition of that name. The table's first definition is the module's own name (VER_FLG_BASE) and not a
version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from icf.columns import U16
from icf.elf.types import SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM, Section
from icf.reader import Reader

if TYPE_CHECKING:
    from icf.elf.file import ElfFile

_VER_FLG_BASE = 1
_HIDDEN = 0x8000
_VERNEED_SIZE_BYTES = _VERNAUX_SIZE_BYTES = 16
_VERDEF_SIZE_BYTES = 20


class Versions:
    """The version of each row of a dynamic symbol table."""

    def __init__(self, number: U16, names: dict[int, str]) -> None:
        self._number = number
        self._names = names

    def name(self, row: int) -> str:
        """Return the version of the symbol; "" for none."""
        if row >= len(self._number):
            return ""
        return self._names.get(int(self._number[row]) & ~_HIDDEN, "")

    def is_hidden(self, row: int) -> bool:
        """Return whether only references to its very version mean the symbol."""
        return row < len(self._number) and int(self._number[row]) >= _HIDDEN


def read_versions(image: ElfFile) -> Versions:
    """Return the versions in the image; none where it has no such tables."""
    number = np.empty(0, np.uint16)
    names: dict[int, str] = {}
    for section in image.sections:
        if section.type == SHT_GNU_VERSYM:
            stored = image.contents(section)
            number = np.frombuffer(stored[: len(stored) // 2 * 2], "<u2")
        elif section.type == SHT_GNU_VERNEED:
            _read_needed(image, section, names)
        elif section.type == SHT_GNU_VERDEF:
            _read_defined(image, section, names)
    return Versions(number, names)


def _read_needed(image: ElfFile, section: Section, names: dict[int, str]) -> None:
    reader = Reader(image.contents(section), image.path, section.name)
    left = len(image.contents(section)) // _VERNAUX_SIZE_BYTES  # entries there is room for: none is read twice
    start = 0
    for _ in range(section.info):
        reader.pos = start
        reader.u16()  # version of the layout
        count = reader.u16()
        reader.u32()  # name of the file
        aux, following = start + reader.u32(), reader.u32()
        for _ in range(count):
            if not left:
                raise reader.error("more versions than there is room for", start)
            left -= 1
            reader.pos = aux
            reader.take(6)  # hash, flags
            number, name, step = reader.u16(), reader.u32(), reader.u32()
            names[number & ~_HIDDEN] = _string(image, section, name)
            if not step:
                break
            aux += step
        if not following:
            break
        start += following


def _read_defined(image: ElfFile, section: Section, names: dict[int, str]) -> None:
    reader = Reader(image.contents(section), image.path, section.name)
    start = 0
    for _ in range(min(section.info, len(image.contents(section)) // _VERDEF_SIZE_BYTES)):
        reader.pos = start
        reader.u16()  # version of the layout
        flags, number = reader.u16(), reader.u16()
        reader.take(6)  # count of names, of which the first counts; hash
        aux, following = start + reader.u32(), reader.u32()
        if not flags & _VER_FLG_BASE:
            reader.pos = aux
            names[number & ~_HIDDEN] = _string(image, section, reader.u32())
        if not following:
            break
        start += following


def _string(image: ElfFile, section: Section, offset: int) -> str:
    """Return a string of the table that dynamic symbols are named from."""
    if section.link >= len(image.sections):
        return ""
    strings = Reader(image.contents(image.sections[section.link]), image.path, section.name, offset)
    return strings.cstring().decode("utf-8", "surrogateescape")
