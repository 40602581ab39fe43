# Written by tools/shared.py from _sizes.py: change that.

from icf._types cimport u64

cdef inline u64 plus(u64 first, u64 second) noexcept nogil:
    cdef u64 depth
    cdef u64 size
    depth = first >> SIZE_BITS
    size = (first & SIZE_MASK) + (second & SIZE_MASK)
    if second >> SIZE_BITS > depth:
        depth = second >> SIZE_BITS
    if size > LIMIT:
        size = LIMIT
    return depth << SIZE_BITS | size

cdef enum:
    SIZE_BITS = 0x28
    SIZE_MASK = 0xffffffffff
    LIMIT = 0x100000000
    ONE = 0x10000000000
    TOKEN = 0x18
    NOT_KNOWN = 0x1
    TOO_DEEP = 0x2
