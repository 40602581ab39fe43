# Written by tools/shared.py from stretch_columns.py: change that.

cdef enum:
    HAS_BEGUN = 0x0
    IS_IDLE = 0x1
    TID = 0x2
    PID = 0x3
    FIRST = 0x4
    FIRST_ADDRESS = 0x5
    LAST = 0x6
    LAST_WHAT = 0x7
    LAST_ADDRESS = 0x8
    LAST_TARGET = 0x9
    WAS_CALL_OF_SYSTEM = 0xa
    FIRST_TIME = 0xb
    LAST_TIME = 0xc
    HAS_EXIT = 0xd
    CPU = 0xe
    HAS_SEVERAL_CPUS = 0xf
    IS_UNEVEN = 0x10
    OPEN = 0x11
    LEFT = 0x12
    AFTER = 0x13
    EXPECTED = 0x14
    FIRST_OPEN = 0x15
    MOST_CALLS = 0x40
    FIRST_OPEN_SLOT = 0x55
    FIRST_LEFT = 0x95
    FIRST_LEFT_SLOT = 0xd5
    STATE_WIDTH = 0x115
    INDIRECT = 0x8000000000000000
    NO_CALL = 0x0
    AFTER_CALL = 0x1
    AFTER_RETURN = 0x2
    AFTER_LEAVING = 0x3
    NO_PLACE = 0x0
    KNOWN_PLACE = 0x1
    SOME_PLACE = 0x2
