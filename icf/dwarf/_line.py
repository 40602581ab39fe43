# cython: language_level=3, boundscheck=True, wraparound=False
"""Line programs to columns: the row machine of .debug_line, DWARF 2 to 5, for many units at once.

A program is bytes for a machine whose registers are address, file, line, column and flags, and which emits a row now
and then. Rows up to a DW_LNE_end_sequence are a *sequence*: one stretch of code (a function, if each has its section).

A row takes at least a byte of program, so columns with as many slots as the programs have bytes are always enough,
and no count is needed beforehand. Rows after the last DW_LNE_end_sequence belong to nothing and are taken back.

Half of all bytes are special opcodes: what each does to address and line is tabulated once per header (`special`),
so that such a row costs two look-ups, two additions and the stores. Known opcodes mean what DWARF says whatever
length the header declares for them; unknown ones are skipped by it. All arithmetic wraps at 64 bits (line: 32).

A bad program leaves its error in its line of `units`, and no rows.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

MASK64 = 0xFFFFFFFFFFFFFFFF
MASK32 = 0xFFFFFFFF

# Index: the error code. {0} is the value that goes with it.
PROBLEMS = (
    "",
    "program has more rows than bytes",
    "program ends in the middle of an opcode",
    "LEB128 does not fit 64 bits",
    "operand {0:#x} does not fit 32 bits",
    "extended opcode of {0} bytes runs past the program",
    "DW_LNE_set_address has {0} bytes, not 1, 2, 4 or 8",
    "line_range is 0 and opcode {0} divides by it",
)

# Slots of `state`, what the parts of the kernel tell each other.
ERROR, PLACE, VALUE, ROWS, SEQUENCES, DEFINED = range(6)


def run_programs(
    line, state, special, units, sequences, defined, address, file_idx, line_number, column, flags
):  # fmt: skip
    """Run the program of each of `units` (as `scan_headers` filled them) that has no error; the number of rows.

    Adds to line i of `units`: 13 error code + 100, 14, 15; 16 first row, 17 end of the rows, 18 first sequence, 19 end
    of the sequences, 20 rows taken back, 21 and 22 its part of `defined`, the offsets of DW_LNE_define_file operands.

    A sequence is start, end, row_start, row_end (of the unit's rows), marks, place in `line`. Marks: 1 dead, its code
    is not in the image; 2 unordered, its addresses do not ascend, and start and end are the lowest and the highest.
    Flags of a row: 1 is_stmt, 2 end_sequence, 4 basic_block, 8 prologue_end, 16 epilogue_begin.
    """
    count = units.shape[0]
    with cython.nogil:
        state[ROWS] = 0
        state[SEQUENCES] = 0
        state[DEFINED] = 0
        key = MASK64
        unit = 0
        while unit < count:
            row = state[ROWS]
            sequence = state[SEQUENCES]
            define = state[DEFINED]
            units[unit, 20] = 0
            if units[unit, 13] == 0:
                if units[unit, 8] != 0 and _key(units, unit) != key:
                    key = _key(units, unit)
                    _tabulate(special, units, unit)
                state[ERROR] = 0
                _program(
                    line, state, special, units, unit, sequences, defined, address, file_idx, line_number, column, flags
                )
                if state[ERROR] != 0:
                    state[ROWS] = row
                    state[SEQUENCES] = sequence
                    state[DEFINED] = define
                    units[unit, 13] = state[ERROR] + 100
                    units[unit, 14] = state[PLACE]
                    units[unit, 15] = state[VALUE]
            units[unit, 16] = row
            units[unit, 17] = state[ROWS]
            units[unit, 18] = sequence
            units[unit, 19] = state[SEQUENCES]
            units[unit, 21] = define
            units[unit, 22] = state[DEFINED]
            unit += 1
    return state[ROWS]


def _fail(state, code, place, value):
    state[ERROR] = code
    state[PLACE] = place
    state[VALUE] = value
    return 0


def _key(units, unit):
    """All that `_tabulate` depends on, as one number."""
    key = units[unit, 4]
    key = key << 8 | units[unit, 5]
    key = key << 8 | units[unit, 7]
    key = key << 8 | units[unit, 8]
    key = key << 8 | units[unit, 9]
    return key


def _tabulate(special, units, unit):
    """What each special opcode adds to the address (VLIW: to the operations) and, modulo 2**32, to the line."""
    line_base = units[unit, 7]
    line_range = units[unit, 8]
    opcode_base = units[unit, 9]
    opcode = opcode_base
    while opcode < 256:
        adjusted = opcode - opcode_base
        special[0, opcode] = adjusted // line_range
        if units[unit, 5] == 1:
            special[0, opcode] = adjusted // line_range * units[unit, 4]
        delta = MASK32 + 1 + line_base + adjusted % line_range
        if line_base >= 128:  # it is signed
            delta -= 256
        special[1, opcode] = delta & MASK32
        opcode += 1
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


def _program(
    line, state, special, units, unit, sequences, defined, address, file_idx, line_number, column, flags
):  # fmt: skip
    """Run one program: rows to the columns, sequences to `sequences`; whatever is wrong goes to `state`."""
    end = units[unit, 1]
    pos = units[unit, 2]
    lengths = units[unit, 3]
    min_inst_length = units[unit, 4]
    max_ops = units[unit, 5]
    line_range = units[unit, 8]
    opcode_base = units[unit, 9]
    row = state[ROWS]
    first_row = row
    row_capacity = address.shape[0]
    sequence = state[SEQUENCES]
    sequence_capacity = sequences.shape[1]
    is_stmt = 0
    if units[unit, 6] != 0:
        is_stmt = 1
    reg_address = 0
    reg_op = 0
    reg_file = 1
    reg_line = 1
    reg_column = 0
    reg_flags = is_stmt
    base = 0  # the last DW_LNE_set_address, and the highest address of its size
    highest = MASK64
    dead = 0
    marks = 0
    begin = pos
    last_address = reg_address
    while pos < end:
        start = pos
        opcode = line[pos]
        pos += 1
        if opcode >= opcode_base and opcode != 0:
            if line_range == 0:
                return _fail(state, 7, start, opcode)
            if max_ops == 1:
                reg_address = (reg_address + special[0, opcode]) & MASK64
            else:
                value = reg_op + special[0, opcode]
                reg_address = (reg_address + min_inst_length * (value // max_ops)) & MASK64
                reg_op = value % max_ops
            reg_line = (reg_line + special[1, opcode]) & MASK32
        elif opcode == 1:  # DW_LNS_copy
            pass
        elif opcode == 0 or opcode <= 5 or opcode == 12:  # one LEB128 follows
            value = 0
            shift = 0
            while True:
                if pos >= end:
                    return _fail(state, 2, pos, 0)
                byte = line[pos]
                pos += 1
                if shift == 63 and byte > 1 and (opcode != 3 or byte != 0x7F):
                    return _fail(state, 3, start, 0)
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            if opcode == 3:  # DW_LNS_advance_line, signed
                if byte & 0x40 and shift < 64:
                    value |= MASK64 << shift
                reg_line = (reg_line + (value & MASK32)) & MASK32
                continue
            if opcode == 5 or opcode == 4:
                if value > MASK32:
                    return _fail(state, 4, start, value)
                if opcode == 5:  # DW_LNS_set_column
                    reg_column = value
                else:  # DW_LNS_set_file
                    reg_file = value
                continue
            if opcode == 2:  # DW_LNS_advance_pc
                if max_ops == 1:
                    reg_address = (reg_address + value * min_inst_length) & MASK64
                else:
                    value = (value + reg_op) & MASK64
                    reg_address = (reg_address + min_inst_length * (value // max_ops)) & MASK64
                    reg_op = value % max_ops
                continue
            if opcode == 12:  # DW_LNS_set_isa
                continue
            if value > end - pos:
                return _fail(state, 5, start, value)
            if value == 0:
                continue
            next_pos = pos + value
            opcode = line[pos]
            pos += 1
            if opcode != 1:
                if opcode == 2:  # DW_LNE_set_address
                    value -= 1
                    if value != 8 and value != 4 and value != 2 and value != 1:
                        return _fail(state, 6, start, value)
                    base = reg_address = _uint(line, pos, value)
                    highest = MASK64 >> (64 - 8 * value)
                    reg_op = 0
                elif opcode == 3:  # DW_LNE_define_file
                    if state[DEFINED] >= defined.shape[1]:
                        return _fail(state, 1, start, 0)
                    defined[0, state[DEFINED]] = pos
                    defined[1, state[DEFINED]] = next_pos
                    state[DEFINED] += 1
                pos = next_pos  # discriminators and vendor opcodes are stepped over
                continue
            pos = next_pos
            reg_flags |= 2  # DW_LNE_end_sequence
        elif opcode == 6:  # DW_LNS_negate_stmt
            reg_flags ^= 1
            continue
        elif opcode == 7:  # DW_LNS_set_basic_block
            reg_flags |= 4
            continue
        elif opcode == 8:  # DW_LNS_const_add_pc
            if line_range == 0:
                return _fail(state, 7, start, opcode)
            if max_ops == 1:
                reg_address = (reg_address + special[0, 255]) & MASK64
            else:
                value = reg_op + special[0, 255]
                reg_address = (reg_address + min_inst_length * (value // max_ops)) & MASK64
                reg_op = value % max_ops
            continue
        elif opcode == 9:  # DW_LNS_fixed_advance_pc
            if 2 > end - pos:
                return _fail(state, 2, pos, 0)
            reg_address = (reg_address + _uint(line, pos, 2)) & MASK64
            reg_op = 0
            pos += 2
            continue
        elif opcode == 10:  # DW_LNS_set_prologue_end
            reg_flags |= 8
            continue
        elif opcode == 11:  # DW_LNS_set_epilogue_begin
            reg_flags |= 16
            continue
        else:  # unknown: the header says how many LEB128 to skip
            skip = line[lengths + opcode - 1]
            while skip > 0:
                if pos >= end:
                    return _fail(state, 2, pos, 0)
                if line[pos] < 0x80:
                    skip -= 1
                pos += 1
            continue

        if row >= row_capacity:
            return _fail(state, 1, start, 0)
        if row == first_row:
            dead = 0
            if base <= 1 or base >= highest - 1:
                dead = 1
        elif reg_address < last_address:
            marks = 2
        last_address = reg_address
        address[row] = reg_address
        file_idx[row] = reg_file
        line_number[row] = reg_line
        column[row] = reg_column
        flags[row] = reg_flags
        row += 1
        if reg_flags & 2 == 0:
            reg_flags &= 1
            continue

        if sequence >= sequence_capacity:
            return _fail(state, 1, start, 0)
        low = address[first_row]
        high = reg_address
        if marks != 0:
            scan_row = first_row
            while scan_row < row:
                if address[scan_row] < low:
                    low = address[scan_row]
                if address[scan_row] > high:
                    high = address[scan_row]
                scan_row += 1
        sequences[0, sequence] = low
        sequences[1, sequence] = high
        sequences[2, sequence] = first_row - state[ROWS]
        sequences[3, sequence] = row - state[ROWS]
        sequences[4, sequence] = marks | dead
        sequences[5, sequence] = begin
        sequence += 1
        begin = pos
        first_row = row
        reg_address = 0
        reg_op = 0
        reg_file = 1
        reg_line = 1
        reg_column = 0
        reg_flags = is_stmt
        base = 0
        highest = MASK64
        marks = 0
    units[unit, 20] = row - first_row
    state[ROWS] = first_row
    state[SEQUENCES] = sequence
    return 0
