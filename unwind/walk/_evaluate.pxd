# Written by tools/shared.py from _evaluate.py: change that.

from icf._bytes cimport uleb, word

from icf._types cimport Bytes, u64

from icf.dwarf.cfi cimport rules as r

from unwind.walk cimport columns as c

from unwind.walk._operations cimport operate

cdef inline (u64, bint) load(Bytes memory, const u64[:, ::1] ranges, u64 address, u64 size_bytes) noexcept nogil:
    cdef size_t low
    cdef size_t high
    cdef size_t middle
    cdef u64 limit
    cdef u64 at
    low = 0
    high = ranges.shape[0]
    limit = memory.shape[0]
    while low < high:
        middle = low + high >> 1
        if ranges[middle, 0] <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0 or address >= ranges[low - 1, 1] or ranges[low - 1, 1] - address < size_bytes:
        return (0, False)
    at = ranges[low - 1, 2] + (address - ranges[low - 1, 0])
    if at > limit or limit - at < size_bytes:
        return (0, False)
    return (word(memory, at, size_bytes), True)

cdef inline (u64, bint) evaluate(Bytes blocks, u64 start, Bytes memory, const u64[:, ::1] ranges, u64[::1] state, u64[::1] room, u64 first, bint has_first) noexcept nogil:
    cdef size_t pos
    cdef size_t begin
    cdef size_t end
    cdef size_t depth
    cdef size_t left
    cdef size_t stack
    cdef u64 outcome
    cdef u64 size
    cdef u64 opcode
    cdef u64 value
    cdef bint is_good
    pos = start
    end = blocks.shape[0]
    depth = 0
    left = c.OPERATION_LIMIT
    stack = r.REGISTER_COUNT
    if pos >= end:
        return (0, False)
    size, pos = uleb(blocks, pos, end)
    if pos > end or size > end - pos:
        return (0, False)
    begin = pos
    end = pos + size
    if has_first:
        room[stack] = first
        depth = 1
    while True:
        outcome, pos, depth, left = operate(blocks, begin, pos, end, state, c.STATE_REGISTERS, state[c.STATE_KNOWN], room, stack, depth, left)
        if outcome != c.OTHER_OPERATION:
            break
        opcode = blocks[pos - 1]
        if depth == 0 or (opcode != 6 and (opcode != 148 or pos >= end)):
            return (0, False)
        size = 8
        if opcode == 148:
            size = blocks[pos]
            pos += 1
            if size == 0 or size > 8:
                return (0, False)
        value, is_good = load(memory, ranges, room[stack + depth - 1], size)
        if not is_good:
            return (0, False)
        room[stack + depth - 1] = value
    if outcome != c.NO_OPERATION or depth == 0:
        return (0, False)
    return (room[stack + depth - 1], True)
