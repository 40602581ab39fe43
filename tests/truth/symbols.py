"""Functions of an ELF file, read from its symbol table alone, so that the truth owes nothing to the code under test.

A local symbol is told apart from others of its name by its source file (the STT_FILE symbol before it): its *key* is
`name@file`. A global symbol's key is its name. Keys are what two links of the same objects have in common.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SHT_SYMTAB, SHT_RELA = 2, 4
SHF_ALLOC = 2
STB_LOCAL = 0
STT_OBJECT, STT_FILE = 1, 4
FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
PT_LOAD = 1
EM_AARCH64 = 183


class Function(NamedTuple):
    start: int  # vaddr; in an object, the offset in its section
    size_bytes: int
    key: str
    section_idx: int


class Segment(NamedTuple):
    vaddr: int
    offset: int
    filesz: int


def base_name(key: str) -> str:
    """The name without what only tells local symbols apart."""
    return key.split("@", 1)[0]


@dataclass
class FunctionTable:
    """All functions of one file; several keys may share a start."""

    path: Path
    functions: list[Function]
    section_names: list[str]
    segments: list[Segment]
    sections: list[tuple[int, int]]  # vaddr ranges; empty for what is not loaded
    data: bytes
    is_aarch64: bool = False
    objects: list[tuple[str, int, int]] = field(default_factory=list)  # key, vaddr, bytes: data, vtables among it
    relocations: bytes = b""  # Elf64_Rela for the loader
    keys_at: dict[int, list[str]] = field(default_factory=dict)
    size_at: dict[int, int] = field(default_factory=dict)
    starts_of: dict[str, set[int]] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        keys_at: dict[int, list[str]] = defaultdict(list)
        starts_of: dict[str, set[int]] = defaultdict(set)
        for function in self.functions:
            if function.key not in keys_at[function.start]:
                keys_at[function.start].append(function.key)
            starts_of[function.key].add(function.start)
            self.size_at[function.start] = max(self.size_at.get(function.start, 0), function.size_bytes)
        self.keys_at, self.starts_of = dict(keys_at), dict(starts_of)
        self._starts = sorted(self.keys_at)

    def start_of(self, vaddr: int) -> int | None:
        """Start of the function that holds `vaddr`."""
        row = bisect_right(self._starts, vaddr) - 1
        if row < 0:
            return None
        start = self._starts[row]
        size_bytes = self.size_at[start]
        if size_bytes:
            return start if vaddr < start + size_bytes else None
        return start if self.section_at(start) == self.section_at(vaddr) else None  # assembly code has no sizes

    def section_at(self, vaddr: int) -> int | None:
        """Index of the loaded section that holds `vaddr`."""
        for row, (low, high) in enumerate(self.sections):
            if low <= vaddr < high:
                return row
        return None

    def read(self, vaddr: int, size_bytes: int) -> bytes:
        """Bytes of the loaded image; empty where nothing is mapped from the file."""
        for segment in self.segments:
            if segment.vaddr <= vaddr and vaddr + size_bytes <= segment.vaddr + segment.filesz:
                offset = vaddr - segment.vaddr + segment.offset
                return self.data[offset : offset + size_bytes]
        return b""


def read_functions(path: Path) -> FunctionTable:
    """Read an x86-64 or AArch64 executable, shared object or relocatable file."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"{path}: not a 64-bit little-endian ELF file")
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phentsize, phnum, shentsize, shnum, shstrndx = struct.unpack_from("<HHHHH", data, 54)
    if shnum == 0:  # more than 65279 sections
        shnum = struct.unpack_from("<Q", data, shoff + 32)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + row * shentsize) for row in range(shnum)]
    if shstrndx == 0xFFFF:
        shstrndx = sections[0][6]

    def text(offset: int) -> str:
        return data[offset : data.index(b"\0", offset)].decode(errors="replace")

    names = [text(sections[shstrndx][4] + section[0]) for section in sections]
    segments = []
    for row in range(phnum):
        kind, _flags, offset, vaddr, _paddr, filesz = struct.unpack_from("<IIQQQQ", data, phoff + row * phentsize)
        if kind == PT_LOAD:
            segments.append(Segment(vaddr, offset, filesz))
    symtab = next((section for section in sections if section[1] == SHT_SYMTAB), None)
    if symtab is None:
        raise SystemExit(f"{path}: no symbol table")
    strings = sections[symtab[6]][4]
    extended = next((section for section in sections if section[1] == 18), None)  # SHT_SYMTAB_SHNDX
    functions, objects, file = [], [], ""
    for row in range(symtab[5] // 24):
        name, info, _other, shndx, value, size_bytes = struct.unpack_from("<IBBHQQ", data, symtab[4] + row * 24)
        key = text(strings + name) + (f"@{file}" if info >> 4 == STB_LOCAL else "")
        if info & 15 == STT_FILE:
            file = text(strings + name)
        elif info & 15 == STT_OBJECT and shndx:
            objects.append((key, value, size_bytes))
        elif info & 15 in FUNCTION_TYPES and shndx:
            if shndx == 0xFFFF and extended:
                shndx = struct.unpack_from("<I", data, extended[4] + row * 4)[0]
            functions.append(Function(value, size_bytes, key, shndx))
    spans = [(section[3], section[3] + section[5]) if section[2] & SHF_ALLOC else (0, 0) for section in sections]
    is_aarch64 = struct.unpack_from("<H", data, 18)[0] == EM_AARCH64
    loaded = [section for section in sections if section[1] == SHT_RELA and section[2] & SHF_ALLOC]
    relocations = b"".join(data[section[4] : section[4] + section[5]] for section in loaded)
    return FunctionTable(path, functions, names, segments, spans, data, is_aarch64, objects, relocations)
