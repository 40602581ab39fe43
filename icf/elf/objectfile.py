"""Relocatable objects in bulk: the sections, symbols and relocations of an ET_REL file as columns.

A program of 100 MB is linked from a thousand objects, and with -ffunction-sections each of them may have
tens of thousands of sections: one for every function, one for its relocations, one for its COMDAT group.
`icf.elf.image` makes a Python object of every section, which is right for the forty of an image and takes
minutes here. So this module makes no object for a section or symbol: tables stay in the mapping, a
column is one numpy operation on first use, and a name is decoded only when a caller wants it.

    for obj in open_inputs(paths):                              # see icf.linkinputs.inputs
        for row in obj.functions:
            section = obj.symbols.shndx[row]
            code = obj.contents(section)
            entries = obj.relocations_of(section)               # fields offset, type, symbol, addend
    section, entries = obj.relocations_in(sections)             # those of many sections at once

In an object a symbol's value and a relocation's offset count from the start of their section. Section
indices are the file's own, 0 being the null section; symbol rows are indices in its symbol table.

A column is checked when it is made, and the file header and the size of the section table
when the object is parsed: a bad section does not make the others unreadable.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from icf.columns import I64, U32, U64, Mask
from icf.elf.headers import HEADERS, parse_kind
from icf.elf.sectiontable import SectionTable, gather
from icf.elf.string_table import StringTable
from icf.elf.symbols import SYM, Symbols
from icf.elf.types import (
    ET_REL,
    RELA_SIZE_BYTES,
    SHT_CREL,
    SHT_GROUP,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
    STT_FILE,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_OBJECT,
    STT_SECTION,
    SYM_SIZE_BYTES,
    source_name,
)
from icf.errors import FormatError, UnsupportedError
from icf.reader import Reader

RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_WORD = np.dtype("<u4")
_GRP_COMDAT = 1

Entries = npt.NDArray[np.void]  # of RELOCATION
_NO_ENTRIES: Entries = np.empty(0, dtype=RELOCATION)


class ObjectFile:
    """One ET_REL file for x86-64 or AArch64; `name` is how a linker prints it, `lib.a(member.o)` for a member."""

    def __init__(self, buffer: memoryview, name: str) -> None:
        self.name = name
        self.data = buffer
        self.machine, elf_type = parse_kind(Reader(buffer, name, HEADERS), name, allow_rel=True)
        if elf_type != ET_REL:
            raise UnsupportedError(f"{name}: ELF type {elf_type}, needs a relocatable object (1)")
        self.sections = SectionTable(buffer, name)

    @classmethod
    def parse(cls, buffer: memoryview, name: str) -> Self:
        """Read the headers of the object in `buffer`, which is kept and never copied."""
        return cls(buffer, name)

    def __repr__(self) -> str:
        return f"<ObjectFile {self.name!r}: {self.sections.count} sections>"

    def section_name(self, section: int) -> str:
        """Return a section's name."""
        return self.sections.name(section)

    def contents(self, section: int) -> memoryview:
        """Return the (inflated) contents of a section, not relocated; empty for NOBITS."""
        return self.sections.contents(section)

    # Symbols

    @cached_property
    def _symtab(self) -> int:
        """The section that is the symbol table; 0 if there is none."""
        found = np.flatnonzero(self.sections.type == SHT_SYMTAB)
        return int(found[0]) if len(found) else 0

    @cached_property
    def symbols(self) -> Symbols:
        """The symbol table, with its columns name_offset, value, size_bytes, type, bind, visibility, shndx."""
        table = self._symtab
        if table == 0:
            return Symbols(self.name, "symbols", np.empty(0, dtype=SYM), StringTable(memoryview(b"")))
        stored, link = self.sections.stored(table), int(self.sections.link[table])
        entsize = int(self.sections.entsize[table])
        if entsize != SYM_SIZE_BYTES or len(stored) % SYM_SIZE_BYTES:
            raise self.sections.error(
                table,
                f"symbol table has {len(stored)} bytes in entries of {entsize}, must be entries of {SYM_SIZE_BYTES}",
            )
        if link >= self.sections.count or self.sections.type[link] != SHT_STRTAB:
            raise self.sections.error(table, f"symbol table has sh_link {link}: no string table")
        extended = None
        for section in np.flatnonzero((self.sections.type == SHT_SYMTAB_SHNDX) & (self.sections.link == table)):
            indices = self.sections.stored(int(section))
            extended = np.frombuffer(indices[: len(indices) // 4 * 4], dtype="<u4")
        strings = StringTable(self.sections.stored(link))
        return Symbols(self.name, ".symtab", np.frombuffer(stored, dtype=SYM), strings, extended)

    def symbol_name(self, row: int) -> str:
        """Return a symbol's name; that of its section for a section symbol, which has none of its own."""
        name = self.symbols.name(row)
        if not name and self.symbols.type[row] == STT_SECTION:
            section = int(self.symbols.shndx[row])
            return self.section_name(section) if section < self.sections.count else ""
        return name

    @cached_property
    def source_file(self) -> str:
        """The source that the object was compiled from, as its STT_FILE symbol names it.

        "" if it has none, or several: then `ld -r` has made it of several objects.
        """
        rows = np.flatnonzero(self.symbols.type == STT_FILE)
        return source_name(self.symbols.name(int(rows[0]))) if len(rows) == 1 else ""

    @cached_property
    def functions(self) -> I64:
        """The functions and ifuncs defined in executable sections, as rows by (section, value, row)."""
        symbols = self.symbols
        is_function = ((symbols.type == STT_FUNC) | (symbols.type == STT_GNU_IFUNC)) & symbols.is_defined
        rows = np.flatnonzero(is_function)
        shndx = symbols.shndx[rows]
        if len(rows) and int(shndx.max()) >= self.sections.count:
            row = int(rows[np.argmax(shndx >= self.sections.count)])
            raise FormatError(
                self.name,
                ".symtab",
                row * SYM_SIZE_BYTES,
                f"symbol lies in section {int(symbols.shndx[row])}, there are {self.sections.count}",
            )
        is_code = self.sections.is_code[shndx]
        rows, shndx = rows[is_code], shndx[is_code]
        return rows[np.lexsort((rows, symbols.value[rows], shndx))].astype(np.int64, copy=False)

    @cached_property
    def data_hashes(self) -> U64:
        """The hashes of the names of its data."""
        symbols = self.symbols
        return symbols.hashes((symbols.type == STT_OBJECT) & symbols.is_defined)

    # Relocations

    @cached_property
    def relocation_section(self) -> I64:
        """For each section the one that holds its relocations, 0 if it has none."""
        types = self.sections.type
        is_holder = (types == SHT_RELA) | (types == SHT_REL) | (types == SHT_CREL)
        holders = np.flatnonzero(is_holder & (self.sections.info != 0))
        targets = self.sections.info[holders]
        result = np.zeros(self.sections.count, dtype=np.int64)
        if len(holders) and int(targets.max()) >= self.sections.count:
            row = int(np.argmax(targets >= self.sections.count))
            raise self.sections.error(
                int(holders[row]), f"relocations are for section {targets[row]}, there are {self.sections.count}"
            )
        result[targets] = holders
        if not np.array_equal(result[targets], holders):
            row = int(np.argmax(result[targets] != holders))
            raise self.sections.error(int(holders[row]), f"section {targets[row]} has a second relocation section")
        return result

    def relocations_of(self, section: int) -> Entries:
        """Return the relocations of one section, a view of the mapping with the fields of RELOCATION."""
        holder = int(self.relocation_section[section])
        if holder == 0:
            return _NO_ENTRIES
        if not self._is_sound_holder[holder]:
            self._check_holders(np.array([holder]))
        offset, size_bytes = int(self.sections.offset[holder]), int(self.sections.size_bytes[holder])
        entries = (
            np.frombuffer(self.data, RELOCATION, size_bytes // RELA_SIZE_BYTES, offset) if size_bytes else _NO_ENTRIES
        )
        self._check_symbols(entries["symbol"], holder)
        return entries

    def relocations_in(self, sections: I64) -> tuple[I64, Entries]:
        """Return the relocations of many sections, one after the other: the section of each, and a copy of the
        entry.
        """
        holders = self.relocation_section[sections]
        has_entries = holders != 0
        holders, sections = holders[has_entries], np.asarray(sections, dtype=np.int64)[has_entries]
        self._check_holders(holders)
        counts = self.sections.size_bytes[holders].astype(np.int64) // RELA_SIZE_BYTES
        entries = gather(self.data, RELOCATION, self.sections.offset[holders].astype(np.int64), counts)
        self._check_symbols(entries["symbol"], None)
        return np.repeat(sections, counts), entries

    @cached_property
    def _is_sound_holder(self) -> Mask:
        """For each section, whether it holds complete relocations; `_check_holders` raises what is wrong otherwise."""
        sections, total = self.sections, np.uint64(len(self.data))
        is_sound = (sections.type == SHT_RELA) & (sections.entsize == RELA_SIZE_BYTES)
        is_sound &= (sections.size_bytes % np.uint64(RELA_SIZE_BYTES) == 0) & (sections.link == self._symtab)
        is_sound &= sections.offset <= total
        return np.asarray(is_sound & (sections.size_bytes <= total - np.minimum(sections.offset, total)))

    def _check_holders(self, holders: I64) -> None:
        """Check the headers of relocation sections."""
        types, sizes = self.sections.type[holders], self.sections.size_bytes[holders]
        if (types != SHT_RELA).any():
            holder = int(holders[np.argmax(types != SHT_RELA)])
            raise UnsupportedError(
                f"{self.name}: {self.section_name(holder)}: section type {int(self.sections.type[holder]):#x} "
                "is not handled, SHT_RELA (4) is"
            )
        entsizes = self.sections.entsize[holders]
        is_bad = (entsizes != RELA_SIZE_BYTES) | (sizes % np.uint64(RELA_SIZE_BYTES) != 0)
        if is_bad.any():
            at = int(np.argmax(is_bad))
            raise self.sections.error(
                int(holders[at]),
                f"relocation section has {sizes[at]} bytes in entries of {entsizes[at]}, "
                f"must be entries of {RELA_SIZE_BYTES}",
            )
        links = self.sections.link[holders]
        if (links != self._symtab).any():
            at = int(np.argmax(links != self._symtab))
            raise self.sections.error(
                int(holders[at]), f"relocation section has sh_link {links[at]}, the symbol table is {self._symtab}"
            )
        self.sections.check_stored(holders)

    def _check_symbols(self, column: U32, holder: int | None) -> None:
        """Refuse a relocation of a symbol that is not in the table; row 0, no symbol, always is."""
        limit = max(self.symbols.count, 1)
        if len(column) and int(column.max()) >= limit:
            row = int(np.argmax(column >= limit))
            place = "relocations" if holder is None else self.section_name(holder)
            raise FormatError(
                self.name,
                place,
                row * RELA_SIZE_BYTES,
                f"relocation names symbol {int(column[row])}, its table has {self.symbols.count}",
            )

    # COMDAT groups

    @cached_property
    def group_symbol(self) -> U32:
        """For each section the row of its COMDAT group's signature symbol, 0 if it is in none."""
        result = np.zeros(self.sections.count, dtype=np.uint32)
        in_group = np.flatnonzero(self.group)
        result[in_group] = self.sections.info[self.group[in_group]]
        return result

    @cached_property
    def group(self) -> I64:
        """For each section its COMDAT group, which is a section, too; 0 if it is in none."""
        result = np.zeros(self.sections.count, dtype=np.int64)
        groups = np.flatnonzero(self.sections.type == SHT_GROUP)
        if len(groups) == 0:
            return result
        self._check_groups(groups)
        starts = self.sections.offset[groups].astype(np.int64)
        is_comdat = (gather(self.data, _WORD, starts, np.ones_like(starts)) & _GRP_COMDAT) != 0
        groups, starts = groups[is_comdat], starts[is_comdat]
        counts = self.sections.size_bytes[groups].astype(np.int64) // 4 - 1
        members, owners = gather(self.data, _WORD, starts + 4, counts), np.repeat(groups, counts)
        if len(members) and int(members.max()) >= self.sections.count:
            at = int(np.argmax(members >= self.sections.count))
            raise self.sections.error(
                int(owners[at]), f"group has section {int(members[at])} as a member, there are {self.sections.count}"
            )
        result[members] = owners
        return result

    def _check_groups(self, groups: I64) -> None:
        """Check the headers of group sections."""
        self.sections.check_stored(groups)
        sizes, symbols = self.sections.size_bytes[groups], self.sections.info[groups]
        is_bad = (sizes < 4) | (sizes % np.uint64(4) != 0) | (self.sections.link[groups] != self._symtab)
        is_bad |= symbols >= max(self.symbols.count, 1)
        if is_bad.any():
            at = int(np.argmax(is_bad))
            raise self.sections.error(
                int(groups[at]),
                f"group has {sizes[at]} bytes and symbol {symbols[at]} of table {self.sections.link[groups[at]]}, "
                f"must be 4-byte words and one of the {self.symbols.count} symbols of table {self._symtab}",
            )

    @cached_property
    def has_lto_code(self) -> bool:
        """Whether the object carries a compiler's intermediate code; an LTO link uses that, not the machine code."""
        return b".gnu.lto_" in self.sections.names or b".llvm.lto\0" in self.sections.names
