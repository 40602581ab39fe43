# Written by tools/shared.py from marks.py: change that.

cdef enum:
    TEXT = 0x0
    NAME = 0x1
    FILE = 0x2
    AROUND = 0x3
    LINE = 0x4
    LINE_OR_MARK = 0x5
    COLUMN = 0x6
    START = 0x7
    ADDRESS = 0x8
    LONG_ADDRESS = 0x9
    HEAD = 0x0
    ONLY = 0x1
    FIRST = 0x2
    MIDDLE = 0x3
    LAST = 0x4
    BEFORE = 0x5
    BEHIND = 0x6
    ALL = 0x0
    OWN = 0x1
    INNERMOST = 0x2
    NUMBER_BYTES = 0x14
    SHORT_TEXT = 0x1f
