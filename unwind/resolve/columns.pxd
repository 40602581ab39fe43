# Written by tools/shared.py from columns.py: change that.

cdef enum:
    HELD = 0x80000000
    STEP_MASK = 0x7fffffff
    STATE_BIT = 0x20
    INNERMOST = 0x1
    NUMBERED = 0x2
    KIND_BITS = 0x2
