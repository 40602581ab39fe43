"""A bounds-checked cursor over little-endian bytes; its errors name the section and offset.

Parsers of headers and small tables read through it, in file order, and check each field right
after reading it. Kernels read bulk data.
"""

from __future__ import annotations

from struct import Struct

from icf.errors import FormatError

_U16, _U32, _U64 = Struct("<H"), Struct("<I"), Struct("<Q")
_STRING_BYTES = 256  # of a string are read at a time


class Reader:
    """Reads `buffer` from `pos` to `end`; every short read is a `FormatError` with its place."""

    __slots__ = ("_buffer", "path", "section", "pos", "end")

    def __init__(
        self,
        buffer: bytes | bytearray | memoryview,
        path: str,
        section: str,
        pos: int = 0,
        end: int | None = None,
    ) -> None:
        self._buffer = memoryview(buffer)
        self.path = path
        self.section = section
        self.pos = pos
        size_bytes = len(self._buffer)
        self.end = size_bytes if end is None else min(end, size_bytes)

    def error(self, problem: str, offset: int | None = None, *, hint: str | None = None) -> FormatError:
        """Return the error to raise for `problem` at `offset`, or where the reader stands."""
        return FormatError(self.path, self.section, self.pos if offset is None else offset, problem, hint=hint)

    @property
    def remaining(self) -> int:
        """Bytes between the cursor and the end."""
        return max(self.end - self.pos, 0)

    def take(self, size_bytes: int) -> memoryview:
        """Return the next `size_bytes` bytes, not copied."""
        if size_bytes < 0 or size_bytes > self.end - self.pos:
            raise self.error(f"needs {size_bytes} bytes, {self.remaining} are left")
        start = self.pos
        self.pos = start + size_bytes
        return self._buffer[start : self.pos]

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int(_U16.unpack(self.take(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def uint(self, size_bytes: int) -> int:
        """Return an unsigned integer of any width."""
        return int.from_bytes(self.take(size_bytes), "little")

    def uleb(self) -> int:
        """Return a ULEB128 of at most 64 bits (DWARF 5, 7.6)."""
        start, value, shift = self.pos, 0, 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise self.error("ULEB128 is longer than 10 bytes", start)
        if value >> 64:
            raise self.error("ULEB128 does not fit 64 bits", start)
        return value

    def sleb(self) -> int:
        """Return an SLEB128 of ten bytes or fewer (DWARF 5, 7.6)."""
        start, value, shift = self.pos, 0, 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                raise self.error("SLEB128 is longer than 10 bytes", start)
        value -= (byte >> 6 & 1) << shift
        if not -1 << 63 <= value < 1 << 63:
            raise self.error("SLEB128 does not fit 64 bits", start)
        return value

    def cstring(self) -> bytes:
        """Return bytes up to a NUL, which is consumed."""
        start = self.pos
        for at in range(start, self.end, _STRING_BYTES):
            piece = bytes(self._buffer[at : min(at + _STRING_BYTES, self.end)])
            nul = piece.find(0)
            if nul >= 0:
                self.pos = at + nul + 1
                return piece[:nul] if at == start else bytes(self._buffer[start : at + nul])
        raise self.error("string has no terminating NUL")
