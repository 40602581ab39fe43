# cython: language_level=3, boundscheck=True, wraparound=False
"""Range lists of functions: .debug_ranges (DWARF 2 to 4) and .debug_rnglists (DWARF 5, 2.17.3).

A function is more than one range when the compiler moves its cold part elsewhere.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, entry_at, uleb, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf import columns as col
else:
    from icf._bytes import MASK, entry_at, uleb, word
    from icf._types import Bytes, u64
    from icf.dwarf import columns as col


@cython.ccall
def expand(
    rows: cython.const[u64][:, ::1],
    units: cython.const[u64][:, ::1],
    ranges: Bytes,
    rnglists: Bytes,
    addr: Bytes,
    out: u64[:, ::1],
) -> cython.Py_ssize_t:
    """Expand the range lists of `rows` into `out`.

    rows   u64[n, 4]: row to report, value of DW_AT_ranges, RANGES_AT or RANGES_INDEX, unit
    units  as the scan leaves them
    out    u64[m, 4]: row, low, high, position in the list. Empty ranges are left out.
    Returns the number of ranges stored; a list that is cut short or runs out of `out` ends there. Lists of
    different functions do not overlap, so all of them together have no more entries than their sections have bytes;
    hostile ones that do are read up to some such number.
    """
    count: cython.size_t = 0
    n: cython.size_t = rows.shape[0]
    limit: cython.size_t = out.shape[0]
    entries: cython.size_t = 4 * (ranges.shape[0] + rnglists.shape[0]) + 64
    addr_size: u64 = addr.shape[0]
    i: cython.size_t = 0
    unit: cython.size_t
    address_size: u64
    addr_base: u64
    base: u64
    pos: cython.size_t
    index: u64
    size: cython.size_t
    ones: u64
    kind: u64
    first: u64
    second: u64
    with cython.nogil:
        while i < n:
            unit = rows[i, 3]
            address_size = units[unit, col.ADDRESS_SIZE]
            addr_base = units[unit, col.ADDR_BASE]
            base = units[unit, col.LOW_PC]
            pos = rows[i, 1]
            index = 0
            if units[unit, col.VERSION] < 5:
                size = ranges.shape[0]
                ones = MASK >> (64 - 8 * address_size)
                while count < limit and entries > 0 and pos <= size and size - pos >= 2 * address_size:
                    entries -= 1
                    first = word(ranges, pos, address_size)
                    second = word(ranges, pos + address_size, address_size)
                    pos += 2 * address_size
                    if first == 0 and second == 0:
                        break
                    if first == ones:
                        base = second
                        continue
                    if first < second:
                        out[count, 0] = rows[i, 0]
                        out[count, 1] = (base + first) & MASK
                        out[count, 2] = (base + second) & MASK
                        out[count, 3] = index
                        count += 1
                        index += 1
            else:
                size = rnglists.shape[0]
                if rows[i, 2] == col.RANGES_INDEX:
                    pos = list_at(rnglists, units[unit, col.RNGLISTS_BASE], pos, units[unit, col.OFFSET_SIZE])
                while count < limit and entries > 0 and pos < size:
                    entries -= 1
                    kind = rnglists[pos]
                    pos += 1
                    if kind == 0 or kind > 7:
                        break
                    # -- operands
                    second = 0
                    if kind >= 5:  # an address in place
                        if size - pos < address_size:
                            break
                        first = word(rnglists, pos, address_size)
                        pos += address_size
                    else:
                        first, pos = uleb(rnglists, pos, size)
                    if kind == 6:
                        if pos > size or size - pos < address_size:
                            break
                        second = word(rnglists, pos, address_size)
                        pos += address_size
                    elif kind != 1 and kind != 5 and pos <= size:
                        second, pos = uleb(rnglists, pos, size)
                    if pos > size:
                        break
                    # -- what they mean
                    if kind <= 3:  # the first is an index into .debug_addr
                        first = entry_at(addr, addr_base, first, address_size)
                        if first >= addr_size:
                            break
                        first = word(addr, first, address_size)
                    elif kind == 4:
                        first = (first + base) & MASK
                        second = (second + base) & MASK
                    if kind == 1 or kind == 5:
                        base = first
                        continue
                    if kind == 2:
                        second = entry_at(addr, addr_base, second, address_size)
                        if second >= addr_size:
                            break
                        second = word(addr, second, address_size)
                    elif kind == 3 or kind == 7:
                        second = (second + first) & MASK
                    if first < second:
                        out[count, 0] = rows[i, 0]
                        out[count, 1] = first
                        out[count, 2] = second
                        out[count, 3] = index
                        count += 1
                        index += 1
            i += 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
def list_at(rnglists: Bytes, base: u64, index: u64, offset_size: u64) -> cython.size_t:
    """Return where a list begins that is given by an index; the end of the section if it is outside."""
    size: cython.size_t = rnglists.shape[0]
    at: cython.size_t = entry_at(rnglists, base, index, offset_size)
    if at >= size:
        return size
    offset: u64 = word(rnglists, at, offset_size)
    return base + offset if offset < size - base else size
