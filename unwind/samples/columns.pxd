# Written by tools/shared.py from columns.py: change that.

cdef enum:
    NONE = 0xffffffffffffffff
    NUMBER_BITS = 0x20
    NUMBER_MASK = 0xffffffff
    FIRST_ROOT = 0x80000000
    NODE_LIMIT = 0x80000000
    HELD = 0x80000000
    STATE_MASK = 0x7fffffff
    NODE_COUNT = 0x0
    AT = 0x1
    WANTED_CALLER = 0x2
    WANTED_NUMBER = 0x3
    TREE_WIDTH = 0x4
    FRAME_ADDRESS = 0x0
    FRAME_KIND = 0x1
    FRAME_NUMBER = 0x2
    DONE = 0x0
    FRAMES = 0x1
    NEW = 0x2
    STACKS = 0x3
    PROGRESS_WIDTH = 0x4
