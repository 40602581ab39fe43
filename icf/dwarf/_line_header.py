# cython: language_level=3, boundscheck=True, wraparound=False
"""Headers and file tables of .debug_line, DWARF 2 to 5, for many units at once.

    unit_length  version  [address_size  seg_selector_size]v5  header_length
    minimum_instruction_length  [maximum_operations_per_instruction]v4  default_is_stmt
    line_base  line_range  opcode_base  standard_opcode_lengths[opcode_base - 1]
    directories  files                       <- header_length ends here
    program                                  <- unit_length ends here

Real headers deviate, so the reader demands only what it needs: the lengths nest, and no field crosses the end of the
header. It accepts padding after the tables, tables without a terminator, a `line_range` of 0 that no opcode uses, an
empty program, `maximum_operations_per_instruction` 0 (1 is meant), entries without fields.

Up to DWARF 4 a table is read as if it declared its fields as DWARF 5 does. An entry takes at least a byte, so `entries`
with as many slots as the units have bytes is always enough, and no count from the file is trusted for it.

A bad unit leaves its error in its line of `units`, and nothing else.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, uleb, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf import line_columns as col
    from cython.cimports.icf.dwarf._line_errors import fail
else:
    from icf._bytes import MASK, uleb, word
    from icf._types import Bytes, u64
    from icf.dwarf import line_columns as col
    from icf.dwarf._line_errors import fail


@cython.ccall
def scan_headers(
    line: Bytes,
    offsets: cython.const[u64][::1],
    limits: cython.const[u64][::1],
    state: u64[::1],
    formats: u64[::1],
    units: u64[:, ::1],
    entries: u64[:, ::1],
) -> u64:
    """Read the header of the unit at each of `offsets`; return the number of `entries` written.

    limits   the usable sizes of .debug_line_str and .debug_str (up to their last NUL)
    state    u64[S_COUNT], scratch
    formats  u64[512], scratch: content and form of each field of an entry
    units    receives the columns up to ERROR_VALUE
    entries  u64[E_COUNT, m]
    """
    count: cython.size_t = offsets.shape[0]
    unit: cython.size_t = 0
    first: u64
    with cython.nogil:
        state[col.S_ENTRIES] = 0
        while unit < count:
            first = state[col.S_ENTRIES]
            units[unit, col.ERROR] = 0
            units[unit, col.ERROR_AT] = offsets[unit]
            units[unit, col.ERROR_VALUE] = 0
            units[unit, col.FIRST_DIRECTORY] = first
            units[unit, col.FIRST_FILE] = first
            header(line, offsets[unit], limits, state, formats, units, unit, entries)
            if units[unit, col.ERROR] != 0:
                state[col.S_ENTRIES] = first
                units[unit, col.FIRST_FILE] = first
            units[unit, col.END_OF_FILES] = state[col.S_ENTRIES]
            unit += 1
    return state[col.S_ENTRIES]


@cython.cfunc
@cython.nogil
def header(
    line: Bytes,
    start: u64,
    limits: cython.const[u64][::1],
    state: u64[::1],
    formats: u64[::1],
    units: u64[:, ::1],
    unit: cython.size_t,
    entries: u64[:, ::1],
) -> cython.int:
    """Read the header at `start`, then its tables."""
    end: cython.size_t = line.shape[0]
    pos: cython.size_t = start
    offset_size: cython.size_t = 4
    field: cython.size_t = col.DEFAULT_IS_STMT
    length: u64
    version: u64
    if pos >= end:
        return fail(units, unit, col.ERR_OFFSET, start, 0)
    if 4 > end - pos:
        return fail(units, unit, col.ERR_CUT, pos, 0)
    length = word(line, pos, 4)
    pos += 4
    if length >> 4 == 0xFFFFFFF:
        if length & 15 != 15:
            return fail(units, unit, col.ERR_RESERVED_LENGTH, start, length)
        if 8 > end - pos:
            return fail(units, unit, col.ERR_CUT, pos, 0)
        length = word(line, pos, 8)
        offset_size = 8
        pos += 8
    if length > end - pos:
        return fail(units, unit, col.ERR_LENGTH, start, length)
    end = pos + length
    units[unit, col.END] = end
    if 2 > end - pos:
        return fail(units, unit, col.ERR_CUT, pos, 0)
    version = word(line, pos, 2)
    if version < 2 or version > 5:
        return fail(units, unit, col.ERR_VERSION, pos, version)
    units[unit, col.VERSION] = version
    pos += 2
    if version == 5:
        if 2 > end - pos:
            return fail(units, unit, col.ERR_CUT, pos, 0)
        pos += 2  # address_size and seg_selector_size: each DW_LNE_set_address carries its own size
    if offset_size > end - pos:
        return fail(units, unit, col.ERR_CUT, pos, 0)
    length = word(line, pos, offset_size)
    pos += offset_size
    if length > end - pos:
        return fail(units, unit, col.ERR_HEADER_LENGTH, pos - offset_size, length)
    end = pos + length
    units[unit, col.PROGRAM] = end
    if 6 > end - pos and (version >= 4 or 5 > end - pos):
        return fail(units, unit, col.ERR_FIELD, pos, 0)
    units[unit, col.MIN_INST_LENGTH] = line[pos]
    units[unit, col.MAX_OPS] = 1
    pos += 1
    if version >= 4:
        if line[pos] != 0:
            units[unit, col.MAX_OPS] = line[pos]
        pos += 1
    while field <= col.OPCODE_BASE:
        units[unit, field] = line[pos]
        pos += 1
        field += 1
    units[unit, col.OPCODE_LENGTHS] = pos
    length = units[unit, col.OPCODE_BASE]
    if length > 1:  # there is no length for opcode 0
        if length - 1 > end - pos:
            return fail(units, unit, col.ERR_FIELD, pos, 0)
        pos += length - 1
    return tables(line, pos, end, version, offset_size, limits, state, formats, units, unit, entries)


@cython.cfunc
@cython.nogil
def tables(
    line: Bytes,
    pos: cython.size_t,
    end: cython.size_t,
    version: u64,
    offset_size: cython.size_t,
    limits: cython.const[u64][::1],
    state: u64[::1],
    formats: u64[::1],
    units: u64[:, ::1],
    unit: cython.size_t,
    entries: u64[:, ::1],
) -> cython.int:
    """Read the directory table, then the file table."""
    table: cython.size_t = 0
    format_count: cython.size_t
    field: cython.size_t
    count: u64
    start: cython.size_t
    while table < 2:
        if table == 1:
            units[unit, col.FIRST_FILE] = state[col.S_ENTRIES]
        if version >= 5:
            if pos >= end:
                return fail(units, unit, col.ERR_FIELD, pos, 0)
            format_count = line[pos]
            pos += 1
            field = 0
            count = 0
            while field <= 2 * format_count:  # the number of entries follows the last form
                start = pos
                count, pos = uleb(line, pos, end)
                if pos > end:
                    return fail_leb(units, unit, start, pos, end)
                if field < 2 * format_count:
                    formats[field] = count
                field += 1
            if format_count == 0:  # entries without fields hold nothing, however many
                count = 0
        else:
            format_count = old_formats(formats, table)
            count = MASK
        read_entries(
            line, pos, end, version, offset_size, format_count, count, limits, state, formats, units, unit, entries
        )
        if units[unit, col.ERROR] != 0:
            return 0
        pos = state[col.S_POS]
        table += 1
    return 0


@cython.cfunc
@cython.nogil
def old_formats(formats: u64[::1], table: cython.size_t) -> cython.size_t:
    """Describe a DWARF 2 to 4 directory, or file, in the words of DWARF 5; return the number of fields."""
    formats[0] = 1  # DW_LNCT_path
    formats[1] = 0x08  # DW_FORM_string
    formats[2] = 2  # DW_LNCT_directory_index
    formats[4] = 3  # DW_LNCT_timestamp
    formats[6] = 4  # DW_LNCT_size
    formats[3] = formats[5] = formats[7] = 0x0F  # DW_FORM_udata
    if table == 0:
        return 1
    return 4


@cython.cfunc
@cython.nogil
def read_entries(
    line: Bytes,
    pos: cython.size_t,
    end: cython.size_t,
    version: u64,
    offset_size: cython.size_t,
    format_count: cython.size_t,
    count: u64,
    limits: cython.const[u64][::1],
    state: u64[::1],
    formats: u64[::1],
    units: u64[:, ::1],
    unit: cython.size_t,
    entries: u64[:, ::1],
) -> cython.int:
    """Read `count` entries of a table (before DWARF 5: up to an empty path); S_POS is where they end."""
    entry: u64 = state[col.S_ENTRIES]
    capacity: u64 = entries.shape[1]
    field: cython.size_t
    content: u64
    form: u64
    start: cython.size_t
    section: u64
    size_bytes: cython.size_t
    skip: u64
    value: u64
    while count > 0:
        if version < 5:
            if pos >= end:
                break
            if line[pos] == 0:
                pos += 1
                break
        if entry >= capacity:
            return fail(units, unit, col.ERR_ENTRIES, pos, 0)
        entries[col.E_SECTION, entry] = col.NO_PATH
        entries[col.E_PATH, entry] = 0
        entries[col.E_DIRECTORY, entry] = 0
        field = 0
        while field < format_count:
            content = formats[2 * field]
            form = formats[2 * field + 1]
            start = pos
            section = section_of(form)
            skip = 0
            value = pos
            size_bytes = size_of(form, offset_size)
            if section == col.IN_LINE:
                while pos < end and line[pos] != 0:
                    pos += 1
                pos += 1  # its NUL
                if pos > end:
                    return fail(units, unit, col.ERR_FIELD, start, 0)
            elif size_bytes != 0:
                if size_bytes > end - pos:
                    return fail(units, unit, col.ERR_FIELD, pos, 0)
                value = word(line, pos, size_bytes)
                pos += size_bytes
            # DW_FORM_sdata, udata, strx, GNU_str_index, block
            elif form == 0x0D or form == 0x0F or form == 0x1A or form == 0x1F02 or form == 0x09:
                value, pos = low_bits(line, pos, end)
                if pos > end:
                    return fail(units, unit, col.ERR_FIELD, end, 0)
            else:
                return fail(units, unit, col.ERR_FORM, pos, form)
            if form == 0x09 or form == 0x0A or form == 0x03 or form == 0x04:  # block, block1, block2, block4
                skip = value
            elif form == 0x1E:  # data16
                skip = 8
            if skip > end - pos:
                return fail(units, unit, col.ERR_FIELD, start, 0)
            pos += skip
            if content == 1:  # DW_LNCT_path
                if section == col.NO_PATH:
                    return fail(units, unit, col.ERR_PATH_FORM, start, form)
                if section >= col.IN_LINE_STR and value >= limits[section - col.IN_LINE_STR]:
                    return fail(units, unit, col.ERR_PATH, start, value)
                entries[col.E_SECTION, entry] = section
                entries[col.E_PATH, entry] = value
            elif content == 2:  # DW_LNCT_directory_index
                entries[col.E_DIRECTORY, entry] = value
            field += 1
        entry += 1
        count -= 1
    state[col.S_ENTRIES] = entry
    state[col.S_POS] = pos
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
def section_of(form: u64) -> u64:
    """Return the section of a string of this form; NO_PATH if that is not known, or if it is not a string."""
    if form == 0x08:  # DW_FORM_string
        return col.IN_LINE
    if form == 0x1F:  # DW_FORM_line_strp
        return col.IN_LINE_STR
    return col.IN_STR if form == 0x0E else col.NO_PATH  # DW_FORM_strp


@cython.cfunc
@cython.inline
@cython.nogil
def size_of(form: u64, offset_size: cython.size_t) -> cython.size_t:
    """Return the size in bytes of a value, or of its length (data16: its first 8); 0 if the form does not fix it."""
    if form == 0x0B or form == 0x25 or form == 0x0C or form == 0x0A:  # data1, strx1, flag, block1
        return 1
    if form == 0x05 or form == 0x26 or form == 0x03:  # data2, strx2, block2
        return 2
    if form == 0x27:  # strx3
        return 3
    if form == 0x06 or form == 0x28 or form == 0x04:  # data4, strx4, block4
        return 4
    if form == 0x07 or form == 0x1E:  # data8; data16: an MD5
        return 8
    # line_strp, strp, sec_offset, strp_sup, GNU_strp_alt
    if form == 0x1F or form == 0x0E or form == 0x17 or form == 0x1D or form == 0x1F21:
        return offset_size
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def low_bits(line: Bytes, pos: cython.size_t, end: cython.size_t) -> tuple[u64, cython.size_t]:
    """Return the low 64 bits of a LEB128 of any length and the position after it, `end` + 1 if it is cut short."""
    value: u64 = 0
    byte: u64
    shift: u64 = 0
    while pos < end:
        byte = line[pos]
        pos += 1
        if shift < 64:
            value = (value | (byte & 0x7F) << shift) & MASK
        shift += 7
        if byte < 0x80:
            return value, pos
    return 0, end + 1


@cython.cfunc
@cython.nogil
def fail_leb(
    units: u64[:, ::1], unit: cython.size_t, start: cython.size_t, pos: cython.size_t, end: cython.size_t
) -> cython.int:
    """Store why a ULEB128 that begins at `start` cannot be read; `pos` shows the reason."""
    if pos == end + 1:
        return fail(units, unit, col.ERR_FIELD, end, 0)
    return fail(units, unit, col.ERR_ULEB, start, 0)
