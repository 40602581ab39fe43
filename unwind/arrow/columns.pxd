# Written by tools/shared.py from columns.py: change that.

cdef enum:
    VERDICT = 0x0
    NAME = 0x1
    LINKAGE_NAME = 0x2
    FILE = 0x3
    LINE = 0x4
    CANDIDATE_START = 0x5
    CANDIDATE_COUNT = 0x6
    ANSWER_WIDTH = 0x8
    TEXTS = 0x4
    CANDIDATE_LIMIT = 0x7fffffff
