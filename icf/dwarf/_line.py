# cython: language_level=3, boundscheck=True, wraparound=False
"""Line programs to columns: the row machine of .debug_line, DWARF 2 to 5, for many units at once.

A program is bytes for a machine whose registers are address, file, line, column and flags, and which emits rows.
Rows up to a DW_LNE_end_sequence are a *sequence*: one stretch of code (a function, if each has its section).

A row takes at least a byte of program, so columns with as many slots as the programs have bytes are always enough,
and no count is needed beforehand. Rows after the last DW_LNE_end_sequence belong to no sequence and are removed.

Half of all bytes are special opcodes: a table for each header (`special`) holds what each adds to address and line,
so that such a row costs two look-ups, two additions and the stores. Known opcodes mean what DWARF defines, whatever
length the header declares for them; unknown ones are skipped by it. All arithmetic wraps at 64 bits (line: 32).

A bad program leaves its error in its line of `units`, and no rows.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, leb, sign_extended, uleb, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf import line_columns as col
    from cython.cimports.icf.dwarf import line_opcodes as op
    from cython.cimports.icf.dwarf._line_errors import fail
else:
    from icf._bytes import MASK, leb, sign_extended, uleb, word
    from icf._types import Bytes, u64
    from icf.dwarf import line_columns as col
    from icf.dwarf import line_opcodes as op
    from icf.dwarf._line_errors import fail


@cython.ccall
def run_programs(
    line: Bytes,
    state: u64[::1],
    special: u64[:, ::1],
    units: u64[:, ::1],
    sequences: u64[:, ::1],
    defined: u64[:, ::1],
    address: u64[::1],
    file_idx: cython.uint[::1],
    line_number: cython.uint[::1],
    column: cython.uint[::1],
    flags: cython.uchar[::1],
) -> u64:
    """Run the program of each of `units` (as `scan_headers` filled them) that has no error; return the number of rows.

    state      u64[S_COUNT], scratch
    special    u64[2, 256], scratch
    units      receives the columns from FIRST_ROW on, and errors
    sequences  u64[Q_COUNT, m]; start and end of an UNORDERED one are its lowest and its highest address
    defined    u64[2, m]: where the operands of DW_LNE_define_file begin and end
    """
    count: cython.size_t = units.shape[0]
    unit: cython.size_t = 0
    key: u64 = MASK
    row: u64
    sequence: u64
    define: u64
    with cython.nogil:
        state[col.S_ROWS] = 0
        state[col.S_SEQUENCES] = 0
        state[col.S_DEFINED] = 0
        while unit < count:
            row = state[col.S_ROWS]
            sequence = state[col.S_SEQUENCES]
            define = state[col.S_DEFINED]
            units[unit, col.TAKEN_BACK] = 0
            if units[unit, col.ERROR] == 0:
                if units[unit, col.LINE_RANGE] != 0 and key_of(units, unit) != key:
                    key = key_of(units, unit)
                    tabulate(special, units, unit)
                run(
                    line, state, special, units, unit, sequences, defined, address, file_idx, line_number, column, flags
                )
                if units[unit, col.ERROR] != 0:
                    state[col.S_ROWS] = row
                    state[col.S_SEQUENCES] = sequence
                    state[col.S_DEFINED] = define
            units[unit, col.FIRST_ROW] = row
            units[unit, col.END_OF_ROWS] = state[col.S_ROWS]
            units[unit, col.FIRST_SEQUENCE] = sequence
            units[unit, col.END_OF_SEQUENCES] = state[col.S_SEQUENCES]
            units[unit, col.FIRST_DEFINED] = define
            units[unit, col.END_OF_DEFINED] = state[col.S_DEFINED]
            unit += 1
    return state[col.S_ROWS]


@cython.cfunc
@cython.nogil
def key_of(units: u64[:, ::1], unit: cython.size_t) -> u64:
    """Return all that `tabulate` depends on, as one number."""
    key: u64 = units[unit, col.MIN_INST_LENGTH]
    key = key << 8 | units[unit, col.MAX_OPS]
    key = key << 8 | units[unit, col.LINE_BASE]
    key = key << 8 | units[unit, col.LINE_RANGE]
    key = key << 8 | units[unit, col.OPCODE_BASE]
    return key


@cython.cfunc
@cython.nogil
def tabulate(special: u64[:, ::1], units: u64[:, ::1], unit: cython.size_t) -> cython.int:
    """Store what each special opcode adds to the address (VLIW: to the operations) and, modulo 2**32, to the line."""
    line_base: u64 = units[unit, col.LINE_BASE]
    line_range: u64 = units[unit, col.LINE_RANGE]
    opcode_base: u64 = units[unit, col.OPCODE_BASE]
    opcode: cython.size_t = opcode_base
    adjusted: u64
    delta: u64
    while opcode < 256:
        adjusted = opcode - opcode_base
        special[0, opcode] = adjusted // line_range
        if units[unit, col.MAX_OPS] == 1:
            special[0, opcode] = adjusted // line_range * units[unit, col.MIN_INST_LENGTH]
        delta = line_base + adjusted % line_range + op.LINE_MASK + 1
        if line_base >= 128:  # it is signed
            delta -= 256
        special[1, opcode] = delta & op.LINE_MASK
        opcode += 1
    return 0


@cython.cfunc
@cython.nogil
def run(
    line: Bytes,
    state: u64[::1],
    special: u64[:, ::1],
    units: u64[:, ::1],
    unit: cython.size_t,
    sequences: u64[:, ::1],
    defined: u64[:, ::1],
    address: u64[::1],
    file_idx: cython.uint[::1],
    line_number: cython.uint[::1],
    column: cython.uint[::1],
    flags: cython.uchar[::1],
) -> cython.int:
    """Run one program: rows to the columns, sequences to `sequences`."""
    end: cython.size_t = units[unit, col.END]
    pos: cython.size_t = units[unit, col.PROGRAM]
    min_inst_length: u64 = units[unit, col.MIN_INST_LENGTH]
    max_ops: u64 = units[unit, col.MAX_OPS]
    line_range: u64 = units[unit, col.LINE_RANGE]
    opcode_base: cython.size_t = units[unit, col.OPCODE_BASE]
    is_stmt: cython.uchar = 1 if units[unit, col.DEFAULT_IS_STMT] != 0 else 0
    row: cython.size_t = state[col.S_ROWS]
    first_row: cython.size_t = row
    row_capacity: cython.size_t = address.shape[0]
    reg_address: u64 = 0
    reg_op: u64 = 0
    reg_file: cython.uint = 1
    reg_line: cython.uint = 1
    reg_column: cython.uint = 0
    reg_flags: cython.uchar = is_stmt
    base: u64 = 0  # the last DW_LNE_set_address, and the highest address of its size
    highest: u64 = MASK
    marks: u64 = 0
    last_address: u64 = 0
    begin: cython.size_t = pos
    start: cython.size_t
    opcode: cython.size_t
    value: u64
    next_pos: cython.size_t
    while pos < end:
        start = pos
        opcode = line[pos]
        pos += 1
        if opcode >= opcode_base and opcode != op.EXTENDED:
            if line_range == 0:
                return fail(units, unit, col.ERR_LINE_RANGE, start, opcode)
            if max_ops == 1:
                reg_address = (reg_address + special[0, opcode]) & MASK
            else:
                value = reg_op + special[0, opcode]
                reg_address = (reg_address + min_inst_length * (value // max_ops)) & MASK
                reg_op = value % max_ops
            reg_line = (reg_line + special[1, opcode]) & op.LINE_MASK
        elif opcode == op.COPY:
            pass
        elif opcode == op.ADVANCE_LINE:
            next_pos = pos
            value, pos = leb(line, pos, end)
            if pos > end or pos - next_pos == 10 and not is_sign(line[pos - 1]):
                return fail_leb(units, unit, start, pos, end)
            value = sign_extended(value, line[pos - 1], pos - next_pos)
            reg_line = (reg_line + (value & op.LINE_MASK)) & op.LINE_MASK
            continue
        elif opcode <= op.SET_COLUMN or opcode == op.SET_ISA:  # a ULEB128 follows
            value, pos = uleb(line, pos, end)
            if pos > end:
                return fail_leb(units, unit, start, pos, end)
            if opcode == op.SET_COLUMN or opcode == op.SET_FILE:
                if value > op.LINE_MASK:
                    return fail(units, unit, col.ERR_OPERAND, start, value)
                if opcode == op.SET_COLUMN:
                    reg_column = value
                else:
                    reg_file = value
                continue
            if opcode == op.ADVANCE_PC:
                if max_ops == 1:
                    reg_address = (reg_address + value * min_inst_length) & MASK
                else:
                    value = (value + reg_op) & MASK
                    reg_address = (reg_address + min_inst_length * (value // max_ops)) & MASK
                    reg_op = value % max_ops
                continue
            if opcode == op.SET_ISA:
                continue
            # an extended opcode, of `value` bytes
            if value > end - pos:
                return fail(units, unit, col.ERR_EXTENDED, start, value)
            if value == 0:
                continue
            next_pos = pos + value
            opcode = line[pos]
            pos += 1
            if opcode == op.SET_ADDRESS:
                value -= 1
                if value != 8 and value != 4 and value != 2 and value != 1:
                    return fail(units, unit, col.ERR_ADDRESS_SIZE, start, value)
                base = reg_address = word(line, pos, value)
                highest = MASK >> (64 - 8 * value)
                reg_op = 0
            elif opcode == op.DEFINE_FILE:
                if state[col.S_DEFINED] >= defined.shape[1]:
                    return fail(units, unit, col.ERR_ROWS, start, 0)
                defined[0, state[col.S_DEFINED]] = pos
                defined[1, state[col.S_DEFINED]] = next_pos
                state[col.S_DEFINED] += 1
            pos = next_pos  # discriminators and vendor opcodes are stepped over
            if opcode != op.END_SEQUENCE:
                continue
            reg_flags |= col.END_SEQUENCE
        elif opcode == op.NEGATE_STMT:
            reg_flags ^= col.IS_STMT
            continue
        elif opcode == op.SET_BASIC_BLOCK:
            reg_flags |= col.BASIC_BLOCK
            continue
        elif opcode == op.CONST_ADD_PC:
            if line_range == 0:
                return fail(units, unit, col.ERR_LINE_RANGE, start, opcode)
            if max_ops == 1:
                reg_address = (reg_address + special[0, 255]) & MASK
            else:
                value = reg_op + special[0, 255]
                reg_address = (reg_address + min_inst_length * (value // max_ops)) & MASK
                reg_op = value % max_ops
            continue
        elif opcode == op.FIXED_ADVANCE_PC:
            if 2 > end - pos:
                return fail(units, unit, col.ERR_OPCODE, pos, 0)
            reg_address = (reg_address + word(line, pos, 2)) & MASK
            reg_op = 0
            pos += 2
            continue
        elif opcode == op.SET_PROLOGUE_END:
            reg_flags |= col.PROLOGUE_END
            continue
        elif opcode == op.SET_EPILOGUE_BEGIN:
            reg_flags |= col.EPILOGUE_BEGIN
            continue
        else:  # unknown: the header says how many LEB128 to skip
            pos = skip_lebs(line, pos, end, line[units[unit, col.OPCODE_LENGTHS] + opcode - 1])
            if pos > end:
                return fail(units, unit, col.ERR_OPCODE, end, 0)
            continue

        if row >= row_capacity:
            return fail(units, unit, col.ERR_ROWS, start, 0)
        if row == first_row:
            marks = 0
            if base <= 1 or base >= highest - 1:
                marks = col.DEAD
        elif reg_address < last_address:
            marks |= col.UNORDERED
        last_address = reg_address
        address[row] = reg_address
        file_idx[row] = reg_file
        line_number[row] = reg_line
        column[row] = reg_column
        flags[row] = reg_flags
        row += 1
        if reg_flags & col.END_SEQUENCE == 0:
            reg_flags &= col.IS_STMT
            continue

        if state[col.S_SEQUENCES] >= sequences.shape[1]:
            return fail(units, unit, col.ERR_ROWS, start, 0)
        store_sequence(sequences, state, address, first_row, row, marks, begin)
        begin = pos
        first_row = row
        reg_address = 0
        reg_op = 0
        reg_file = 1
        reg_line = 1
        reg_column = 0
        reg_flags = is_stmt
        base = 0
        highest = MASK
    units[unit, col.TAKEN_BACK] = row - first_row
    state[col.S_ROWS] = first_row
    return 0


@cython.cfunc
@cython.nogil
def store_sequence(
    sequences: u64[:, ::1],
    state: u64[::1],
    address: u64[::1],
    row: cython.size_t,
    end: cython.size_t,
    marks: u64,
    begin: cython.size_t,
) -> cython.int:
    """Store a sequence of the rows up to `end`, whose opcodes begin at `begin`."""
    sequence: cython.size_t = state[col.S_SEQUENCES]
    low: u64 = address[row]
    high: u64 = address[end - 1]
    sequences[col.Q_FIRST_ROW, sequence] = row - state[col.S_ROWS]
    sequences[col.Q_END_OF_ROWS, sequence] = end - state[col.S_ROWS]
    if marks & col.UNORDERED:
        while row < end:
            if address[row] < low:
                low = address[row]
            if address[row] > high:
                high = address[row]
            row += 1
    sequences[col.Q_START, sequence] = low
    sequences[col.Q_END, sequence] = high
    sequences[col.Q_MARKS, sequence] = marks
    sequences[col.Q_OFFSET, sequence] = begin
    state[col.S_SEQUENCES] += 1
    return 0


@cython.cfunc
@cython.nogil
def is_sign(byte: cython.uchar) -> cython.bint:
    """Return whether the last of ten bytes of an SLEB128 holds its top bit, and nothing beyond 64 bits."""
    return byte <= 1 or byte == 0x7F


@cython.cfunc
@cython.nogil
def skip_lebs(line: Bytes, pos: cython.size_t, end: cython.size_t, count: u64) -> cython.size_t:
    """Return the position after `count` LEB128, `end` + 1 if they are cut short."""
    while count > 0:
        if pos >= end:
            return end + 1
        if line[pos] < 0x80:
            count -= 1
        pos += 1
    return pos


@cython.cfunc
@cython.nogil
def fail_leb(
    units: u64[:, ::1], unit: cython.size_t, start: cython.size_t, pos: cython.size_t, end: cython.size_t
) -> cython.int:
    """Store why the operand of the opcode at `start` cannot be read; `pos` shows the reason."""
    if pos == end + 1:
        return fail(units, unit, col.ERR_OPCODE, end, 0)
    return fail(units, unit, col.ERR_LEB, start, 0)
