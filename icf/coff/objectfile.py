"""A COFF object: its sections with code, symbols, and the relocations that name callees.

    header        20 bytes: machine, sections, place and count of symbols; /bigobj: 56 bytes, 32-bit counts
    sections      40 bytes each; relocations of 10 bytes, where more than 65,534 the first has the count
    symbols       18 bytes each (/bigobj: 20), some followed by auxiliary records of that size
    strings       u32 size, names longer than 8 bytes

Source: Microsoft, "PE Format", COFF; LLVM, `BinaryFormat/COFF.h` for /bigobj and /GL.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.errors import FormatError
from icf.reader import Reader
from icf.strings import share_too_much

AMD64, ARM64 = 0x8664, 0xAA64
ADDR64, REL32 = 1, 4  # IMAGE_REL_AMD64_*
EXTERNAL, STATIC, FILE, WEAK_EXTERNAL = 2, 3, 103, 105  # storage classes
FUNCTION_TYPE = 0x20
_CODE, _COMDAT = 0x20, 0x1000  # characteristics
_NOT_LOADED = 0x200 | 0x800  # information, removed
_ASSOCIATIVE = 5  # a section that belongs to another one
_MANY_RELOCATIONS = 0x01000000
_BIG_UUID = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
_LINK_TIME_UUID = bytes.fromhex("38feb30ca5d9ab4dac9bd6b6222653c2")
_ANONYMOUS = b"\0\0\xff\xff"  # then u16 version, 0: an import; u16 machine, u32 time, 16s what it is
_HEADER, _BIG_HEADER, _BIG_BYTES = Struct("<HHIIIHH"), Struct("<HHHHI16sIIIIIII"), 56
_SECTION_BYTES, _NAME_LIMIT_BYTES = 40, 256
_RELOCATION = np.dtype([("offset", "<u4"), ("symbol", "<u4"), ("type", "<u2")])
_SYMBOL = np.dtype(
    [("name", "S8"), ("value", "<u4"), ("section", "<i2"), ("type", "<u2"), ("storage", "u1"), ("more", "u1")]
)
_BIG_SYMBOL = np.dtype(
    [("name", "S8"), ("value", "<u4"), ("section", "<i4"), ("type", "<u2"), ("storage", "u1"), ("more", "u1")]
)


class CoffSection(NamedTuple):
    """A section; its number in symbols is its place and 1."""

    offset: int
    size_bytes: int
    relocations: int  # where they begin
    relocation_count: int
    name: str
    flags: int  # IMAGE_SCN_*

    @property
    def is_code(self) -> bool:
        """Whether it has code of which the object has the bytes."""
        return bool(self.flags & _CODE) and self.offset != 0

    @property
    def is_comdat(self) -> bool:
        """Whether the linker takes one section of several objects, or none."""
        return bool(self.flags & _COMDAT)

    @property
    def is_loaded(self) -> bool:
        """Whether it comes into the image, other than as unwind table or debug information."""
        return not self.flags & _NOT_LOADED and not self.name.startswith((".debug", ".pdata"))


class CoffFunction(NamedTuple):
    """A function that the object defines."""

    symbol: int
    name: str
    is_local: bool
    section: int  # place in `sections`
    start: int  # in the section
    end: int


class CoffObject:
    """One object."""

    def __init__(self, buffer: memoryview, path: str) -> None:
        self.path, self._buffer = path, buffer
        reader = Reader(buffer, path, "COFF header")
        first = reader.u16(), reader.u16()
        reader.pos = 0
        self._is_big = first == (0, 0xFFFF)
        if self._is_big:
            _, _, _, self.machine, _, uuid, _, _, _, _, count, symbols, symbol_count = _BIG_HEADER.unpack(
                reader.take(_BIG_HEADER.size)
            )
            if uuid != _BIG_UUID:
                raise reader.error("is not an object: an import or another kind of file", 0)
            reader.pos = _BIG_BYTES
        else:
            self.machine, count, _, symbols, symbol_count, optional_bytes, _ = _HEADER.unpack(reader.take(_HEADER.size))
            reader.take(optional_bytes)
        dtype = _BIG_SYMBOL if self._is_big else _SYMBOL
        self._symbols, self._strings = symbols, symbols + symbol_count * dtype.itemsize
        self.sections = tuple(self._section(reader) for _ in range(count))
        relocation_bytes = sum(each.relocation_count for each in self.sections) * _RELOCATION.itemsize
        if relocation_bytes > len(buffer):
            raise FormatError(path, "COFF header", 0, f"relocations have {relocation_bytes} bytes, so they overlap")
        end = symbols + symbol_count * dtype.itemsize
        if end > len(buffer):
            problem = f"{symbol_count} symbols at {symbols:#x} end outside of the file of {len(buffer)} bytes"
            raise FormatError(path, "COFF header", 0, problem)
        self.symbols: NDArray[np.void] = np.frombuffer(buffer[symbols:end], dtype)
        self._is_symbol = self._starts()
        self._names: dict[int, str] = {}
        self._check_names()

    def _section(self, reader: Reader) -> CoffSection:
        start = reader.pos
        name = self._section_name(bytes(reader.take(16)[:8]).rstrip(b"\0").decode("latin-1"))
        size_bytes, offset, relocations = reader.u32(), reader.u32(), reader.u32()
        reader.take(4)
        count = reader.u16()
        reader.take(2)
        flags = reader.u32()
        if count == 0xFFFF and flags & _MANY_RELOCATIONS:
            count = Reader(self._buffer, self.path, "relocations", relocations).u32() - 1
            relocations += _RELOCATION.itemsize
        is_stored = offset != 0
        if count < 0 or relocations + count * _RELOCATION.itemsize > len(self._buffer):
            raise reader.error(f"{count} relocations at {relocations:#x} end outside of the file", start)
        if is_stored and offset + size_bytes > len(self._buffer):
            raise reader.error(f"{size_bytes} bytes at {offset:#x} end outside of the file", start)
        return CoffSection(offset, size_bytes, relocations, count, name, flags)

    @property
    def asks_for_libraries(self) -> bool:
        """Whether it has `/defaultlib:NAME` among the options that it has for the linker."""
        options = (self.contents(at) for at, each in enumerate(self.sections) if each.name == ".drectve")
        return any(b"defaultlib:" in bytes(text).lower() for text in options)

    def _section_name(self, name: str) -> str:
        """Return the name of a section of which the header has `name`: `/4` is the string at offset 4."""
        if name[:1] != "/" or not name[1:].isdigit() or self._strings + int(name[1:]) >= len(self._buffer):
            return name
        start = self._strings + int(name[1:])
        return bytes(self._buffer[start : start + _NAME_LIMIT_BYTES]).partition(b"\0")[0].decode("latin-1")

    def _starts(self) -> NDArray[np.bool_]:
        """Return which records are symbols, and not auxiliary ones."""
        more = self.symbols["more"].tolist()
        starts = np.zeros(len(more), np.bool_)
        at = 0
        while at < len(more):
            starts[at] = True
            at += 1 + more[at]
        return starts

    def _check_names(self) -> None:
        """Raise FormatError if symbols share long names."""
        heads = np.ascontiguousarray(self.symbols["name"][self._is_symbol]).view("<u4").reshape(-1, 2)
        strings = self._buffer[self._strings :]
        if share_too_much(strings, heads[heads[:, 0] == 0, 1], self.symbols.dtype.itemsize):
            raise FormatError(self.path, "symbols", 0, f"names share the {len(strings)} bytes of strings too often")

    def name(self, symbol: int) -> str:
        """Return the name of a symbol."""
        found = self._names.get(symbol)
        if found is None:
            found = self._names[symbol] = self._read_name(symbol)
        return found

    def _read_name(self, symbol: int) -> str:
        if symbol >= len(self.symbols):
            raise FormatError(self.path, "symbols", 0, f"symbol {symbol} of {len(self.symbols)}")
        place = self._symbols + symbol * self.symbols.dtype.itemsize
        raw = bytes(self._buffer[place : place + 8])
        if raw[:4] == bytes(4):
            reader = Reader(self._buffer, self.path, "strings", self._strings + int.from_bytes(raw[4:], "little"))
            return reader.cstring().decode("utf-8", "surrogateescape")
        return raw.rstrip(b"\0").decode("utf-8", "surrogateescape")

    def is_local(self, symbol: int) -> bool:
        """Return whether a symbol has internal linkage."""
        return int(self.symbols[symbol]["storage"]) == STATIC

    def is_function(self, symbol: int) -> bool:
        """Return whether a symbol is that of a function."""
        return int(self.symbols[symbol]["type"]) == FUNCTION_TYPE

    def source_files(self) -> list[str]:
        """Return the source files that the object names, as compilers write them: with directories or without."""
        found = []
        for row in np.flatnonzero(self._is_symbol & (self.symbols["storage"] == FILE)).tolist():
            records = self.symbols[row + 1 : row + 1 + int(self.symbols[row]["more"])]
            found.append(records.tobytes().partition(b"\0")[0].decode("utf-8", "surrogateescape"))
        return found

    def named(self, prefix: str) -> list[int]:
        """Return the symbols whose names begin with `prefix`, which has four characters or more."""
        head = np.ascontiguousarray(self.symbols["name"]).view("<u4")[::2]  # 0: the name is among the strings
        wanted = int.from_bytes(prefix.encode()[:4], "little")
        rows = np.flatnonzero(self._is_symbol & ((head == 0) | (head == wanted)))
        return [row for row in rows.tolist() if self.name(row).startswith(prefix)]

    def default_of(self, symbol: int) -> int:
        """Return the symbol that stands in for a weak external that nothing defines; -1 for others."""
        entry = self.symbols[symbol]
        if int(entry["storage"]) != WEAK_EXTERNAL or not entry["more"]:
            return -1
        return int.from_bytes(self._more(symbol)[:4], "little")

    def owners(self) -> dict[int, int]:
        """Return the section that each section belongs to, such as the code of unwind information, by place."""
        symbols, found = self.symbols, dict[int, int]()
        is_section = self._is_symbol & (symbols["storage"] == STATIC) & (symbols["value"] == 0) & (symbols["more"] > 0)
        for row in np.flatnonzero(is_section & (symbols["section"] > 0)).tolist():
            more = self._more(row)
            section, owner = int(symbols[row]["section"]) - 1, int.from_bytes(more[12:14], "little") - 1
            if section < len(self.sections) and self.sections[section].is_comdat and more[14] == _ASSOCIATIVE:
                if self._is_big:
                    owner += int.from_bytes(more[16:18], "little") << 16
                found[section] = owner
        return found

    def _more(self, symbol: int) -> memoryview:
        """Return the first auxiliary record of a symbol."""
        size_bytes = self.symbols.dtype.itemsize
        place = self._symbols + (symbol + 1) * size_bytes
        if symbol + 1 >= len(self.symbols):
            raise FormatError(self.path, "symbols", 0, f"symbol {symbol} has no auxiliary record")
        return self._buffer[place : place + size_bytes]

    def section_of(self, symbol: int) -> int:
        """Return the place of the section that defines a symbol; -1 for one that no section does."""
        section = int(self.symbols[symbol]["section"]) - 1
        return section if 0 <= section < len(self.sections) else -1

    def functions(self) -> list[CoffFunction]:
        """Return the functions in sections with code; each reaches to the next one, or the end of its section."""
        symbols = self.symbols
        is_code = np.array([False, *(each.is_code for each in self.sections)])
        number = np.where((symbols["section"] > 0) & (symbols["section"] < len(is_code)), symbols["section"], 0)
        wanted = self._is_symbol & is_code[number] & np.isin(symbols["storage"], (EXTERNAL, STATIC))
        wanted &= symbols["type"] == FUNCTION_TYPE
        rows = np.flatnonzero(wanted)
        rows = rows[np.lexsort((symbols["value"][rows], number[rows]))]
        found = []
        section, start, end = -1, 0, 0
        for row in rows[::-1].tolist():
            if int(number[row]) - 1 != section:
                section = int(number[row]) - 1
                start = end = self.sections[section].size_bytes
            if int(symbols["value"][row]) < start:
                start, end = int(symbols["value"][row]), start
            if start < end:
                is_local = int(symbols["storage"][row]) == STATIC
                found.append(CoffFunction(row, self.name(row), is_local, section, start, end))
        return found[::-1]

    def contents(self, section: int) -> memoryview:
        """Return the bytes of a section; none if the object has none."""
        entry = self.sections[section]
        return self._buffer[entry.offset : entry.offset + entry.size_bytes] if entry.offset else self._buffer[:0]

    def code(self, function: CoffFunction) -> memoryview:
        """Return the bytes of a function."""
        offset = self.sections[function.section].offset
        return self._buffer[offset + function.start : offset + function.end]

    def relocations(self, section: int) -> NDArray[np.void]:
        """Return the relocations of a section: offset, symbol, type."""
        entry = self.sections[section]
        end = entry.relocations + entry.relocation_count * _RELOCATION.itemsize
        return np.frombuffer(self._buffer[entry.relocations : end], _RELOCATION)

    def relocation_rows(self, section: int) -> list[tuple[int, int, int]]:
        """Return the same as numbers."""
        rows = self.relocations(section)
        return list(zip(*(rows[field].tolist() for field in ("offset", "symbol", "type")), strict=True))


def is_without_code(buffer: memoryview) -> bool:
    """Return whether a file begins like an object that was compiled with /GL: the linker makes its machine code."""
    head = bytes(buffer[:28])
    return head[:4] == _ANONYMOUS and head[12:28] == _LINK_TIME_UUID


def is_import(buffer: memoryview) -> bool:
    """Return whether a file begins like what an import library has for each function."""
    return bytes(buffer[:6]) == _ANONYMOUS + bytes(2)


def is_coff_object(buffer: memoryview) -> bool:
    """Return whether a file begins like a COFF object for x86-64 or ARM64; one of /bigobj may be for others."""
    head = bytes(buffer[:28])
    if head[:4] == _ANONYMOUS:
        return head[12:28] == _BIG_UUID
    return int.from_bytes(head[:2], "little") in (AMD64, ARM64) and len(buffer) >= _HEADER.size
