# Written by tools/shared.py from string_kinds.py: change that.

cdef enum:
    STRING_KIND = 0x3c
    IN_INFO = 0x1
    IN_STR = 0x2
    IN_LINE_STR = 0x3
    IN_SUP_STR = 0x4
    IN_SPLIT_STR = 0x5
