# cython: language_level=3, boundscheck=True, wraparound=False
"""Runs call frame programs: instructions of a CIE and an FDE to rows (DWARF 5, 6.4.2 and 6.4.3).

`icf.dwarf.cfi.rules` has the columns. A program is a loop over instructions; one that moves on completes a row.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, leb, sign_extended, uleb, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf.cfi import rules as r
else:
    from icf._bytes import MASK, leb, sign_extended, uleb, word
    from icf._types import Bytes, u64
    from icf.dwarf.cfi import rules as r


@cython.ccall
def run(
    section: Bytes,
    program: cython.const[u64][::1],
    target: u64,
    is_for_target: cython.bint,
    row: u64[::1],
    initial: u64[::1],
    saved: u64[:, ::1],
    out: u64[:, ::1],
) -> tuple[cython.size_t, u64, u64]:
    """Write the rows of a program to `out`: all, or the one that covers `target`.

    program  u64[PROGRAM_WIDTH]       row, initial  u64[WIDTH], zeros: room for the current row and that of the CIE
    saved    u64[SAVED_LIMIT, WIDTH]  room for remembered rows
    Returns the number of rows, what is wrong (`FINE`, ...), and the offset in the section where it is. Rows end where
    something is wrong.
    """
    count: cython.size_t = 0
    depth: cython.size_t = 0
    limit: cython.size_t = out.shape[0]
    size: cython.size_t = section.shape[0]
    column: cython.size_t
    phase: u64 = 0
    problem: u64 = r.FINE
    location: u64 = program[r.PC_BEGIN]
    next_location: u64
    pos: cython.size_t = program[r.CIE_START]
    end: cython.size_t = program[r.CIE_END]
    at: cython.size_t = pos
    start: cython.size_t
    opcode: u64
    register: u64
    value: u64
    is_move: cython.bint
    with cython.nogil:
        row[r.CFA_REGISTER] = r.CFA_UNSET
        row[r.FLAGS] = program[r.INITIAL_FLAGS]
        row[r.RETURN_ADDRESS] = program[r.RA_REGISTER]
        if end > size or program[r.FDE_END] > size:
            problem = r.CUT_SHORT
        while problem == r.FINE:
            at = pos
            if pos >= end:
                if phase == 1:
                    break
                phase = 1
                column = 0
                while column < r.WIDTH:
                    initial[column] = row[column]
                    column += 1
                pos = program[r.FDE_START]
                end = program[r.FDE_END]
                continue
            opcode = section[pos]
            pos += 1
            register = 0
            value = 0
            is_move = False
            next_location = location
            if opcode >= 0x40:
                register = opcode & 0x3F
                value = register
                opcode &= 0xC0
                if opcode == 0x40:  # DW_CFA_advance_loc
                    is_move = True
                    next_location = (location + value * program[r.CODE_ALIGN]) & MASK
                elif opcode == 0x80:  # DW_CFA_offset
                    value, pos = uleb(section, pos, end)
            elif opcode == 1:  # DW_CFA_set_loc
                start = pos
                if end - pos < program[r.POINTER_SIZE]:
                    problem = r.CUT_SHORT
                    break
                value = word(section, pos, program[r.POINTER_SIZE])
                pos += program[r.POINTER_SIZE]
                if program[r.POINTER_IS_RELATIVE]:
                    if program[r.POINTER_SIZE] == 4 and value >> 31:
                        value |= (MASK >> 32) << 32
                    value = (value + program[r.SECTION_VADDR] + start) & MASK
                is_move = True
                next_location = value
            elif opcode == 2 or opcode == 3 or opcode == 4 or opcode == 0x1D:  # advance_loc1, 2, 4, MIPS_advance_loc8
                start = 8 if opcode == 0x1D else 1 << (opcode - 2)
                if end - pos < start:
                    problem = r.CUT_SHORT
                    break
                value = word(section, pos, start)
                pos += start
                is_move = True
                next_location = (location + value * program[r.CODE_ALIGN]) & MASK
                if program[r.CODE_ALIGN] != 0 and value > MASK // program[r.CODE_ALIGN]:
                    problem = r.MOVES_BACK
                    break
            elif opcode != 0 and opcode != 0x0A and opcode != 0x0B and opcode != 0x2C and opcode != 0x2D:
                # -- the first operand: a register
                if (
                    5 <= opcode <= 9
                    or opcode == 0x0C
                    or opcode == 0x0D
                    or opcode == 0x10
                    or opcode == 0x11
                    or opcode == 0x12
                    or 0x14 <= opcode <= 0x16
                    or opcode == 0x2F
                ):
                    register, pos = uleb(section, pos, end)
                # -- the second: a number, a signed one, or a block
                if pos > end:
                    pass
                elif (
                    opcode == 5
                    or opcode == 9
                    or opcode == 0x0C
                    or opcode == 0x0E
                    or opcode == 0x14
                    or opcode == 0x2E
                    or opcode == 0x2F
                ):
                    value, pos = uleb(section, pos, end)
                elif 0x11 <= opcode <= 0x13 or opcode == 0x15:
                    start = pos
                    value, pos = leb(section, pos, end)
                    if pos <= end:
                        value = sign_extended(value, section[pos - 1], pos - start)
                elif opcode == 0x0F or opcode == 0x10 or opcode == 0x16:
                    start = pos
                    value, pos = uleb(section, pos, end)
                    if pos <= end:
                        if value > end - pos:
                            pos = end + 1
                        else:
                            pos += value
                    value = start
            if pos > end:
                problem = r.LEB_TOO_LONG if pos == end + 2 else r.CUT_SHORT
                break
            # -- what they do
            if is_move:
                if phase == 0:
                    problem = r.MOVES_IN_CIE
                    break
                if next_location < location:
                    problem = r.MOVES_BACK
                    break
                if next_location == location:
                    continue
                if is_for_target and target < next_location:
                    break
                if not is_for_target and location < program[r.PC_END]:
                    if count == limit:
                        problem = r.OUT_OF_ROWS
                        break
                    row[r.START] = location
                    row[r.END] = next_location if next_location < program[r.PC_END] else program[r.PC_END]
                    column = 0
                    while column < r.WIDTH:
                        out[count, column] = row[column]
                        column += 1
                    count += 1
                location = next_location
                continue
            if opcode == 0:
                continue
            if opcode == 0x80 or opcode == 5 or opcode == 0x11:  # offset, offset_extended, offset_extended_sf
                value = (value * program[r.DATA_ALIGN]) & MASK
                opcode = r.OFFSET
            elif opcode == 0x2F:  # GNU_negative_offset_extended
                value = (0 - value * program[r.DATA_ALIGN]) & MASK
                opcode = r.OFFSET
            elif opcode == 0x14 or opcode == 0x15:
                value = (value * program[r.DATA_ALIGN]) & MASK
                opcode = r.VAL_OFFSET
            elif opcode == 7:
                opcode = r.UNDEFINED
            elif opcode == 8:
                opcode = r.SAME_VALUE
            elif opcode == 9:
                opcode = r.REGISTER
                if value >= r.REGISTER_COUNT and register < r.REGISTER_COUNT:
                    problem = r.BAD_REGISTER
                    break
            elif opcode == 0x10:
                opcode = r.EXPRESSION
            elif opcode == 0x16:
                opcode = r.VAL_EXPRESSION
            elif opcode == 0xC0 or opcode == 6:  # restore, restore_extended
                if register < r.REGISTER_COUNT:
                    row[r.FIRST + 2 * register] = initial[r.FIRST + 2 * register]
                    row[r.FIRST + 2 * register + 1] = initial[r.FIRST + 2 * register + 1]
                continue
            elif opcode == 0x0C or opcode == 0x12:  # def_cfa, def_cfa_sf
                if register >= r.REGISTER_COUNT:
                    problem = r.BAD_REGISTER
                    break
                row[r.CFA_REGISTER] = register
                row[r.CFA_OFFSET] = (value * program[r.DATA_ALIGN]) & MASK if opcode == 0x12 else value
                continue
            elif opcode == 0x0D:  # def_cfa_register
                if register >= r.REGISTER_COUNT:
                    problem = r.BAD_REGISTER
                    break
                if row[r.CFA_REGISTER] >= r.CFA_EXPRESSION:
                    problem = r.CFA_IS_NO_REGISTER
                    break
                row[r.CFA_REGISTER] = register
                continue
            elif opcode == 0x0E or opcode == 0x13:  # def_cfa_offset, def_cfa_offset_sf
                if row[r.CFA_REGISTER] >= r.CFA_EXPRESSION:
                    problem = r.CFA_IS_NO_REGISTER
                    break
                row[r.CFA_OFFSET] = (value * program[r.DATA_ALIGN]) & MASK if opcode == 0x13 else value
                continue
            elif opcode == 0x0F:  # def_cfa_expression
                row[r.CFA_REGISTER] = r.CFA_EXPRESSION
                row[r.CFA_OFFSET] = value
                continue
            elif opcode == 0x0A:  # remember_state
                if depth == r.SAVED_LIMIT:
                    problem = r.TOO_DEEP
                    break
                column = 0
                while column < r.WIDTH:
                    saved[depth, column] = row[column]
                    column += 1
                depth += 1
                continue
            elif opcode == 0x0B:  # restore_state
                if depth == 0:
                    problem = r.NOTHING_SAVED
                    break
                depth -= 1
                column = 0
                while column < r.WIDTH:
                    row[column] = saved[depth, column]
                    column += 1
                continue
            elif opcode == 0x2E:  # GNU_args_size
                row[r.ARGS_SIZE] = value
                continue
            elif (opcode == 0x2D or opcode == 0x2C) and program[r.IS_AARCH64]:  # AARCH64_negate_ra_state, .._with_pc
                row[r.FLAGS] ^= r.IS_RETURN_ADDRESS_SIGNED
                continue
            else:
                problem = r.UNKNOWN_OPCODE
                break
            if register < r.REGISTER_COUNT:
                row[r.FIRST + 2 * register] = opcode
                row[r.FIRST + 2 * register + 1] = value
        if problem == r.FINE and location < program[r.PC_END]:  # the row that was not completed
            if count == limit:
                problem = r.OUT_OF_ROWS
            else:
                row[r.START] = location
                row[r.END] = program[r.PC_END]
                if is_for_target and next_location > location and next_location < program[r.PC_END]:
                    row[r.END] = next_location
                column = 0
                while column < r.WIDTH:
                    out[count, column] = row[column]
                    column += 1
                count += 1
    return count, problem, at
