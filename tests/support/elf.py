"""Assemble small ELF files from their parts, for tests that need one with a certain property.

    elf = Elf([Part(".text", SHT_PROGBITS, SHF_ALLOC, b"\\xc3", vaddr=0x1000)])
    path.write_bytes(elf.build())

Layout: file header, program headers, contents in the order given, section names, section headers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack

from icf.elf.types import EHDR, ET_DYN, PHDR, SHDR, SHT_NOBITS, SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB, Machine


@dataclass
class Part:
    """One section; link and info are section indices, the null section being 0."""

    name: str
    type: int = SHT_PROGBITS
    flags: int = 0
    content: bytes = b""
    vaddr: int = 0
    link: int = 0
    info: int = 0
    align: int = 1
    entsize: int = 0
    size_bytes: int | None = None  # where it is to differ from that of the contents


@dataclass
class Elf:
    """A file of these sections; `segments` are (type, flags, name of the section it covers)."""

    parts: list[Part] = field(default_factory=list)
    segments: list[tuple[int, int, str]] = field(default_factory=list)
    machine: int = Machine.X86_64
    type: int = ET_DYN
    escaped_counts: bool = False  # write the counts to section 0, as if they did not fit

    def build(self) -> bytes:
        """The bytes of the file."""
        parts = [*self.parts, Part(".shstrtab", SHT_STRTAB)]
        names = b"\0" + b"".join(part.name.encode() + b"\0" for part in parts)
        parts[-1].content = names
        body = bytearray(EHDR.size + PHDR.size * len(self.segments))
        headers, name_offset, offsets = [], 1, {}
        for part in parts:
            body += bytes(-len(body) % max(part.align, 1))
            offsets[part.name] = len(body)
            size_bytes = len(part.content) if part.size_bytes is None else part.size_bytes
            fields = (part.type, part.flags, part.vaddr, len(body), size_bytes, part.link, part.info, part.align)
            headers.append(SHDR.pack(name_offset, *fields, part.entsize))
            name_offset += len(part.name.encode()) + 1
            if part.type != SHT_NOBITS:
                body += part.content
        body += bytes(-len(body) % 8)
        count, names_index = len(headers) + 1, len(headers)
        escaped = self.escaped_counts or count >= 0xFF00
        null = SHDR.pack(0, 0, 0, 0, 0, count if escaped else 0, names_index if escaped else 0, 0, 0, 0)
        shoff = len(body)
        body += null + b"".join(headers)
        ident = b"\x7fELF\2\1\1" + bytes(9)
        phoff = EHDR.size if self.segments else 0
        body[: EHDR.size] = EHDR.pack(
            ident, self.type, self.machine, 1, 0x1000, phoff, shoff, 0, EHDR.size, PHDR.size, len(self.segments),
            SHDR.size, 0 if escaped else count, 0xFFFF if escaped else names_index,
        )  # fmt: skip
        for index, (kind, flags, name) in enumerate(self.segments):
            part = next(part for part in parts if part.name == name)
            size_bytes = 0 if part.type == SHT_NOBITS else len(part.content)
            mem_size_bytes = part.size_bytes or len(part.content)
            PHDR.pack_into(
                body, EHDR.size + index * PHDR.size, kind, flags, offsets[name], part.vaddr, part.vaddr, size_bytes,
                mem_size_bytes, 1,
            )  # fmt: skip
        return bytes(body)


@dataclass(frozen=True)
class Sym:
    """A symbol to pack; `shndx` as stored in 16 bits."""

    name: str = ""
    type: int = 0
    bind: int = 0
    shndx: int = 0
    value: int = 0
    size_bytes: int = 0


def symbol_parts(symbols: list[Sym], symtab_index: int, name: str = ".symtab") -> list[Part]:
    """The symbol table, to be section `symtab_index`, and the string table that follows it."""
    strtab, table = bytearray(b"\0"), bytearray(24)
    for symbol in symbols:
        name_offset = 0
        if symbol.name:
            name_offset = len(strtab)
            strtab += symbol.name.encode() + b"\0"
        info = symbol.bind << 4 | symbol.type
        table += pack("<IBBHQQ", name_offset, info, 0, symbol.shndx, symbol.value, symbol.size_bytes)
    first_global = 1 + sum(symbol.bind == 0 for symbol in symbols)
    return [
        Part(name, SHT_SYMTAB, 0, bytes(table), link=symtab_index + 1, info=first_global, align=8, entsize=24),
        Part(".strtab", SHT_STRTAB, 0, bytes(strtab)),
    ]
