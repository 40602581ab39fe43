# Written by tools/shared.py from columns.py: change that.

cdef enum:
    PC = 0x0
    CFA = 0x1
    FLAGS = 0x2
    KNOWN = 0x3
    REGISTERS = 0x4
    FRAME_WIDTH = 0x25
    IS_EXACT = 0x1
    LOSES_CALLER = 0x2
    IS_SIGNAL = 0x4
    COUNT = 0x0
    STATE_KNOWN = 0x1
    LAST_CFA = 0x2
    STATE_FLAGS = 0x3
    WANTED = 0x4
    MACHINE_IS_AARCH64 = 0x5
    EXACT_COUNT = 0x6
    STATE_REGISTERS = 0x7
    STATE_WIDTH = 0x28
    NEEDS_STEP = 0x0
    END_OF_STACK = 0x1
    NO_CALL_FRAMES = 0x2
    NO_MEMORY = 0x3
    NOT_GROWING = 0x4
    BAD_EXPRESSION = 0x5
    OUT_OF_FRAMES = 0x6
    NO_OPERATION = 0x0
    OTHER_OPERATION = 0x1
    UNKNOWN_REGISTER = 0x2
    BAD_OPERATION = 0x3
    STACK_LIMIT = 0x40
    OPERATION_LIMIT = 0x3e8
