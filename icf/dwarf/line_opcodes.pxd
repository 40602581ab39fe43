# Written by tools/shared.py from line_opcodes.py: change that.

cdef enum:
    EXTENDED = 0x0
    COPY = 0x1
    ADVANCE_PC = 0x2
    ADVANCE_LINE = 0x3
    SET_FILE = 0x4
    SET_COLUMN = 0x5
    NEGATE_STMT = 0x6
    SET_BASIC_BLOCK = 0x7
    CONST_ADD_PC = 0x8
    FIXED_ADVANCE_PC = 0x9
    SET_PROLOGUE_END = 0xa
    SET_EPILOGUE_BEGIN = 0xb
    SET_ISA = 0xc
    END_SEQUENCE = 0x1
    SET_ADDRESS = 0x2
    DEFINE_FILE = 0x3
    LINE_MASK = 0xffffffff
