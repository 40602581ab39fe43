# cython: language_level=3, boundscheck=True, wraparound=False
"""Runs of ULEB128 values and of call-table entries, both directions.

A call table is a long run of `fixed-width address, ULEB128`, and `.debug_icf` is a handful of plain
ULEB128 columns; read value by value in Python, 100,000 records take a quarter of a second.

A reader here never raises for bad bytes. It returns what it reached, and for a value it refuses
`-1 - position` of that value: the caller reads that one value again through `icf.reader.Reader`,
which then says what is wrong with it. A ULEB128 is refused where `Reader.uleb` refuses it: when it
is cut off, longer than ten bytes, or wider than 64 bits. Padded encodings are well formed.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, put_uleb, uleb, word
    from cython.cimports.icf._types import Bytes, u64
else:
    from icf._bytes import MASK, put_uleb, uleb, word
    from icf._types import Bytes, u64


@cython.ccall
def uleb_run(buffer: Bytes, pos: cython.size_t, end: cython.size_t, out: u64[::1]) -> cython.longlong:
    """Fill `out` from the ULEB128 values at `pos`; return the position after them, or -1 - position of a bad one."""
    count: cython.size_t = out.shape[0]
    row: cython.size_t = 0
    bad: cython.bint = False
    value: u64
    stop: cython.size_t
    with cython.nogil:
        while row < count:
            value, stop = uleb(buffer, pos, end)
            if stop > end:
                bad = True
                break
            out[row] = value
            pos = stop
            row += 1
    return -1 - pos if bad else pos


@cython.ccall
def call_run(
    buffer: Bytes,
    pos: cython.size_t,
    end: cython.size_t,
    width: cython.size_t,
    base: u64,
    site: u64[::1],
    callee: u64[::1],
    caller: u64[::1],
    row: cython.size_t,
) -> cython.longlong:
    """Read direct-call entries up to `end` into the columns from `row` on.

    An entry whose call site is 0 sets the caller of those that follow. ULEB128 values are relative
    to `base`; 0 stays 0 in a caller record (no DIE stands there). Returns the row after the last,
    or -1 - position of an entry that is cut off, malformed, or beyond 64 bits.
    """
    current: u64 = 0
    bad: cython.bint = False
    address: u64
    value: u64
    stop: cython.size_t
    with cython.nogil:
        while pos < end:
            if end - pos <= width:
                bad = True
                break
            address = word(buffer, pos, width)
            value, stop = uleb(buffer, pos + width, end)
            if stop > end or value > MASK - base:
                bad = True
                break
            if address == 0:
                current = base + value if value != 0 else 0
            else:
                site[row] = address
                callee[row] = base + value
                caller[row] = current
                row += 1
            pos = stop
    return -1 - pos if bad else row


@cython.ccall
def slot_run(
    buffer: Bytes,
    pos: cython.size_t,
    end: cython.size_t,
    width: cython.size_t,
    site: u64[::1],
    slot: u64[::1],
    row: cython.size_t,
) -> cython.longlong:
    """Read virtual-call entries up to `end` into the columns from `row` on; return as `call_run` does."""
    bad: cython.bint = False
    value: u64
    stop: cython.size_t
    with cython.nogil:
        while pos < end:
            if end - pos <= width:
                bad = True
                break
            value, stop = uleb(buffer, pos + width, end)
            if stop > end:
                bad = True
                break
            site[row] = word(buffer, pos, width)
            slot[row] = value
            row += 1
            pos = stop
    return -1 - pos if bad else row


@cython.ccall
def uleb_write(values: cython.const[u64][::1], out: cython.uchar[::1]) -> cython.longlong:
    """Write `values` to `out`, ten bytes a value at most; return the number of bytes written."""
    count: cython.size_t = values.shape[0]
    row: cython.size_t = 0
    pos: cython.size_t = 0
    with cython.nogil:
        while row < count:
            pos = put_uleb(out, pos, values[row])
            row += 1
    return pos


@cython.ccall
def entry_write(
    sites: cython.const[u64][::1], values: cython.const[u64][::1], width: cython.size_t, out: cython.uchar[::1]
) -> cython.longlong:
    """Write entries of an address of `width` bytes and a ULEB128 each; return the number of bytes written."""
    count: cython.size_t = sites.shape[0]
    row: cython.size_t = 0
    pos: cython.size_t = 0
    address: u64
    byte_idx: cython.size_t
    with cython.nogil:
        while row < count:
            address = sites[row]
            byte_idx = 0
            while byte_idx < width:
                out[pos] = address & 0xFF
                address >>= 8
                pos += 1
                byte_idx += 1
            pos = put_uleb(out, pos, values[row])
            row += 1
    return pos
