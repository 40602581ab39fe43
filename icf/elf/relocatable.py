"""A relocatable object that is read once: its symbols and relocations as tuples, by the standard library alone.

A compiler's launcher runs once for each object, and to import numpy takes longer than to read most objects. Many
objects at once are read as columns (`icf.elf.objectfile`), which has the same rules and the same errors.
"""

from __future__ import annotations

from functools import cached_property
from operator import itemgetter
from struct import Struct
from typing import NamedTuple, TypeAlias

from icf.elf.file import ElfFile
from icf.elf.headers import SECTION_HEADERS
from icf.elf.types import (
    ET_REL,
    RELA_SIZE_BYTES,
    SHDR,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHN_LORESERVE,
    SHN_LORESERVE_16,
    SHN_XINDEX_16,
    SHT_CREL,
    SHT_NOBITS,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
    STB_LOCAL,
    STT_FILE,
    STT_FUNC,
    STT_GNU_IFUNC,
    SYM_SIZE_BYTES,
    Section,
    source_name,
)
from icf.errors import FormatError, UnsupportedError

_SYMBOL, _RELOCATION, _WORD = Struct("<IBBHQQ"), Struct("<QIIq"), Struct("<I")
_CODE = SHF_ALLOC | SHF_EXECINSTR
Relocation: TypeAlias = tuple[int, int, int, int]  # offset in the section, type, row of the symbol, addend


class Symbol(NamedTuple):
    """A symbol; its section index is 32 bits wide."""

    row: int
    name_offset: int
    type: int
    bind: int
    shndx: int
    value: int
    size_bytes: int

    @property
    def is_local(self) -> bool:
        """Whether only this object knows the symbol."""
        return self.bind == STB_LOCAL

    @property
    def is_defined(self) -> bool:
        """Whether the symbol lies in a section of this object."""
        return 0 < self.shndx < SHN_LORESERVE


