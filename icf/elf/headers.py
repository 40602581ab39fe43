"""The ELF header and the two header tables: read in full at open, and nothing else is.

A 300 MB image has some 40 sections, so this is a few kilobytes. The counts have three escapes:
with 0xff00 sections or more `e_shnum` is 0 and section 0's `sh_size` holds the count, `e_shstrndx`
is 0xffff and section 0's `sh_link` holds it, and `e_phnum` is 0xffff and section 0's `sh_info`
holds it. Whether a section's bytes lie inside of the file is checked when they are asked for, so
that one bad section does not make the others unreadable.
"""

from __future__ import annotations

from typing import NamedTuple

from icf.elf.types import (
    EHDR,
    ET_CORE,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    PHDR,
    PN_XNUM,
    SHDR,
    SHF_ALLOC,
    SHN_XINDEX_16,
    SHT_NOBITS,
    Machine,
    Section,
    Segment,
)
from icf.errors import FormatError, UnsupportedError
from icf.filebytes import FileBytes
from icf.reader import Reader

HEADERS = "ELF header"
SECTION_HEADERS = "section headers"
_BITCODE_MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # plain; in Apple's wrapper


def is_bitcode(buffer: memoryview) -> bool:
    """Return whether the bytes are LLVM bitcode: what clang -flto writes in place of an ELF object."""
    return bytes(buffer[:4]) in _BITCODE_MAGICS


class Headers(NamedTuple):
    """All header fields that are used, counts resolved."""

    machine: Machine
    elf_type: int
    entry: int
    phoff: int
    shoff: int
    shstrndx: int
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]


def parse_headers(
    data: memoryview | FileBytes, path: str, *, allow_rel: bool = False, allow_core: bool = False
) -> Headers:
    """Read the headers of the ELF file `data`: of an image, of an object or a core file if that is allowed."""
    reader = Reader(data[: EHDR.size], path, HEADERS)
    machine, elf_type = parse_kind(reader, path, allow_rel, allow_core)
    reader.pos = 0
    fields = EHDR.unpack(reader.take(EHDR.size))
    _, _, _, _, entry, phoff, shoff, _, ehsize, phentsize, phnum, shentsize, shnum, shstrndx = fields
    if ehsize != EHDR.size:
        raise reader.error(f"e_ehsize is {ehsize}, must be {EHDR.size}", 52)
    if shoff:
        if shentsize != SHDR.size:
            raise reader.error(f"e_shentsize is {shentsize}, must be {SHDR.size}", 58)
        first = SHDR.unpack(table_bytes(data, path, SECTION_HEADERS, shoff, 1, SHDR.size))
        shnum = shnum or first[5]
        shstrndx = first[6] if shstrndx == SHN_XINDEX_16 else shstrndx
        phnum = first[7] if phnum == PN_XNUM and first[7] else phnum
    else:
        shnum = shstrndx = 0
    if phnum and phentsize != PHDR.size:
        raise reader.error(f"e_phentsize is {phentsize}, must be {PHDR.size}", 54)
    segments = tuple(
        Segment(type_, flags, offset, vaddr, filesz, memsz, align)
        for type_, flags, offset, vaddr, _, filesz, memsz, align in PHDR.iter_unpack(
            table_bytes(data, path, "program headers", phoff, phnum, PHDR.size)
        )
    )
    sections = _parse_sections(data, path, shoff, shnum, shstrndx) if shnum else ()
    return Headers(machine, elf_type, entry, phoff, shoff, shstrndx, sections, segments)


