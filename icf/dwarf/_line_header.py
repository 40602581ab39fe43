# cython: language_level=3, boundscheck=True, wraparound=False
"""Headers and file tables of .debug_line, DWARF 2 to 5, for many units at once.

    unit_length  version  [address_size  seg_selector_size]v5  header_length
    minimum_instruction_length  [maximum_operations_per_instruction]v4  default_is_stmt
    line_base  line_range  opcode_base  standard_opcode_lengths[opcode_base - 1]
    directories  files                       <- header_length ends here
    program                                  <- unit_length ends here

Real headers are odd, so only what is needed is demanded: the lengths nest, and no field crosses the end of the
header. Padding after the tables, tables without a terminator, a `line_range` of 0 that no opcode uses, an empty
program, `maximum_operations_per_instruction` 0 (1 is meant), entries without fields are all accepted.

Up to DWARF 4 a table is read as if it declared its fields as DWARF 5 does. An entry takes at least a byte, so `entries`
with as many slots as the units have bytes is always enough, and no count from the file is trusted for it.

A bad unit leaves its error in its line of `units`, and nothing else.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

MASK64 = 0xFFFFFFFFFFFFFFFF

# Index: the error code. {0} is the value that goes with it.
PROBLEMS = (
    "",
    "file tables hold more entries than bytes",
    "unit ends in the middle of its header",
    "unit_length {0:#x} is reserved",
    "unit_length {0} runs past the section",
    "version is {0}, 2 to 5 are known",
    "header_length {0} runs past the unit",
    "header_length ends the header in the middle of a field",
    "ULEB128 does not fit 64 bits",
    "form {0:#x} is not one of a file table",
    "path has form {0:#x}, which needs more than the line sections",
    "path at {0:#x} is outside of its string section",
    "offset is outside of the section",
)

# Slots of `state`, what the parts of the kernel tell each other.
ERROR, PLACE, VALUE, POS, ENTRIES = range(5)


def scan_headers(line, offsets, limits, state, formats, units, entries):
    """Read the header of the unit at each of `offsets`; the number of `entries` written.

    `limits` holds the usable sizes of .debug_line_str and .debug_str (up to their last NUL). Line i of `units` is
    0 version, 1 end of the unit, 2 program, 3 standard_opcode_lengths, 4 minimum_instruction_length,
    5 maximum_operations_per_instruction, 6 default_is_stmt, 7 line_base (as a byte), 8 line_range, 9 opcode_base,
    10 first directory in `entries`, 11 first file, 12 end of the files, 13 error code, 14 its offset, 15 its value.
    """
    count = offsets.shape[0]
    with cython.nogil:
        state[ENTRIES] = 0
        unit = 0
        while unit < count:
            first = state[ENTRIES]
            state[ERROR] = 0
            state[PLACE] = offsets[unit]
            state[VALUE] = 0
            units[unit, 10] = first
            units[unit, 11] = first
            _header(line, offsets[unit], limits, state, formats, units, unit, entries)
            if state[ERROR] != 0:
                state[ENTRIES] = first
                units[unit, 11] = first
            units[unit, 12] = state[ENTRIES]
            units[unit, 13] = state[ERROR]
            units[unit, 14] = state[PLACE]
            units[unit, 15] = state[VALUE]
            unit += 1
    return state[ENTRIES]


def _header(line, start, limits, state, formats, units, unit, entries):
    """The header at `start`, then its tables; whatever is wrong goes to `state`."""
    end = line.shape[0]
    pos = start
    if pos >= end:
        return _fail(state, 12, start, 0)
    if 4 > end - pos:
        return _fail(state, 2, pos, 0)
    length = _uint(line, pos, 4)
    offset_size = 4
    pos += 4
    if length >> 4 == 0xFFFFFFF:
        if length & 15 != 15:
            return _fail(state, 3, start, length)
        if 8 > end - pos:
            return _fail(state, 2, pos, 0)
        length = _uint(line, pos, 8)
        offset_size = 8
        pos += 8
    if length > end - pos:
        return _fail(state, 4, start, length)
    end = pos + length
    units[unit, 1] = end
    if 2 > end - pos:
        return _fail(state, 2, pos, 0)
    version = _uint(line, pos, 2)
    if version < 2 or version > 5:
        return _fail(state, 5, pos, version)
    units[unit, 0] = version
    pos += 2
    if version == 5:
        if 2 > end - pos:
            return _fail(state, 2, pos, 0)
        pos += 2  # address_size and seg_selector_size: each DW_LNE_set_address carries its own size
    if offset_size > end - pos:
        return _fail(state, 2, pos, 0)
    length = _uint(line, pos, offset_size)
    pos += offset_size
    if length > end - pos:
        return _fail(state, 6, pos - offset_size, length)
    end = pos + length
    units[unit, 2] = end
    if 6 > end - pos and (version >= 4 or 5 > end - pos):
        return _fail(state, 7, pos, 0)
    units[unit, 4] = line[pos]
    units[unit, 5] = 1
    pos += 1
    if version >= 4:
        if line[pos] != 0:
            units[unit, 5] = line[pos]
        pos += 1
    field = 6
    while field < 10:
        units[unit, field] = line[pos]
        pos += 1
        field += 1
    units[unit, 3] = pos
    length = units[unit, 9]
    if length > 1:  # opcode_base: there is no length for opcode 0
        if length - 1 > end - pos:
            return _fail(state, 7, pos, 0)
        pos += length - 1
    return _tables(line, pos, end, version, offset_size, limits, state, formats, units, unit, entries)


def _tables(line, pos, end, version, offset_size, limits, state, formats, units, unit, entries):
    """Directory table, then file table, to `entries`; units[unit, 11] is where the files start."""
    table = 0
    while table < 2:
        if table == 1:
            units[unit, 11] = state[ENTRIES]
        if version >= 5:
            if pos >= end:
                return _fail(state, 7, pos, 0)
            format_count = line[pos]
            pos += 1
            field = 0
            while field < 2 * format_count:
                formats[field] = _uleb(line, pos, end, state)
                if state[ERROR] != 0:
                    return 0
                pos = state[POS]
                field += 1
            count = _uleb(line, pos, end, state)
            if state[ERROR] != 0:
                return 0
            pos = state[POS]
            if format_count == 0:  # entries without fields say nothing, however many
                count = 0
        else:
            format_count = _old_formats(formats, table)
            count = MASK64
        _entries(line, pos, end, version, offset_size, format_count, count, limits, state, formats, entries)
        if state[ERROR] != 0:
            return 0
        pos = state[POS]
        table += 1
    return 0


def _old_formats(formats, table):
    """A DWARF 2 to 4 directory, or file, in the words of DWARF 5; the number of fields."""
    formats[0] = 1  # DW_LNCT_path
    formats[1] = 0x08  # DW_FORM_string
    formats[2] = 2  # DW_LNCT_directory_index
    formats[4] = 3  # DW_LNCT_timestamp
    formats[6] = 4  # DW_LNCT_size
    formats[3] = formats[5] = formats[7] = 0x0F  # DW_FORM_udata
    if table == 0:
        return 1
    return 4


def _entries(line, pos, end, version, offset_size, format_count, count, limits, state, formats, entries):
    """`count` entries of a table (before DWARF 5: up to an empty path) to `entries`; state[POS] is where they end.

    An entry is: section of the path (0 none, 1 .debug_line, 2 .debug_line_str, 3 .debug_str), its offset there,
    directory index.
    """
    entry = state[ENTRIES]
    capacity = entries.shape[1]
    while count > 0:
        if version < 5:
            if pos >= end:
                break
            if line[pos] == 0:
                pos += 1
                break
        if entry >= capacity:
            return _fail(state, 1, pos, 0)
        entries[0, entry] = 0
        entries[1, entry] = 0
        entries[2, entry] = 0
        field = 0
        while field < format_count:
            content = formats[2 * field]
            form = formats[2 * field + 1]
            start = pos
            source = 0
            skip = 0
            value = pos
            if form == 0x08:  # DW_FORM_string
                source = 1
                while True:
                    if pos >= end:
                        return _fail(state, 7, start, 0)
                    if line[pos] == 0:
                        break
                    pos += 1
                pos += 1
            # DW_FORM_sdata, udata, strx, GNU_str_index, block
            elif form == 0x0D or form == 0x0F or form == 0x1A or form == 0x1F02 or form == 0x09:
                value = _uleb_any(line, pos, end, state)
                if state[ERROR] != 0:
                    return 0
                pos = state[POS]
                if form == 0x09:
                    skip = value
            else:
                size_bytes = 0
                if form == 0x0B or form == 0x25 or form == 0x0C or form == 0x0A:  # data1, strx1, flag, block1
                    size_bytes = 1
                elif form == 0x05 or form == 0x26 or form == 0x03:  # data2, strx2, block2
                    size_bytes = 2
                elif form == 0x27:  # strx3
                    size_bytes = 3
                elif form == 0x06 or form == 0x28 or form == 0x04:  # data4, strx4, block4
                    size_bytes = 4
                elif form == 0x07:  # data8
                    size_bytes = 8
                elif form == 0x1E:  # data16: an MD5
                    size_bytes = 8
                    skip = 8
                # line_strp, strp, sec_offset, strp_sup, GNU_strp_alt
                elif form == 0x1F or form == 0x0E or form == 0x17 or form == 0x1D or form == 0x1F21:
                    size_bytes = offset_size
                else:
                    return _fail(state, 9, pos, form)
                if size_bytes > end - pos:
                    return _fail(state, 7, pos, 0)
                value = _uint(line, pos, size_bytes)
                pos += size_bytes
                if form == 0x0A or form == 0x03 or form == 0x04:
                    skip = value
                elif form == 0x1F:
                    source = 2
                elif form == 0x0E:
                    source = 3
            if skip > end - pos:
                return _fail(state, 7, start, 0)
            pos += skip
            if content == 1:
                if source == 0:
                    return _fail(state, 10, start, form)
                if source >= 2 and value >= limits[source - 2]:
                    return _fail(state, 11, start, value)
                entries[0, entry] = source
                entries[1, entry] = value
            elif content == 2:
                entries[2, entry] = value
            field += 1
        entry += 1
        count -= 1
    state[ENTRIES] = entry
    state[POS] = pos
    return 0


def _uleb_any(buf, pos, end, state):
    """As `_uleb`; of a number that does not fit 64 bits (a negative sdata), the low bits."""
    value = 0
    shift = 0
    while True:
        if pos >= end:
            _fail(state, 7, pos, 0)
            return 0
        byte = buf[pos]
        pos += 1
        if shift < 64:
            value = (value | (byte & 0x7F) << shift) & MASK64
        shift += 7
        if byte < 0x80:
            break
    state[POS] = pos
    return value


def _fail(state, code, place, value):
    state[ERROR] = code
    state[PLACE] = place
    state[VALUE] = value
    return 0


def _uint(buf, pos, size_bytes):
    """`size_bytes` (8 or fewer) bytes at `pos`, which the caller has checked."""
    value = 0
    shift = 0
    while size_bytes > 0:
        byte = buf[pos]
        value |= byte << shift
        shift += 8
        pos += 1
        size_bytes -= 1
    return value


def _uleb(buf, pos, end, state):
    """The ULEB128 at `pos`; state[POS] is where it ended."""
    value = 0
    shift = 0
    start = pos
    while True:
        if pos >= end:
            _fail(state, 7, pos, 0)
            return 0
        byte = buf[pos]
        pos += 1
        if shift == 63 and byte > 1:
            _fail(state, 8, start, 0)
            return 0
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    state[POS] = pos
    return value
