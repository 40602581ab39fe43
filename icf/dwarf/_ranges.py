# cython: language_level=3, boundscheck=True, wraparound=False
"""Range lists of functions: .debug_ranges (DWARF 2 to 4) and .debug_rnglists (DWARF 5, 2.17.3).

A function is more than one range when the compiler moves its cold part elsewhere.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython


ALL_ONES = 0xFFFFFFFFFFFFFFFF


def expand(rows, units, ranges, rnglists, addr, out):
    """Expand the range lists of `rows` into `out`.

    rows   u64[n, 4]: row to report, value of DW_AT_ranges, 2 = offset or 4 = index, unit
    units  as the scan leaves them
    out    u64[m, 4]: row, low, high, position in the list. Empty ranges are left out.
    Returns the number of ranges stored; a list that is cut short or runs out of `out` ends there. Lists of
    different functions do not overlap, so all of them together have no more entries than their sections have bytes;
    hostile ones that do are read up to some such number.
    """
    n = rows.shape[0]
    count = 0
    limit = out.shape[0]
    entries = 4 * (ranges.shape[0] + rnglists.shape[0]) + 64
    with cython.nogil:
        i = 0
        while i < n:
            unit = rows[i, 3]
            version = units[unit, 3]
            address_size = units[unit, 4]
            offset_size = units[unit, 5]
            addr_base = units[unit, 14]
            base = units[unit, 16]
            pos = rows[i, 1]
            index = 0
            if version < 5:
                size = ranges.shape[0]
                ones = ALL_ONES >> (64 - 8 * address_size)
                while count < limit and entries > 0 and pos <= size and size - pos >= 2 * address_size:
                    entries -= 1
                    low = word(ranges, pos, address_size)
                    high = word(ranges, pos + address_size, address_size)
                    pos += 2 * address_size
                    if low == 0 and high == 0:
                        break
                    if low == ones:
                        base = high
                        continue
                    if low < high:
                        out[count, 0] = rows[i, 0]
                        out[count, 1] = (base + low) & ALL_ONES
                        out[count, 2] = (base + high) & ALL_ONES
                        out[count, 3] = index
                        count += 1
                        index += 1
            else:
                size = rnglists.shape[0]
                if rows[i, 2] == 4:
                    list_base = units[unit, 15]
                    pos = entry_at(rnglists, list_base, pos, offset_size)
                    if pos < size:
                        second = word(rnglists, pos, offset_size)
                        pos = list_base + second if second < size - list_base else size
                while count < limit and entries > 0 and pos < size:
                    entries -= 1
                    kind = rnglists[pos]
                    pos += 1
                    operands = 0
                    first = 0
                    second = 0
                    if kind == 0 or kind > 7:
                        break
                    if kind >= 5:  # an address in place
                        if size - pos < address_size:
                            break
                        first = word(rnglists, pos, address_size)
                        pos += address_size
                        if kind == 5:
                            base = first
                            continue
                        if kind == 6:
                            if size - pos < address_size:
                                break
                            second = word(rnglists, pos, address_size)
                            pos += address_size
                        else:
                            operands = 2
                    else:
                        operands = 1 if kind == 1 else 3
                    bad = 0
                    if operands & 1:
                        shift = 0
                        while True:
                            if pos >= size or shift > 56:
                                bad = 1
                                break
                            b = rnglists[pos]
                            pos += 1
                            first |= (b & 0x7F) << shift
                            shift += 7
                            if b < 0x80:
                                break
                    if operands & 2 and bad == 0:
                        shift = 0
                        while True:
                            if pos >= size or shift > 56:
                                bad = 1
                                break
                            b = rnglists[pos]
                            pos += 1
                            second |= (b & 0x7F) << shift
                            shift += 7
                            if b < 0x80:
                                break
                    if bad != 0:
                        break
                    if kind <= 3:  # the first operand is an index into .debug_addr
                        first = entry_at(addr, addr_base, first, address_size)
                        if first >= addr.shape[0]:
                            break
                        first = word(addr, first, address_size)
                        if kind == 1:
                            base = first
                            continue
                        if kind == 2:
                            second = entry_at(addr, addr_base, second, address_size)
                            if second >= addr.shape[0]:
                                break
                            second = word(addr, second, address_size)
                        else:
                            second = (second + first) & ALL_ONES
                    elif kind == 4:
                        first = (first + base) & ALL_ONES
                        second = (second + base) & ALL_ONES
                    elif kind == 7:
                        second = (second + first) & ALL_ONES
                    if first < second:
                        out[count, 0] = rows[i, 0]
                        out[count, 1] = first
                        out[count, 2] = second
                        out[count, 3] = index
                        count += 1
                        index += 1
            i += 1
    return count


def entry_at(table, base, index, size):
    """Where entry `index` of `size` bytes lies in a table that begins at `base`; the table's end if outside."""
    limit = table.shape[0]
    if base > limit or index >> 40 != 0 or (index + 1) * size > limit - base:
        return limit
    return base + index * size


def word(buf, pos, size):
    """The little-endian unsigned integer of `size` bytes at `pos`, which the caller has checked."""
    value = 0
    i = 0
    while i < size:
        value |= as_u64(buf[pos + i]) << (8 * i)
        i += 1
    return value


def as_u64(value):
    return value
