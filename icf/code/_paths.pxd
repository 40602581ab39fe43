# Written by tools/shared.py from _paths.py: change that.

from icf._bytes cimport MASK

from icf._types cimport i64, u64

from icf.code cimport operations as op

cdef inline i64 first_at(const i64[::1] values, i64 value) nogil:
    cdef i64 low
    cdef i64 high
    cdef i64 middle
    low = 0
    high = values.shape[0]
    while low < high:
        middle = low + high >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low

cdef inline i64 first_edge(const i64[:, ::1] edges, i64 jump) nogil:
    cdef i64 low
    cdef i64 high
    cdef i64 middle
    low = 0
    high = edges.shape[0]
    while low < high:
        middle = low + high >> 1
        if edges[middle, 0] < jump:
            low = middle + 1
        else:
            high = middle
    return low

cdef inline i64 row_at(i64[:, ::1] ops, i64 begin, i64 end, i64 at) nogil:
    cdef i64 low
    cdef i64 high
    cdef i64 middle
    low = begin
    high = end - 1
    while low < high:
        middle = low + high >> 1
        if ops[middle, op.AT] < at:
            low = middle + 1
        else:
            high = middle
    return low

cdef inline i64 new_label(i64[::1] label, u64[:, ::1] origin, i64 row, i64 labels, i64 temporary) nogil:
    if label[row] != 0:
        return labels
    if labels + 2 >= origin.shape[0]:
        return -2
    label[row] = labels + 1
    origin[labels + 1, temporary] = 0
    return labels + 1

cdef inline int forget(u64[:, ::1] origin, u64[:, ::1] offset, i64 row, i64 mask, i64 temporary) nogil:
    cdef i64 register
    register = 0
    while register <= temporary and mask >> register != 0:
        if mask >> register & 1:
            origin[0, register] = LOST + (row << 6) + register
            offset[0, register] = 0
        register += 1
    return 0

cdef inline bint unknown(u64[:, ::1] origin, i64 here, i64 temporary) nogil:
    cdef i64 register
    cdef bint news
    register = 0
    news = origin[here, temporary] == 0
    while register < temporary:
        if origin[here, register] != MASK:
            news = True
        origin[here, register] = MASK
        register += 1
    origin[here, temporary] = 1
    return news

cdef inline bint meet(u64[:, ::1] origin, u64[:, ::1] offset, i64 here, i64 temporary) nogil:
    cdef i64 register
    cdef bint news
    register = 0
    news = False
    if origin[here, temporary] == 0:
        origin[here, temporary] = 1
        while register < temporary:
            origin[here, register] = origin[0, register]
            offset[here, register] = offset[0, register]
            register += 1
        return True
    while register < temporary:
        if origin[here, register] != MASK and (origin[here, register] != origin[0, register] or offset[here, register] != offset[0, register]):
            if not is_moved(origin, here, register):
                origin[here, register] = MASK
                news = True
            elif offset[here, register] != VARYING:
                offset[here, register] = VARYING
                news = True
        register += 1
    return news

cdef inline bint is_moved(u64[:, ::1] origin, i64 here, i64 register) nogil:
    cdef u64 x
    x = origin[0, register]
    return x != 0 and (x == origin[here, register] or x == MET + (here << 6) + register)

cdef inline u64 start_of(u64[:, ::1] origin, u64[:, ::1] offset, u64 x) nogil:
    cdef i64 here
    cdef i64 register
    here = (x & NODE - 1) >> 6
    register = x & 63
    if x >> 56 != 3 or origin[here, register] == MASK or offset[here, register] != VARYING:
        return x
    return origin[here, register]

cdef inline int enter(u64[:, ::1] origin, u64[:, ::1] offset, i64 here, i64 temporary) nogil:
    cdef i64 register
    register = 0
    while register < temporary:
        if origin[here, register] == MASK or offset[here, register] == VARYING:
            origin[0, register] = MET + (here << 6) + register
            offset[0, register] = 0
        else:
            origin[0, register] = origin[here, register]
            offset[0, register] = offset[here, register]
        register += 1
    return 0

cdef inline u64 kind_of(u64[:, ::1] nodes, u64 x) nogil:
    return nodes[x - NODE, 0] if x >> 56 == 1 else 0

cdef enum:
    NODE = 0x100000000000000
    LOST = 0x200000000000000
    MET = 0x300000000000000
    VARYING = 0x8000000000000000
    LOADED = 0x1
    ADDED = 0x2
    FROM_TABLE = 0x3
    FUNCTION = 0x4
    SLOT_LIMIT = 0x100000
    PASSES = 0xc