class RelocatableObject:
    """An open ET_REL file."""

    def __init__(self, file: ElfFile) -> None:
        if file.elf_type != ET_REL:
            raise UnsupportedError(f"{file.path}: ELF type {file.elf_type}, needs a relocatable object (1)")
        self.file = file
        self.machine = file.machine

    @cached_property
    def _symtab(self) -> Section | None:
        return next((section for section in self.file.sections if section.type == SHT_SYMTAB), None)

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The symbol table, by row."""
        table = self._symtab
        if table is None:
            return []
        stored = self.file.stored(table)
        if table.entsize != SYM_SIZE_BYTES or len(stored) % SYM_SIZE_BYTES:
            raise self._error(
                table,
                f"symbol table has {len(stored)} bytes in entries of {table.entsize}, "
                f"must be entries of {SYM_SIZE_BYTES}",
            )
        extended = [
            self.file.stored(section)
            for section in self.file.sections
            if section.type == SHT_SYMTAB_SHNDX and section.link == table.index
        ]
        found = []
        for row, (name_offset, info, _, shndx, value, size_bytes) in enumerate(_SYMBOL.iter_unpack(stored)):
            if shndx >= SHN_LORESERVE_16:
                shndx = self._extended(extended, row) if shndx == SHN_XINDEX_16 else shndx | 0xFFFF0000
            found.append(Symbol(row, name_offset, info & 0xF, info >> 4, shndx, value, size_bytes))
        return found

    def _extended(self, tables: list[memoryview], row: int) -> int:
        """Return the section index of a symbol that has it in a table of its own."""
        if not tables or (row + 1) * _WORD.size > len(tables[-1]):
            problem = "symbol with SHN_XINDEX has no entry in a SHT_SYMTAB_SHNDX section"
            raise FormatError(self.file.path, ".symtab", row * SYM_SIZE_BYTES, problem)
        shndx: int = _WORD.unpack_from(tables[-1], row * _WORD.size)[0]
        return shndx

    @cached_property
    def _names(self) -> bytes:
        table = self._symtab
        if table is None:
            return b""
        sections = self.file.sections
        if table.link >= len(sections) or sections[table.link].type != SHT_STRTAB:
            raise self._error(table, f"symbol table has sh_link {table.link}: no string table")
        return bytes(self.file.stored(sections[table.link]))

    def name(self, symbol: Symbol) -> str:
        """Return a symbol's name."""
        if symbol.name_offset == 0:
            return ""
        end = self._names.find(0, symbol.name_offset)
        if end < 0:
            raise FormatError(
                self.file.path,
                ".symtab",
                0,
                f"symbol name at {symbol.name_offset:#x} has no end in the string table of {len(self._names)} bytes",
            )
        return self._names[symbol.name_offset : end].decode("utf-8", "surrogateescape")

    @cached_property
    def source_file(self) -> str:
        """The source that the object was compiled from, as its first STT_FILE symbol names it; "" if none does."""
        named = next((symbol for symbol in self.symbols if symbol.type == STT_FILE), None)
        return source_name(self.name(named)) if named is not None else ""

    @cached_property
    def functions(self) -> list[Symbol]:
        """The functions and ifuncs defined in executable sections, by (section, value, row)."""
        sections, found = self.file.sections, []
        for symbol in self.symbols:
            if symbol.type not in (STT_FUNC, STT_GNU_IFUNC) or not symbol.is_defined:
                continue
            if symbol.shndx >= len(sections):
                problem = f"symbol lies in section {symbol.shndx}, there are {len(sections)}"
                raise FormatError(self.file.path, ".symtab", symbol.row * SYM_SIZE_BYTES, problem)
            section = sections[symbol.shndx]
            if section.flags & _CODE == _CODE and section.type != SHT_NOBITS:
                found.append(symbol)
        return sorted(found, key=lambda symbol: (symbol.shndx, symbol.value, symbol.row))

    @cached_property
    def _relocation_sections(self) -> dict[int, Section]:
        """The section that holds the relocations of a section, by the latter's index."""
        found: dict[int, Section] = {}
        count = len(self.file.sections)
        for section in self.file.sections:
            if section.type not in (SHT_RELA, SHT_REL, SHT_CREL) or section.info == 0:
                continue
            if section.info >= count:
                raise self._error(section, f"relocations are for section {section.info}, there are {count}")
            if section.info in found:
                raise self._error(found[section.info], f"section {section.info} has a second relocation section")
            found[section.info] = section
        return found

    def relocations_of(self, section: int) -> list[Relocation]:
        """Return the relocations of one section, by offset."""
        holder = self._relocation_sections.get(section)
        if holder is None:
            return []
        if holder.type != SHT_RELA:
            raise UnsupportedError(
                f"{self.file.path}: {holder.name}: section type {holder.type:#x} is not handled, SHT_RELA (4) is"
            )
        if holder.entsize != RELA_SIZE_BYTES or holder.size_bytes % RELA_SIZE_BYTES:
            raise self._error(
                holder,
                f"relocation section has {holder.size_bytes} bytes in entries of {holder.entsize}, "
                f"must be entries of {RELA_SIZE_BYTES}",
            )
        symtab = self._symtab.index if self._symtab is not None else 0
        if holder.link != symtab:
            raise self._error(holder, f"relocation section has sh_link {holder.link}, the symbol table is {symtab}")
        found = list(_RELOCATION.iter_unpack(self.file.stored(holder)))
        limit = max(len(self.symbols), 1)
        for row, (_, _, symbol, _) in enumerate(found):
            if symbol >= limit:
                problem = f"relocation names symbol {symbol}, its table has {len(self.symbols)}"
                raise FormatError(self.file.path, holder.name, row * RELA_SIZE_BYTES, problem)
        found.sort(key=itemgetter(0))
        return found

    def _error(self, section: Section, problem: str) -> FormatError:
        return FormatError(
            self.file.path, SECTION_HEADERS, self.file.headers.shoff + section.index * SHDR.size, problem
        )
