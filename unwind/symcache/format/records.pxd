# Written by tools/shared.py from records.py: change that.

cdef enum:
    ALL_KNOWN = 0x1
    SIZED = 0x2
    REST = 0x4
    SELF = 0xffffffff
    DEPTH_LIMIT = 0x400
