# Written by tools/shared.py from stack_columns.py: change that.

cdef enum:
    AT = 0x0
    OUT_BYTES = 0x1
    STATE_WIDTH = 0x2
    LINE_FEED = 0xa
    SPACE = 0x20
    NUMBER_SIGN = 0x23
    ZERO = 0x30
