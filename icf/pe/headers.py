"""The headers of a PE image: machine, image base, data directories and sections.

    MZ header        u32 at 0x3c: offset of the PE header
    PE header        "PE\\0\\0", COFF header (20 bytes), optional header (magic 0x20b: 64 bits), 16 data directories
    sections         40 bytes each: name, sizes and places in memory and in the file, characteristics

They are read here and not by lief: its import alone takes nine tenths of a second of processor time, twenty times what
`icf` needs to look an address up, and every command opens images.

Source: Microsoft, "PE Format".
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from icf.elf.types import Machine
from icf.errors import UnsupportedError
from icf.filebytes import FileBytes
from icf.reader import Reader

MAGIC = b"MZ"
EXPORTS, IMPORTS, EXCEPTIONS, BASE_RELOCATIONS, DEBUG, DELAYED_IMPORTS = 0, 1, 3, 5, 6, 13  # data directories
CODE, EXECUTE, WRITE = 0x20, 0x20000000, 0x80000000  # characteristics of a section
MACHINES = {0x8664: Machine.X86_64, 0xAA64: Machine.AARCH64}
_COFF = Struct("<HHIIIHH")
_SECTION = Struct("<8sIIIIIIHHI")
_PE32_PLUS, _PE32 = 0x20B, 0x10B
_PLACE = "PE header"
_DIRECTORY_LIMIT = 16
_SPAN_LIMIT_BYTES = 1 << 31


class PeSection(NamedTuple):
    """One section header; a section is longer in memory than in the file where it ends with zeros."""

    name: str
    vaddr: int
    size_bytes: int  # in memory
    offset: int
    stored_bytes: int  # in the file, at most `size_bytes`
    characteristics: int

    @property
    def is_code(self) -> bool:
        return bool(self.characteristics & (CODE | EXECUTE))


class Directory(NamedTuple):
    """A data directory."""

    rva: int
    size_bytes: int


class PeHeaders(NamedTuple):
    """What the headers say."""

    machine: Machine
    timestamp: int
    base: int
    image_size_bytes: int
    entry: int  # address; 0: none
    directories: tuple[Directory, ...]
    sections: tuple[PeSection, ...]
    symbols: int  # offset of the COFF symbols; 0: there is no table
    symbol_count: int

    def directory(self, number: int) -> Directory:
        """Return a data directory, an empty one if the image lacks it."""
        return self.directories[number] if number < len(self.directories) else Directory(0, 0)


def is_pe(data: FileBytes) -> bool:
    """Return whether a file begins like a PE image."""
    return bytes(data[:2]) == MAGIC


def parse_headers(data: FileBytes, path: str) -> PeHeaders:
    """Return the headers.

    Raises:
        FormatError: they break the format.
        UnsupportedError: an image of 32 bits, or for another machine.
    """
    head = Reader(data[:0x40], path, "MZ header", 0x3C)
    start = head.u32()
    reader = Reader(data[start : start + 24], path, _PLACE)
    if bytes(reader.take(4)) != b"PE\0\0":
        raise reader.error("is not a PE image", 0)
    machine, section_count, timestamp, symbols, symbol_count, optional_bytes, _ = _COFF.unpack(reader.take(_COFF.size))
    optional = start + 24
    reader = Reader(data[optional : optional + optional_bytes + section_count * _SECTION.size], path, _PLACE)
    magic = reader.u16()
    if magic == _PE32:
        raise UnsupportedError(f"{path}: PE of 32 bits; only x86-64 and ARM64 are supported")
    if magic == _PE32_PLUS and machine not in MACHINES:
        raise UnsupportedError(f"{path}: PE for machine {machine:#06x}; only x86-64 and ARM64 are supported")
    if magic != _PE32_PLUS:
        raise reader.error(f"magic of the optional header is {magic:#x}, must be {_PE32_PLUS:#x}", 0)
    reader.take(14)
    entry = reader.u32()
    reader.take(4)
    base = reader.u64()
    reader.take(24)
    image_size_bytes = reader.u32()
    if image_size_bytes > _SPAN_LIMIT_BYTES or base >> 63:
        problem = f"{image_size_bytes} bytes at {base:#x} are more than an image can have"
        raise reader.error(problem, reader.pos - 4)
    reader.take(48)
    count = min(reader.u32(), _DIRECTORY_LIMIT)
    directories = tuple(Directory(reader.u32(), reader.u32()) for _ in range(count))
    reader.pos = optional_bytes
    sections = []
    for _ in range(section_count):
        name, size_bytes, rva, stored_bytes, offset, _, _, _, _, characteristics = _SECTION.unpack(
            reader.take(_SECTION.size)
        )
        size_bytes = size_bytes or stored_bytes
        if rva + size_bytes > image_size_bytes:
            problem = f"{size_bytes} bytes at RVA {rva:#x} end outside of the image of {image_size_bytes} bytes"
            raise reader.error(problem, reader.pos - _SECTION.size)
        stored_bytes = min(stored_bytes, size_bytes)
        if stored_bytes and offset + stored_bytes > len(data):
            problem = f"{stored_bytes} bytes at {offset:#x} end outside of the file of {len(data)} bytes"
            raise reader.error(problem, reader.pos - _SECTION.size)
        text = name.rstrip(b"\0").decode("utf-8", "surrogateescape")
        sections.append(PeSection(text, base + rva, size_bytes, offset, stored_bytes, characteristics))
    stored_bytes = sum(section.stored_bytes for section in sections)
    if stored_bytes > len(data):
        problem = f"{len(sections)} sections have {stored_bytes} bytes, the file has {len(data)}: they overlap"
        raise reader.error(problem, optional_bytes)
    vaddr = base + entry if entry else 0
    return PeHeaders(
        MACHINES[machine], timestamp, base, image_size_bytes, vaddr, directories, tuple(sections), symbols, symbol_count
    )  # fmt: skip