def parse_kind(reader: Reader, path: str, allow_rel: bool, allow_core: bool = False) -> tuple[Machine, int]:
    """Check the parts of the header that decide whether to read on; return the machine and the file type."""
    magic = bytes(reader.take(4))
    if magic != b"\x7fELF":
        raise reader.error(f"not an ELF file: starts with {magic.hex()}, must start with 7f454c46", 0)
    elf_class, byte_order, version = reader.u8(), reader.u8(), reader.u8()
    if elf_class not in (1, 2):
        raise reader.error(f"ELF class is {elf_class}, must be 1 or 2", 4)
    if byte_order not in (1, 2):
        raise reader.error(f"ELF byte order is {byte_order}, must be 1 or 2", 5)
    if elf_class == 1:
        raise UnsupportedError(f"{path}: 32-bit ELF is not handled, 64-bit x86-64 and AArch64 are")
    if byte_order == 2:
        raise UnsupportedError(f"{path}: big-endian ELF is not handled, little-endian x86-64 and AArch64 are")
    if version != 1:
        raise reader.error(f"ELF version is {version}, must be 1", 6)
    reader.pos = 16
    elf_type, machine = reader.u16(), reader.u16()
    if machine not in (Machine.X86_64, Machine.AARCH64):
        raise UnsupportedError(f"{path}: machine {machine} is not handled, x86-64 (62) and AArch64 (183) are")
    if elf_type == ET_REL and not allow_rel:
        raise UnsupportedError(f"{path}: a relocatable object, needs a linked executable or shared object")
    if elf_type != ET_CORE and allow_core:
        raise reader.error(f"ELF type is {elf_type}, that of a core file is {ET_CORE}", 16)
    if elf_type not in (ET_REL, ET_EXEC, ET_DYN) and not allow_core:
        raise UnsupportedError(
            f"{path}: ELF type {elf_type} is not handled, executables (2) and shared objects (3) are"
        )
    return Machine(machine), elf_type


def table_bytes(
    data: memoryview | FileBytes, path: str, what: str, offset: int, count: int, entry_size_bytes: int
) -> memoryview:
    """Return the bytes of a header table, checked to lie inside of the file."""
    if count == 0:
        return data[:0]
    if offset > len(data) or count > (len(data) - offset) // entry_size_bytes:
        problem = f"{count} entries of {entry_size_bytes} bytes do not fit the file of {len(data)} bytes"
        raise FormatError(path, what, offset, problem)
    return data[offset : offset + count * entry_size_bytes]


def _parse_sections(
    data: memoryview | FileBytes, path: str, shoff: int, shnum: int, shstrndx: int
) -> tuple[Section, ...]:
    """Read the section headers and their names."""
    reader = Reader(data[:0], path, SECTION_HEADERS)  # for its errors
    raw = list(SHDR.iter_unpack(table_bytes(data, path, SECTION_HEADERS, shoff, shnum, SHDR.size)))
    if shstrndx >= shnum:
        raise reader.error(f"e_shstrndx is {shstrndx}, must be below the section count {shnum}", shoff)
    names = b""
    if shstrndx:
        _, type_, _, _, names_offset, names_size_bytes = raw[shstrndx][:6]
        if type_ == SHT_NOBITS or names_offset > len(data) or names_size_bytes > len(data) - names_offset:
            raise reader.error(
                f"section name table of {names_size_bytes} bytes at {names_offset:#x} lies outside of the file",
                shoff + shstrndx * SHDR.size,
            )
        names = bytes(data[names_offset : names_offset + names_size_bytes])
    sections = []
    for index, (name_offset, kind, flags, vaddr, offset, size_bytes, link, info, align, entsize) in enumerate(raw):
        name = ""
        if name_offset and names:
            nul = names.find(0, name_offset)
            if nul < 0:
                raise reader.error(
                    f"name of section {index} at {name_offset:#x} has no end in the name table of {len(names)} bytes",
                    shoff + index * SHDR.size,
                )
            name = names[name_offset:nul].decode("utf-8", "surrogateescape")
        if flags & SHF_ALLOC and vaddr + size_bytes > 1 << 64:
            raise reader.error(
                f"section {name or index} of {size_bytes} bytes at {vaddr:#x} ends beyond the address space",
                shoff + index * SHDR.size,
            )
        sections.append(Section(index, name, kind, flags, vaddr, offset, size_bytes, link, info, align, entsize))
    return tuple(sections)
