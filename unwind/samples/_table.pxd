# Written by tools/shared.py from _table.py: change that.

from icf._bytes cimport MASK

from icf._types cimport u64

from unwind.samples.columns cimport NODE_COUNT, NUMBER_BITS

cdef inline u64 hashed(u64 value, u64 more) noexcept nogil:
    cdef u64 factor
    factor = FACTOR
    value = (value ^ more << 48 ^ more) & MASK
    value = (value ^ value >> 32) * factor & MASK
    value = (value ^ value >> 32) * factor & MASK
    return value ^ value >> 32

cdef inline size_t place_of(u64[:, ::1] table, u64 key) noexcept nogil:
    cdef u64 mask
    cdef u64 place
    mask = table.shape[0] - 1
    place = hashed(key, 0) & mask
    while table[place, 0] != 0 and table[place, 0] != key + 1:
        place = place + 1 & mask
    return place

cdef inline u64 node_after(u64 node, u64 number, u64[:, ::1] tree, u64[::1] nodes, u64[::1] state) noexcept nogil:
    cdef u64 key
    cdef size_t place
    key = node << NUMBER_BITS | number
    place = place_of(tree, key)
    if tree[place, 0] == 0:
        tree[place, 0] = key + 1
        tree[place, 1] = state[NODE_COUNT]
        nodes[state[NODE_COUNT]] = key
        state[NODE_COUNT] += 1
    return tree[place, 1]

cdef enum:
    FACTOR = 0xd6e8feb86659fd93
