# cython: language_level=3, boundscheck=True, wraparound=False
"""Unit headers of .debug_info (DWARF 5, 7.5.1; versions 2 to 5)."""

try:
    import cython
except ImportError:
    from icf import _nocython as cython


def unit_headers(info, units):
    """Fill `units` (u64[n, 27]) from the unit headers in `info`; gives how many there are.

    Columns: 0 offset, 1 end, 2 offset of the unit's DIE, 3 version, 4 address size, 5 offset size,
    6 abbreviation offset, 7 unit type, 8 error, 9 where, 20 id of a skeleton or split unit, 23 size of `info`, 25 kind
    of the strings in .debug_str. A length that does not fit ends the walk with an error in the last unit. Zero bytes
    between units are padding. As many rows as fit means that there may be further units.
    """
    pos = 0
    count = 0
    size = info.shape[0]
    with cython.nogil:
        while pos < size and count < units.shape[0]:
            start = pos
            while pos < size and size - pos < 4 and info[pos] == 0:
                pos += 1
            if pos == size:
                break
            if size - pos >= 4 and word(info, pos, 4) == 0:
                pos += 4
                continue
            pos = start
            offset_size = 4
            err = 0
            length = 0
            end = size
            version = 0
            if size - pos < 11:
                err = 1
            else:
                length = word(info, pos, 4)
                pos += 4
                if length >> 4 == 0xFFFFFFF:
                    if length & 15 != 15:
                        err = 2
                    elif size - pos < 8:
                        err = 1
                    else:
                        offset_size = 8
                        length = word(info, pos, 8)
                        pos += 8
            if err == 0 and length > size - pos:
                err = 1
            if err == 0:
                end = pos + length
                if length < 7:
                    err = 1
            unit_type = 1
            address_size = 8
            abbrev = 0
            dwo_id = 0
            if err == 0:
                version = word(info, pos, 2)
                pos += 2
                if version == 5:
                    unit_type = info[pos]
                    address_size = info[pos + 1]
                    pos += 2
                    if end - pos < offset_size:
                        err = 1
                    else:
                        abbrev = word(info, pos, offset_size)
                        pos += offset_size
                        extra = 0
                        if unit_type == 2 or unit_type == 6:
                            extra = 8 + offset_size
                        elif unit_type == 4 or unit_type == 5:
                            extra = 8
                        elif unit_type == 0 or unit_type > 6:
                            err = 4
                        if end - pos < extra:
                            err = 1
                        elif extra == 8:
                            dwo_id = word(info, pos, 8)
                        pos += extra
                elif version >= 2 and version <= 4:
                    if end - pos < offset_size + 1:
                        err = 1
                    else:
                        abbrev = word(info, pos, offset_size)
                        address_size = info[pos + offset_size]
                        pos += offset_size + 1
                else:
                    err = 3
            if err == 0 and address_size != 8 and address_size != 4:
                err = 5
            units[count, 0] = start
            units[count, 1] = end
            units[count, 2] = pos
            units[count, 3] = version
            units[count, 4] = address_size
            units[count, 5] = offset_size
            units[count, 6] = abbrev
            units[count, 7] = unit_type
            units[count, 8] = err
            units[count, 9] = start
            units[count, 20] = dwo_id
            units[count, 23] = size
            units[count, 25] = as_u64(2) << 60
            count += 1
            pos = end
    return count


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
