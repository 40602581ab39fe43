"""Opcodes of line programs, as DWARF numbers them (6.2.5); tools/shared.py makes C constants of them."""

EXTENDED, COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN, NEGATE_STMT, SET_BASIC_BLOCK = range(8)
CONST_ADD_PC, FIXED_ADVANCE_PC, SET_PROLOGUE_END, SET_EPILOGUE_BEGIN, SET_ISA = range(8, 13)
END_SEQUENCE, SET_ADDRESS, DEFINE_FILE = range(1, 4)  # extended ones
LINE_MASK = 0xFFFFFFFF  # line and file numbers have 32 bits
