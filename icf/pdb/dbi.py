"""The DBI stream (number 3): the modules of a program, one for each object, and where further streams are.

    header             64 bytes: age, streams of globals, publics and symbol records, sizes of what follows, machine
    modules            64 bytes each: its stream, sizes of symbols and lines in it; then two names
    contributions, section map, files, type servers, edit-and-continue
    debug header       u16 stream each: slot 3 and 4 OMAP, slot 5 the section headers of the image

Source: LLVM, "The PDB DBI (Debug Info) Stream".
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from icf.errors import FormatError, UnsupportedError
from icf.reader import Reader

STREAM = 3
NO_STREAM = 0xFFFF
_HEADER = Struct("<iIIHHHHHHiiiiiIiiHHI")
_MODULE = Struct("<I28xHHIIIHHIII")
_PLACE = "DBI stream"
_OMAP, _SECTION_HEADERS = (3, 4), 5
_SECTION_HEADER_BYTES = 40


class Module(NamedTuple):
    """One object of the link."""

    number: int
    name: str  # path of the object
    archive: str  # path of the archive that it is in, else that of the object
    stream: int  # NO_STREAM: it has no debug information
    symbol_bytes: int  # symbols begin at offset 4 of the stream
    c11_bytes: int  # an old form of lines, not read
    c13_bytes: int


class Section(NamedTuple):
    """Where a section of the image is loaded, as addresses `segment:offset` need it."""

    name: str
    rva: int
    size_bytes: int


class Dbi(NamedTuple):
    """The stream."""

    age: int
    machine: int  # IMAGE_FILE_MACHINE_*
    symbol_stream: int  # publics and references to procedures
    modules: tuple[Module, ...]
    section_stream: int


def parse_dbi(buffer: memoryview, path: str) -> Dbi:
    """Return the stream; raise FormatError if it breaks the format."""
    reader = Reader(buffer, path, _PLACE)
    header = _HEADER.unpack(reader.take(_HEADER.size))
    signature, version, age, _, _, _, _, symbol_stream = header[:8]
    sizes = [*header[9:14], header[16], header[15]]  # in the order of the stream
    if signature != -1 or version < 19990903:
        raise reader.error(f"version is {version}, must be 19990903 or later", 0)
    if min(sizes) < 0 or sum(sizes) > reader.remaining:
        raise reader.error(f"parts have {sum(sizes)} bytes, {reader.remaining} are left", 24)
    modules = _parse_modules(Reader(buffer, path, _PLACE, reader.pos, reader.pos + sizes[0]))
    streams = Reader(buffer, path, _PLACE, reader.pos + sum(sizes[:6]), reader.pos + sum(sizes))
    slots = [streams.u16() for _ in range(sizes[6] // 2)]
    return Dbi(age, header[18], symbol_stream, tuple(modules), _section_stream(slots, path))


def _parse_modules(reader: Reader) -> list[Module]:
    modules: list[Module] = []
    while reader.remaining:
        start = reader.pos
        _, _, stream, symbol_bytes, c11_bytes, c13_bytes, _, _, _, _, _ = _MODULE.unpack(reader.take(_MODULE.size))
        name, archive = (reader.cstring().decode("utf-8", "surrogateescape") for _ in range(2))
        reader.take(min(-reader.pos % 4, reader.remaining))
        if len(modules) >= NO_STREAM:
            raise reader.error(f"more than {NO_STREAM} modules", start)
        modules.append(Module(len(modules), name, archive, stream, symbol_bytes, c11_bytes, c13_bytes))
    return modules


def _section_stream(slots: list[int], path: str) -> int:
    if any(slots[slot] != NO_STREAM for slot in _OMAP if slot < len(slots)):
        raise UnsupportedError(f"{path}: describes an image whose code was moved after the link (OMAP)")
    return slots[_SECTION_HEADERS] if len(slots) > _SECTION_HEADERS else NO_STREAM


def parse_sections(buffer: memoryview, path: str) -> tuple[Section, ...]:
    """Return the section headers that the linker copied from the image."""
    if len(buffer) % _SECTION_HEADER_BYTES:
        problem = f"{len(buffer)} bytes are not headers of {_SECTION_HEADER_BYTES} bytes"
        raise FormatError(path, "section headers", 0, problem)
    reader = Reader(buffer, path, "section headers")
    found = []
    while reader.remaining:
        name = bytes(reader.take(8)).rstrip(b"\0").decode("utf-8", "surrogateescape")
        size_bytes, rva = reader.u32(), reader.u32()
        reader.take(_SECTION_HEADER_BYTES - 16)
        found.append(Section(name, rva, size_bytes))
    return tuple(found)
