# Written by tools/shared.py from line_columns.py: change that.

cdef enum:
    CALLER = 0x0
    FIRST = 0x1
    FOLLOWING = 0x2
    NAME = 0x3
    COUNT_START = 0x4
    COUNT_END = 0x5
    WIDTH = 0x6
    NODE = 0x0
    PATH_BYTES = 0x1
    OUT_BYTES = 0x2
    STATE_WIDTH = 0x3
    SEPARATOR = 0x3b
