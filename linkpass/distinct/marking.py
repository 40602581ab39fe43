"""Marks sections of an object so that a linker folds them with no section that has another mark.

    .rela.text._Z1fv     one more relocation, before those that it has:
                         offset 0, R_X86_64_NONE or R_AARCH64_NONE, no symbol, addend = the mark

A linker folds two sections only if their relocations are equal, addends included. One of type NONE changes no byte of
the program, keeps no section alive, and needs no option of the linker. A section without relocations gets a section
for them, which joins the COMDAT group of the section, if there is one.

Sections of several objects that are to fold with each other have equal marks, and name a symbol of their own: lld takes
"no symbol" of two files for two symbols.

The bytes of the object stay where they are; what is new follows them, and the section headers come last:

    the object | relocations, groups, names of sections | section headers
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack, pack_into
from typing import NamedTuple

import numpy as np

from icf.elf.objectfile import RELOCATION, ObjectFile
from icf.elf.sectiontable import SECTION
from icf.elf.types import (
    EHDR,
    RELA_SIZE_BYTES,
    SHF_GROUP,
    SHF_INFO_LINK,
    SHN_LORESERVE_16,
    SHN_XINDEX_16,
    SHT_RELA,
    SHT_SYMTAB,
)
from icf.errors import UnsupportedError

Parts = list[bytes | memoryview]


class Mark(NamedTuple):
    """A mark of a section, and the symbol that its relocation names: 0, or one in the section itself."""

    number: int  # signed, 64 bits
    symbol: int = 0


_ALIGN_BYTES = 8
_NONE = 0  # R_X86_64_NONE, R_AARCH64_NONE
_SHOFF_AT, _SHNUM_AT = 40, 60  # in the ELF header


def marked(object_file: ObjectFile, marks: Mapping[int, Mark]) -> Parts:
    """Return an object in which each section of `marks` has its mark, as parts of a file.

    Raises:
        FormatError: the object is damaged.
        UnsupportedError: it has no symbol table, or relocations of a kind other than SHT_RELA.
    """
    return _Marking(object_file).parts(marks)


class _Marking:
    def __init__(self, object_file: ObjectFile) -> None:
        self._object = object_file
        self._table = object_file.sections
        self._headers = self._table.headers()
        self._added: list[np.void] = []
        self._names = bytearray(self._table.names)
        self._new: list[bytes] = []
        self._end = len(object_file.data)

    def parts(self, marks: Mapping[int, Mark]) -> Parts:
        group_of, members = self._object.group, dict[int, bytes]()
        for section, mark in sorted(marks.items()):
            entry = np.array([(0, _NONE, mark.symbol, mark.number)], RELOCATION).tobytes()
            holder = int(self._object.relocation_section[section])
            if holder:
                self._move(self._headers[holder], entry + self._object.relocations_of(section).tobytes())
                continue
            group = int(group_of[section])
            if group:
                index = len(self._headers) + len(self._added)
                members[group] = members.get(group, b"") + pack("<I", index)
            self._add_holder(section, entry, SHF_GROUP if group else 0)
        for group, indices in members.items():
            self._move(self._headers[group], bytes(self._table.stored(group)) + indices)
        names = self._table.names_section
        if self._added:
            self._move(self._headers[names], bytes(self._names))
        return self._whole(names)

    def _add_holder(self, section: int, content: bytes, flags: int) -> None:
        """Add a section with the relocations of another one."""
        symtab = np.flatnonzero(self._table.type == SHT_SYMTAB)
        if not len(symtab):
            raise UnsupportedError(f"{self._object.name}: has no symbol table")
        row = np.zeros(1, SECTION)[0]
        row["name"], row["type"], row["flags"] = len(self._names), SHT_RELA, SHF_INFO_LINK | flags
        row["link"], row["info"] = int(symtab[0]), section
        row["align"], row["entsize"] = _ALIGN_BYTES, RELA_SIZE_BYTES
        self._names += f".rela{self._table.name(section)}".encode("utf-8", "surrogateescape") + b"\0"
        self._move(row, content)
        self._added.append(row)

    def _move(self, header: np.void, content: bytes) -> None:
        """Give a section new contents at the end of the file."""
        padding = -self._end % _ALIGN_BYTES
        header["offset"], header["size_bytes"] = self._end + padding, len(content)
        self._new += [bytes(padding), content]
        self._end += padding + len(content)

    def _whole(self, names: int) -> Parts:
        """Return the parts of the file, with the section headers at its end."""
        headers = np.concatenate([self._headers, np.array(self._added, SECTION)]) if self._added else self._headers
        count, padding = len(headers), -self._end % _ALIGN_BYTES
        if count >= SHN_LORESERVE_16:  # then the first header has the count
            headers[0]["size_bytes"] = count
            headers[0]["link"] = names if names >= SHN_LORESERVE_16 else headers[0]["link"]
        elf_header = bytearray(self._object.data[: EHDR.size])
        pack_into("<Q", elf_header, _SHOFF_AT, self._end + padding)
        stored_names = names if names < SHN_LORESERVE_16 else SHN_XINDEX_16
        pack_into("<HH", elf_header, _SHNUM_AT, count if count < SHN_LORESERVE_16 else 0, stored_names)
        rest = self._object.data[EHDR.size :]
        return [bytes(elf_header), rest, *self._new, bytes(padding), headers.tobytes()]
