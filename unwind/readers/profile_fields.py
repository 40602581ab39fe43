"""The fields of a pprof profile: where each starts and ends, before the library reads what is in it.

Protocol buffers' encoding: a field is a tag, `number << 3 | kind`, and its contents. Numbers have seven bits in each
byte, the lowest first; the last byte has no high bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from icf.errors import FormatError

VARINT_LIMIT_BYTES = 10
_MESSAGES, _NUMBERS = frozenset((1, 2, 3, 4, 5, 6, 11)), frozenset((7, 8, 9, 10, 12, 14, 15))
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # kinds


class Field(NamedTuple):
    number: int
    kind: int
    at: int  # where it stands
    start: int  # of its contents
    end: int  # may lie beyond the end of the data

    @property
    def is_of_profile(self) -> bool:
        """Tell whether a profile can have it; numbers from 16 on may be defined one day."""
        if self.number in _MESSAGES:
            return self.kind == _SIZED
        if self.number in _NUMBERS:
            return self.kind == _VARINT
        return self.number > 0


def fields(data: memoryview, path: str) -> Iterator[Field]:
    """Yield the fields of a message; `FormatError` for what is none, with its place."""
    at, size_bytes = 0, len(data)
    while at < size_bytes:
        tag, start = _varint(data, at, path)
        kind = tag & 7
        if kind == _SIZED:
            length_bytes, start = _varint(data, start, path)
            end = start + length_bytes
        elif kind == _VARINT:
            _, end = _varint(data, start, path)
        elif kind in (_FIXED64, _FIXED32):
            end = start + (8 if kind == _FIXED64 else 4)
        else:
            raise FormatError(path, "profile", at, f"field of kind {kind}, must be 0, 1, 2 or 5")
        yield Field(tag >> 3, kind, at, start, end)
        at = end


def _varint(data: memoryview, at: int, path: str) -> tuple[int, int]:
    """Return a number of at most 64 bits, and where what follows it starts."""
    value = shift = 0
    for pos in range(at, min(at + VARINT_LIMIT_BYTES, len(data))):
        byte = data[pos]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos + 1
        shift += 7
    raise FormatError(path, "profile", at, f"number has no end in {min(VARINT_LIMIT_BYTES, len(data) - at)} bytes")
