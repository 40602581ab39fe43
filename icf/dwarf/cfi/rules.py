"""The columns of a row of call frame information, the kinds of rules in it, and what may be wrong with a program.

A row holds from START to END. The CFA is CFA_REGISTER plus CFA_OFFSET; or CFA_REGISTER is CFA_EXPRESSION, and
CFA_OFFSET is where in the section the expression's block begins: a ULEB128 size, then the operations. Register r has
two columns from `FIRST + 2 * r` on: the kind of its rule, and a value. All are 64 bits, negative numbers wrapped.

    kind            value                  the caller's register is
    UNSPECIFIED                            as the ABI says: callee-saved registers have their value, others none
    UNDEFINED                              not known
    SAME_VALUE                             what it is
    OFFSET          n                      in memory at CFA + n
    VAL_OFFSET      n                      CFA + n
    REGISTER        number                 in that register
    EXPRESSION      offset of the block    in memory at the address that the expression yields
    VAL_EXPRESSION  offset of the block    what the expression yields

Registers are numbered as DWARF does. Those from REGISTER_COUNT on are vector registers, which are not recovered.
"""

from __future__ import annotations

START, END, CFA_REGISTER, CFA_OFFSET, FLAGS, RETURN_ADDRESS, ARGS_SIZE, FIRST = range(8)
REGISTER_COUNT = 33  # x86-64: 0 to 16, the last is the return address; AArch64: x0 to x30, sp, pc
WIDTH = 73  # FIRST + 2 * REGISTER_COUNT
CFA_EXPRESSION = 1 << 32
CFA_UNSET = (1 << 32) + 1

UNSPECIFIED, UNDEFINED, SAME_VALUE, OFFSET, VAL_OFFSET, REGISTER, EXPRESSION, VAL_EXPRESSION = range(8)

IS_SIGNAL_FRAME, IS_RETURN_ADDRESS_SIGNED, HAS_ONE_STACK = 1, 2, 4  # bits of FLAGS; the last: none for signals

# The columns of a program: where the instructions of CIE and FDE are, and what they need
(
    CIE_START, CIE_END, FDE_START, FDE_END, PC_BEGIN, PC_END, CODE_ALIGN, DATA_ALIGN, RA_REGISTER,
    POINTER_SIZE, POINTER_IS_RELATIVE, SECTION_VADDR, IS_AARCH64, INITIAL_FLAGS, PROGRAM_WIDTH,
) = range(15)  # fmt: skip

# What is wrong with a program; 0: nothing
(
    FINE, CUT_SHORT, LEB_TOO_LONG, UNKNOWN_OPCODE, MOVES_IN_CIE, MOVES_BACK, NOTHING_SAVED, TOO_DEEP,
    CFA_IS_NO_REGISTER, BAD_REGISTER, OUT_OF_ROWS,
) = range(11)  # fmt: skip
SAVED_LIMIT = 64  # remembered states
PROGRAM_LIMIT = 1 << 20  # bytes of instructions
