"""Numbers in bytes, for all kernels: little-endian words, LEB128, entries of tables.

A reader of LEB128 numbers returns the value and the position after it. What it cannot read has a position beyond
`end`: `end` + 1 if it is cut short, `end` + 2 if it is too long.
"""

from __future__ import annotations

from icf._types import Bytes, i64, u64

try:
    import cython
except ImportError:
    from icf import _nocython as cython

MASK = 0xFFFFFFFFFFFFFFFF  # numbers of 64 bits wrap


@cython.inline
@cython.exceptval(check=False)
def as_u64(value: i64) -> u64:
    """Return the 64 bits of a signed number."""
    return value & MASK


@cython.inline
@cython.exceptval(check=False)
def word(buffer: Bytes, pos: cython.size_t, size_bytes: cython.size_t) -> u64:
    """Return the little-endian unsigned integer at `pos`; the caller has checked that its bytes are there."""
    value: u64 = 0
    byte: u64
    i: cython.size_t = 0
    while i < size_bytes:
        byte = buffer[pos + i]
        value |= byte << 8 * i
        i += 1
    return value


@cython.inline
@cython.exceptval(check=False)
def uleb(buffer: Bytes, pos: cython.size_t, end: cython.size_t) -> tuple[u64, cython.size_t]:
    """Return the ULEB128 at `pos`, which fits 64 bits, and the position after it."""
    value: u64 = 0
    byte: u64
    shift: cython.uint = 0
    while pos < end:
        byte = buffer[pos]
        pos += 1
        if shift == 63 and byte > 1:
            return 0, end + 2
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    return 0, end + 1


@cython.inline
@cython.exceptval(check=False)
def leb(buffer: Bytes, pos: cython.size_t, end: cython.size_t) -> tuple[u64, cython.size_t]:
    """Return the low 64 bits of the LEB128 at `pos`, which takes ten bytes or fewer, and the position after it."""
    value: u64 = 0
    byte: u64
    shift: cython.uint = 0
    while pos < end:
        byte = buffer[pos]
        pos += 1
        value |= (byte & (1 if shift == 63 else 0x7F)) << shift
        if byte < 0x80:
            return value, pos
        if shift == 63:
            return 0, end + 2
        shift += 7
    return 0, end + 1


@cython.inline
@cython.exceptval(check=False)
def sign_extended(value: u64, last: u64, size_bytes: cython.size_t) -> u64:
    """Return the 64 bits of an SLEB128 that `leb` read from `size_bytes` bytes, of which `last` is the last."""
    bits: u64 = 1
    half: u64 = 1
    if last & 0x40 and size_bytes < 10:
        bits <<= 7 * size_bytes
        half <<= 63
        value |= half - bits + half  # 2 ** 64 - bits, by numbers that fit 64 bits
    return value


@cython.inline
@cython.exceptval(check=False)
def entry_at(table: Bytes, base: u64, index: u64, size_bytes: u64) -> cython.size_t:
    """Return where entry `index` lies in a table that begins at `base`; the end of all bytes if it is outside."""
    limit: cython.size_t = len(table)
    if base > limit or index >> 40 != 0 or (index + 1) * size_bytes > limit - base:
        return limit
    return base + index * size_bytes


@cython.inline
def put_uleb(out: cython.uchar[::1], pos: cython.size_t, value: u64) -> cython.size_t:
    """Write a ULEB128; return the position after it."""
    while value >= 0x80:
        out[pos] = (value & 0x7F) | 0x80
        pos += 1
        value >>= 7
    out[pos] = value
    return pos + 1
