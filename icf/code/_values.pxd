# Written by tools/shared.py from _values.py: change that.

from icf._bytes cimport MASK, as_u64

from icf._types cimport i64, u64

from icf.code cimport operations as op

from icf.code._emit cimport bit

from icf.code._paths cimport ADDED, FROM_TABLE, FUNCTION, LOADED, NODE, first_at, forget, kind_of

cdef inline u64 place_of(i64[:, ::1] ops, i64 row, u64[:, ::1] offset) nogil:
    cdef i64 register
    cdef u64 value
    register = ops[row, op.B]
    value = as_u64(ops[row, op.VALUE])
    return value if register < 0 else offset[0, register] + value & MASK

cdef inline int set_result(u64[:, ::1] origin, u64[:, ::1] offset, i64 register, u64 x, u64 value) nogil:
    origin[0, register] = x
    offset[0, register] = value
    return 0

cdef inline bint note(u64[:, ::1] nodes, i64 row, u64 kind, u64 x, u64 y) nogil:
    cdef bint is_news
    is_news = nodes[row, 0] != kind or nodes[row, 1] != x or nodes[row, 2] != y
    nodes[row, 0] = kind
    nodes[row, 1] = x
    nodes[row, 2] = y
    return is_news

cdef inline i64 remember(u64[:, ::1] memory, i64[::1] result, u64 x, u64 place) nogil:
    cdef i64 i
    i = result[op.KNOWN] % op.KEEP
    result[op.KNOWN] += 1
    memory[i, 0] = x
    memory[i, 1] = place
    return i

cdef inline int assign(i64[:, ::1] ops, i64 row, u64[:, ::1] origin, u64[:, ::1] offset) nogil:
    cdef i64 a
    cdef i64 b
    cdef i64 kind
    cdef u64 added
    a = ops[row, op.A]
    b = ops[row, op.B]
    kind = ops[row, op.KIND]
    added = 0 if kind == op.COPY else as_u64(ops[row, op.VALUE])
    origin[0, a] = 0 if kind == op.CONST else origin[0, b]
    offset[0, a] = added if kind == op.CONST else offset[0, b] + added & MASK
    return 0

cdef inline bint form(i64[:, ::1] ops, i64 row, const i64[::1] starts, u64[:, ::1] nodes, u64[:, ::1] origin, u64[:, ::1] offset) nogil:
    cdef i64 a
    cdef u64 value
    cdef i64 i
    a = ops[row, op.A]
    assign(ops, row, origin, offset)
    if kind_of(nodes, origin[0, a]) == FUNCTION:
        set_result(origin, offset, a, 0, nodes[origin[0, a] - NODE, 1] + offset[0, a] & MASK)
    value = offset[0, a]
    if origin[0, a] != 0 or starts.shape[0] == 0 or value < as_u64(starts[0]) or (value >> 62 != 0):
        return False
    i = first_at(starts, value)
    if i >= starts.shape[0] or as_u64(starts[i]) != value:
        return False
    set_result(origin, offset, a, NODE + row, 0)
    return note(nodes, row, FUNCTION, value, 0)

cdef inline bint add(i64[:, ::1] ops, i64 row, u64[:, ::1] nodes, u64[:, ::1] origin, u64[:, ::1] offset, u64[:, ::1] memory, i64[::1] result) nogil:
    cdef i64 b
    cdef i64 c
    cdef u64 x
    cdef u64 y
    cdef u64 total
    cdef i64 i
    cdef i64 end
    cdef bint is_news
    b = ops[row, op.B]
    c = ops[row, op.C]
    x = origin[0, b]
    y = origin[0, c]
    total = offset[0, b] + offset[0, c] + as_u64(ops[row, op.VALUE]) & MASK
    i = op.KEEP
    end = op.KEEP + (result[op.SUMS] if result[op.SUMS] < op.KEEP else op.KEEP)
    is_news = False
    if x > y:
        x = origin[0, c]
        y = origin[0, b]
    if x != 0 and (kind_of(nodes, x) & 255 == FROM_TABLE or kind_of(nodes, y) & 255 == FROM_TABLE):
        is_news = note(nodes, row, FROM_TABLE, MASK, 0)
        y = NODE + row
    elif x != 0:
        while i < end and (memory[i, 0] != x or memory[i, 1] != y):
            i += 1
        if i == end:
            is_news = note(nodes, row, ADDED, x, y)
            i = op.KEEP + result[op.SUMS] % op.KEEP
            result[op.SUMS] += 1
            memory[i, 0] = x
            memory[i, 1] = y
            memory[i, 2] = NODE + row
        y = memory[i, 2]
    set_result(origin, offset, ops[row, op.A], y, total)
    return is_news

