"""Encoded pointers: a byte says how wide one is and what it is relative to (LSB Core, 10.5; libgcc's unwind-pe.h).

0x0f  format       0 a word, 1 ULEB128, 2 3 4 unsigned of 2 4 8 bytes, 9 SLEB128, 10 11 12 signed of 2 4 8 bytes
0x70  relative to  0x00 nothing, 0x10 its own place, 0x30 the data (.eh_frame_hdr), 0x50 nothing, and it is aligned
0x80  indirect     the address of a word that holds the pointer
0xff  omitted
"""

from __future__ import annotations

from icf.reader import Reader

OMITTED = 0xFF
ABSOLUTE, RELATIVE, RELATIVE_TO_DATA, ALIGNED = 0x00, 0x10, 0x30, 0x50
INDIRECT = 0x80
_SIZES = {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}
_ULEB, _SLEB, _FIRST_SIGNED = 1, 9, 8
_MASK = (1 << 64) - 1


def read_value(reader: Reader, encoding: int) -> int:
    """Return the number, of which nothing is made relative yet; raises `FormatError` for an unknown format."""
    format_ = encoding & 0xF
    if format_ == _ULEB:
        return reader.uleb()
    if format_ == _SLEB:
        return reader.sleb()
    size_bytes = _SIZES.get(format_)
    if size_bytes is None:
        raise reader.error(f"pointer encoding {encoding:#x} has no known format")
    value = reader.uint(size_bytes)
    return value - (1 << 8 * size_bytes) if format_ > _FIRST_SIGNED and value >> 8 * size_bytes - 1 else value


def read_pointer(reader: Reader, encoding: int, section_vaddr: int, data_vaddr: int | None = None) -> int:
    """Return an address; raises `FormatError` for an encoding that means nothing here."""
    start = reader.pos
    relation = encoding & 0x70
    if encoding & INDIRECT or relation not in (ABSOLUTE, RELATIVE, RELATIVE_TO_DATA, ALIGNED):
        raise reader.error(f"pointer encoding {encoding:#x} is not of an address in this image")
    if relation == ALIGNED:
        reader.take(-(section_vaddr + start) % 8)
        return reader.u64()
    value = read_value(reader, encoding)
    if relation == RELATIVE:
        value += section_vaddr + start
    elif relation == RELATIVE_TO_DATA:
        if data_vaddr is None:
            raise reader.error(f"pointer encoding {encoding:#x} is relative to data that is not known", start)
        value += data_vaddr
    return value & _MASK


def skip_pointer(reader: Reader, encoding: int, section_vaddr: int) -> None:
    """Pass over a pointer, such as that to a personality routine, which may be relative to anything."""
    if encoding == OMITTED:
        return
    if encoding & 0x70 == ALIGNED:
        read_pointer(reader, encoding & ~INDIRECT, section_vaddr)
    else:
        read_value(reader, encoding)
