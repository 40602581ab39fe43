# cython: language_level=3, boundscheck=True, wraparound=False
"""Unit headers of .debug_info (DWARF 5, 7.5.1; versions 2 to 5)."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf import columns as col
    from cython.cimports.icf.string_kinds import IN_STR, STRING_KIND
else:
    from icf._bytes import word
    from icf._types import Bytes, u64
    from icf.dwarf import columns as col
    from icf.string_kinds import IN_STR, STRING_KIND

LONGEST_HEADER = cython.declare(cython.size_t, 48)  # that of a type unit has 40 bytes


@cython.ccall
def unit_headers(
    info: Bytes, first: cython.size_t, size: cython.size_t, units: u64[:, ::1], state: u64[::1]
) -> cython.int:
    """Fill `units` from the unit headers in `info`, the bytes of a section of `size` bytes from `first` on.

    state      u64[2]: where in the section to go on, and how many rows of `units` are filled; both are updated. Where
               that is less than `size`, `info` ends before the next header does, or `units` is full

    TABLE is the offset of the abbreviations, ERROR_AT the start of the unit, DWO_ID the id of a skeleton or split unit,
    REF_LIMIT the size of the section. A length that does not fit ends the walk with an error in the last unit. Zero
    bytes between units are padding.
    """
    room: cython.size_t = info.shape[0]
    pos: cython.size_t = state[0] - first  # all positions in here count from `first`
    count: cython.size_t = state[1]
    start: cython.size_t
    end: cython.size_t
    offset_size: u64
    err: u64
    length: u64
    version: u64
    unit_type: u64
    address_size: u64
    abbrev: u64
    extra: u64
    dwo_id: u64
    string_kind: u64 = IN_STR
    size -= first
    with cython.nogil:
        while pos < size and count < units.shape[0]:
            if room < size and (pos > room or room - pos < LONGEST_HEADER):
                break
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
                err = col.ERR_CUT
            else:
                length = word(info, pos, 4)
                pos += 4
                if length >> 4 == 0xFFFFFFF:
                    if length & 15 != 15:
                        err = col.ERR_RESERVED_LENGTH
                    elif size - pos < 8:
                        err = col.ERR_CUT
                    else:
                        offset_size = 8
                        length = word(info, pos, 8)
                        pos += 8
            if err == 0 and length > size - pos:
                err = col.ERR_CUT
            if err == 0:
                end = pos + length
                if length < 7:
                    err = col.ERR_CUT
            unit_type = col.UT_COMPILE
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
                        err = col.ERR_CUT
                    else:
                        abbrev = word(info, pos, offset_size)
                        pos += offset_size
                        extra = 0
                        if unit_type == col.UT_TYPE or unit_type == col.UT_SPLIT_TYPE:
                            extra = 8 + offset_size
                        elif unit_type == col.UT_SKELETON or unit_type == col.UT_SPLIT_COMPILE:
                            extra = 8
                        elif unit_type == 0 or unit_type > col.UT_SPLIT_TYPE:
                            err = col.ERR_UNIT_TYPE
                        if end - pos < extra:
                            err = col.ERR_CUT
                        elif extra == 8:
                            dwo_id = word(info, pos, 8)
                        pos += extra
                elif version >= 2 and version <= 4:
                    if end - pos < offset_size + 1:
                        err = col.ERR_CUT
                    else:
                        abbrev = word(info, pos, offset_size)
                        address_size = info[pos + offset_size]
                        pos += offset_size + 1
                else:
                    err = col.ERR_VERSION
            if err == 0 and address_size != 8 and address_size != 4:
                err = col.ERR_ADDRESS_SIZE
            units[count, col.OFFSET] = start + first
            units[count, col.END] = end + first
            units[count, col.DIE] = pos + first
            units[count, col.VERSION] = version
            units[count, col.ADDRESS_SIZE] = address_size
            units[count, col.OFFSET_SIZE] = offset_size
            units[count, col.TABLE] = abbrev
            units[count, col.UNIT_TYPE] = unit_type
            units[count, col.ERROR] = err
            units[count, col.ERROR_AT] = start + first
            units[count, col.DWO_ID] = dwo_id
            units[count, col.REF_LIMIT] = size + first
            units[count, col.STR_KIND] = string_kind << STRING_KIND
            count += 1
            pos = end
    state[0] = pos + first
    state[1] = count
    return 0
