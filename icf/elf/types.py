"""ELF words: machines, sections, segments, and the numbers of the gABI that are used here.

Names of the standard keep its spelling. One departure: a symbol's section index is widened to
32 bits, and the reserved values (SHN_ABS ...) move to the top of that range, so that
they cannot be mistaken for a real section of an image with more than 0xff00 of them.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

EHDR = Struct("<16sHHIQQQIHHHHHH")
SHDR = Struct("<IIQQQQIIQQ")
PHDR = Struct("<IIQQQQQQ")
CHDR = Struct("<IIQQ")
SYM_SIZE_BYTES = 24
RELA_SIZE_BYTES = 24

ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4

SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 0, 1, 2, 3, 4
SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 6, 7, 8, 9, 11
SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY = 14, 15, 16
SHT_GROUP, SHT_SYMTAB_SHNDX, SHT_RELR = 17, 18, 19
SHT_CREL = 0x40000014  # LLVM's compact relocations, off by default
SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
SHT_GNU_HASH = 0x6FFFFFF6

SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_MERGE, SHF_STRINGS = 1, 2, 4, 0x10, 0x20
SHF_INFO_LINK, SHF_GROUP, SHF_COMPRESSED, SHF_GNU_RETAIN = 0x40, 0x200, 0x800, 0x200000

SHN_UNDEF = 0
SHN_LORESERVE_16 = 0xFF00  # as stored in 16 bits
SHN_ABS_16 = 0xFFF1
SHN_XINDEX_16 = 0xFFFF
SHN_LORESERVE = 0xFFFFFF00  # as this package shows them
SHN_ABS = 0xFFFFFFF1
PN_XNUM = 0xFFFF

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
PT_GNU_RELRO = 0x6474E552
PF_X, PF_W = 1, 2

STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE, STT_GNU_IFUNC = 0, 1, 2, 3, 4, 10

ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD = 1, 2

DT_NULL, DT_NEEDED, DT_INIT, DT_FINI = 0, 1, 12, 13

NT_GNU_BUILD_ID = 3

_NO_FILES = frozenset(("<artificial>", "ld-temp.o"))  # what gcc and LLVM call code of many sources (LTO)


class Machine(IntEnum):
    """The instruction sets that are handled, as numbered in `e_machine`."""

    X86_64 = 62
    AARCH64 = 183


class Section(NamedTuple):
    """One section header; `offset` and `size_bytes` describe the bytes as stored, maybe compressed."""

    index: int  # type: ignore[assignment]  # a method of tuples
    name: str
    type: int
    flags: int
    vaddr: int
    offset: int
    size_bytes: int
    link: int
    info: int
    align: int
    entsize: int

    @property
    def is_alloc(self) -> bool:
        """Whether the section is part of the loaded image."""
        return bool(self.flags & SHF_ALLOC)

    @property
    def end(self) -> int:
        """File offset after the last stored byte."""
        return self.offset if self.type == SHT_NOBITS else self.offset + self.size_bytes


class Segment(NamedTuple):
    """One program header."""

    type: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int


def source_name(name: str) -> str:
    """Return the name of a source file; "" for what link-time optimisation writes in its place."""
    return "" if name in _NO_FILES else name
