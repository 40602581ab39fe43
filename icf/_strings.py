# cython: language_level=3, boundscheck=True, wraparound=False
"""Hashes of strings given by reference: names are compared in bulk without being decoded."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.string_kinds import IN_INFO, IN_LINE_STR, IN_STR, STRING_KIND
else:
    from icf._bytes import MASK
    from icf._types import Bytes, u64
    from icf.string_kinds import IN_INFO, IN_LINE_STR, IN_STR, STRING_KIND


@cython.ccall
def hash_references(
    info: Bytes,
    str_: Bytes,
    line_str: Bytes,
    references: cython.const[u64][::1],
    of_kin: cython.bint,
    out: u64[::1],
) -> cython.Py_ssize_t:
    """Store the hash of each referenced string in `out`, 0 for no string; return how many there are.

    A reference is kind << STRING_KIND | offset, see `icf.string_kinds`. With `of_kin`, all names of one kin
    (icf.aliases.kin)
    get one hash: it leaves out what follows a dot, and treats all digits alike that distinguish constructors.
    """
    n: cython.size_t = references.shape[0]
    i: cython.size_t = 0
    kind: u64
    start: cython.size_t
    with cython.nogil:
        while i < n:
            if i > 0 and references[i] == references[i - 1]:
                out[i] = out[i - 1]
                i += 1
                continue
            kind = references[i] >> STRING_KIND
            start = references[i] - (kind << STRING_KIND)
            if kind == IN_STR:
                out[i] = hash_of(str_, start, of_kin)
            elif kind == IN_INFO:
                out[i] = hash_of(info, start, of_kin)
            elif kind == IN_LINE_STR:
                out[i] = hash_of(line_str, start, of_kin)
            else:
                out[i] = 0
            i += 1
    return n


@cython.ccall
def text_bytes(table: Bytes, offsets: cython.const[u64][::1], limit: u64) -> u64:
    """Return how many bytes the strings at `offsets` have together, or a number above `limit` once they have more.

    The last one may end with the table; there is none outside of it.
    """
    n: cython.size_t = offsets.shape[0]
    size: cython.size_t = len(table)
    i: cython.size_t = 0
    pos: cython.size_t
    total: u64 = 0
    with cython.nogil:
        while i < n and total <= limit:
            pos = offsets[i]
            while pos < size and table[pos] != 0:
                pos += 1
            total += pos - offsets[i]
            i += 1
    return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hash_of(text: Bytes, start: cython.size_t, of_kin: cython.bint) -> u64:
    """Return the FNV-1a (64 bits) of the string at `start`, which ends with a NUL or with its section."""
    size: cython.size_t = len(text)
    value: u64 = 0xCBF29CE484222325
    prime: u64 = 0x100000001B3
    pos: cython.size_t = start
    byte: cython.uchar
    above: cython.uchar = 0  # the byte before
    above_that: cython.uchar = 0
    while pos < size and text[pos] != 0:
        byte = text[pos]
        if of_kin:
            if byte == ord(".") and pos > start:
                break
            if byte in b"12345" and (above in b"CD" or above == ord("I") and above_that == ord("C")):
                byte = 0x3F
            above_that = above
            above = text[pos]
        value = ((value ^ byte) * prime) & MASK
        pos += 1
    return value
