"""The COFF symbols of a PE image, and the names of its sections that are longer than 8 bytes.

    symbols    18 bytes each: name or u32 0 and an offset, u32 value, i16 section, u16 type, u8 storage class, u8 count
               of the records of 18 bytes that follow and belong to it; of a `.file` they are the name
    strings    u32 size, names longer than 8 bytes

A section `/4` has the name at offset 4 of the strings, `//AAAABC` at an offset of 6 digits of base 64. lld and GNU ld
write symbols into images together with DWARF: those of folded functions, too, at the address of the kept one. A weak
function `f` has the symbol `.weak.f.default.g` (LLVM) or `.weak.f.g` (GNU as), g being another one of its object.

Source: Microsoft, "PE Format", COFF Symbol Table and Section Table.
"""

from __future__ import annotations

import re
import string
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from icf.columns import I64, Mask
from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.pe.headers import PeHeaders
from icf.reader import Reader
from icf.strings import share_too_much

EXTERNAL, STATIC, FILE, WEAK_EXTERNAL = 2, 3, 103, 105  # storage classes
_RECORD = np.dtype(
    [("name", "V8"), ("value", "<u4"), ("section", "<i2"), ("type", "<u2"), ("storage", "u1"), ("more", "u1")]
)
_DIGITS = {digit: value for value, digit in enumerate(string.ascii_uppercase + string.ascii_lowercase + "0123456789+/")}
_NAME_BYTES = 8
_WEAK, _WEAK_NAME = b".weak.", re.compile(rb"\.weak\.([^.]+)(?:\.default)?(?:\.[^.]+)?")
_STRINGS_LIMIT_BYTES = 1 << 31
_SECTION_NAME_LIMIT_BYTES = 256


class CoffSymbols:
    """The symbol table of an image; `rows` are its symbols."""

    def __init__(self, headers: PeHeaders, data: FileBytes, path: str) -> None:
        self._path = path
        start, size_bytes = headers.symbols, headers.symbol_count * _RECORD.itemsize
        if start + size_bytes > len(data):
            problem = f"{headers.symbol_count} symbols at {start:#x} end outside of the file of {len(data)} bytes"
            raise FormatError(path, "PE header", 12, problem)
        self.raw: NDArray[np.void] = np.frombuffer(data[start : start + size_bytes], _RECORD)
        self.strings = _strings(data, start + size_bytes, path) if start else data[:0]

    @cached_property
    def rows(self) -> I64:
        """The records that are symbols, and do not belong to another one."""
        more = self.raw["more"]
        if not more.any():
            return np.arange(len(more))
        counts, found, at = more.tolist(), [], 0
        while at < len(counts):
            found.append(at)
            at += 1 + counts[at]
        return np.array(found, np.int64)

    @cached_property
    def text(self) -> tuple[memoryview, I64]:
        """A string table with the names of all symbols, and the offset of each; the last byte is 0."""
        rows = self.raw[self.rows]
        short = np.ascontiguousarray(rows["name"]).view(np.uint8).reshape(-1, _NAME_BYTES)
        words = np.ascontiguousarray(rows["name"]).view("<u4").reshape(-1, 2).astype(np.int64)
        is_long = words[:, 0] == 0
        own = np.zeros((len(rows), _NAME_BYTES + 1), np.uint8)
        own[~is_long, :_NAME_BYTES] = short[~is_long]
        long = bytes(4) + bytes(self.strings[4:]) + b"\0"  # offset 0 has the empty name
        outside = np.flatnonzero(is_long & (words[:, 1] >= len(long)))
        if len(outside):
            problem = f"name at {int(words[outside[0], 1]):#x} is not in the {len(self.strings)} bytes of strings"
            raise FormatError(self._path, "symbols", int(self.rows[outside[0]]) * _RECORD.itemsize, problem)
        if share_too_much(long, words[is_long, 1], _RECORD.itemsize):
            problem = f"names share the {len(self.strings)} bytes of strings too often"
            raise FormatError(self._path, "symbols", 0, problem)
        made = {row: self._file(row) for row in np.flatnonzero(rows["storage"] == FILE).tolist()}
        made |= _weak_names(long, np.flatnonzero(is_long), words[is_long, 1])
        parts, end = [long, own.tobytes()], len(long) + own.size
        offsets = np.where(is_long, words[:, 1], len(long) + np.arange(len(rows)) * (_NAME_BYTES + 1))
        for row, name in made.items():
            offsets[row] = end
            parts.append(name + b"\0")
            end += len(name) + 1
        return memoryview(b"".join(parts)), offsets

    def _file(self, row: int) -> bytes:
        """Return the name of a source file without its directories."""
        at = int(self.rows[row])
        content = self.raw[at + 1 : at + 1 + int(self.raw[at]["more"])].tobytes()
        return content.partition(b"\0")[0].replace(b"\\", b"/").rpartition(b"/")[2]

    def is_function(self) -> Mask:
        """Return which symbols have the type of a function."""
        kinds: Mask = (self.raw["type"][self.rows] >> 4) & 3 == 2
        return kinds

    def section_name(self, name: str) -> str:
        """Return the name of a section of which the header has `name`."""
        if not name.startswith("/") or len(name) < 2 or not len(self.strings):
            return name
        if name.startswith("//"):
            digits = [_DIGITS.get(digit, -1) for digit in name[2:]]
            offset = sum(value << 6 * place for place, value in enumerate(reversed(digits)))
            is_number = min(digits, default=-1) >= 0
        else:
            is_number = name[1:].isascii() and name[1:].isdigit()
            offset = int(name[1:]) if is_number else 0
        if not is_number:
            return name
        strings = self.strings[: offset + _SECTION_NAME_LIMIT_BYTES]
        reader = Reader(strings, self._path, "strings", min(offset, len(self.strings)))
        return reader.cstring().decode("utf-8", "surrogateescape")


def _weak_names(text: bytes, rows: I64, offsets: I64) -> dict[int, bytes]:
    """Return the names of weak functions by row, of symbols with names at offsets of a text."""
    head = np.frombuffer(text + bytes(len(_WEAK)), np.uint8)
    is_weak = np.logical_and.reduce([head[offsets + at] == byte for at, byte in enumerate(_WEAK)])
    found = {}
    for row, offset in zip(rows[is_weak].tolist(), offsets[is_weak].tolist(), strict=True):
        if name := _WEAK_NAME.fullmatch(text, offset, text.index(0, offset)):
            found[row] = name[1]
    return found


def _strings(data: FileBytes, start: int, path: str) -> memoryview:
    """Return the strings, which follow the symbols; none if the file ends there."""
    if len(data) - start < 4:
        return data[:0]
    size_bytes = int.from_bytes(data[start : start + 4], "little")
    if size_bytes > min(len(data) - start, _STRINGS_LIMIT_BYTES):
        problem = f"{size_bytes} bytes of strings end outside of the file of {len(data)} bytes"
        raise FormatError(path, "strings", start, problem)
    return data[start : start + size_bytes]
