# Written by tools/shared.py from records.py: change that.

cdef enum:
    ALL_KNOWN = 0x1
    SIZED = 0x2
    REST = 0x4
    SELF = 0xffffffff
    NAME_BITS = 0x7
    NAME_COUNT = 0x80
    DEPTH_LIMIT = 0x400