cdef inline bint load(i64[:, ::1] ops, i64 row, u64[:, ::1] nodes, u64[:, ::1] origin, u64[:, ::1] offset, u64[:, ::1] memory, i64[::1] result) nogil:
    cdef u64 x
    cdef u64 place
    cdef i64 i
    cdef i64 end
    cdef bint is_news
    x = 0 if ops[row, op.B] < 0 else origin[0, ops[row, op.B]]
    place = place_of(ops, row, offset)
    i = 0
    end = result[op.KNOWN] if result[op.KNOWN] < op.KEEP else op.KEEP
    is_news = False
    while i < end and (memory[i, 0] != x or memory[i, 1] != place):
        i += 1
    if i == end:
        is_news = note(nodes, row, LOADED, x, place)
        i = remember(memory, result, x, place)
        memory[i, 2] = NODE + row
        memory[i, 3] = 0
    set_result(origin, offset, ops[row, op.A], memory[i, 2], memory[i, 3])
    return is_news

cdef inline bint load_indexed(i64[:, ::1] ops, i64 row, u64[:, ::1] nodes, u64[:, ::1] origin, u64[:, ::1] offset, i64 temporary) nogil:
    cdef i64 a
    cdef i64 b
    cdef i64 c
    cdef u64 table
    cdef u64 x
    a = ops[row, op.A]
    b = ops[row, op.B]
    c = ops[row, op.C]
    table = place_of(ops, row, offset)
    if b >= 0 and origin[0, b] != 0:
        table = MASK
    if table == MASK and (c == 4 or (c & 15 == 8 and c != 8)):
        forget(origin, offset, row, bit(a), temporary)
        return False
    x = 0 if b < 0 else origin[0, b]
    set_result(origin, offset, a, NODE + row, 0)
    if table == MASK and c == 8:
        return note(nodes, row, LOADED, x, op.ANY_ELEMENT)
    return note(nodes, row, FROM_TABLE + (c << 8), table, 0)

cdef inline bint add_scaled(i64[:, ::1] ops, i64 row, u64[:, ::1] nodes, u64[:, ::1] origin, u64[:, ::1] offset, i64 temporary) nogil:
    cdef i64 a
    cdef i64 b
    cdef i64 c
    cdef i64 value
    cdef u64 x
    cdef u64 table
    cdef u64 code
    a = ops[row, op.A]
    b = ops[row, op.B]
    c = ops[row, op.C]
    value = ops[row, op.VALUE]
    x = origin[0, c]
    if offset[0, c] != 0 or kind_of(nodes, x) & 255 != FROM_TABLE or value & op.SHIFT - 2 != 0:
        forget(origin, offset, row, bit(a), temporary)
        return False
    table = nodes[x - NODE, 1] if origin[0, b] == 0 else MASK
    code = nodes[x - NODE, 0]
    if value & op.SHIFT == 2:
        code |= op.TIMES_4 << 8
    if value & op.SIGNED_INDEX:
        code |= op.SIGNED_ENTRY << 8
    set_result(origin, offset, a, NODE + row, offset[0, b])
    return note(nodes, row, code, table, 0)

cdef inline int store(i64[:, ::1] ops, i64 row, u64[:, ::1] origin, u64[:, ::1] offset, u64[:, ::1] memory, i64[::1] result) nogil:
    cdef u64 x
    cdef u64 place
    cdef u64 size
    cdef i64 c
    cdef i64 known
    cdef i64 i
    cdef i64 column
    x = 0 if ops[row, op.B] < 0 else origin[0, ops[row, op.B]]
    place = place_of(ops, row, offset)
    size = as_u64(ops[row, op.A])
    c = ops[row, op.C]
    known = result[op.KNOWN] if result[op.KNOWN] < op.KEEP else op.KEEP
    i = known
    while i > 0:
        i -= 1
        if memory[i, 0] != x or memory[i, 1] - place & MASK < size or place - memory[i, 1] & MASK < 8:
            known -= 1
            column = 0
            while column < 4:
                memory[i, column] = memory[known, column]
                column += 1
    result[op.KNOWN] = known
    if c >= 0:
        i = remember(memory, result, x, place)
        memory[i, 2] = origin[0, c]
        memory[i, 3] = offset[0, c]
    return 0
