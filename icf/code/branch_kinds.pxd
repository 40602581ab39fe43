# Written by tools/shared.py from branch_kinds.py: change that.

cdef enum:
    CALL = 0x1
    JUMP = 0x2
    CONDITIONAL_JUMP = 0x3
