# Written by tools/shared.py from payload_columns.py: change that.

cdef enum:
    START = 0x0
    END = 0x1
    FIRST_RANGE = 0x2
    LAST_RANGE = 0x3
    FIRST_NODE = 0x4
    LAST_NODE = 0x5
    FIRST_ROW = 0x6
    LAST_ROW = 0x7
    PIECE_WIDTH = 0x8
    PAYLOAD_END = 0x0
    COLUMNS_START = 0x1
    SEGMENT_START = 0x0
    SEGMENT_NODE = 0x1
    NUMBER = 0x0
    STACK = 0x1
    NODE = 0x2
    PARENT = 0x3
    DEPTH = 0x4
    LAST_FILE = 0x5
    LAST_LINE = 0x6
    SCRATCH_HEIGHT = 0x7
