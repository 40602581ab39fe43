# Written by tools/shared.py from _emit.py: change that.

from icf._types cimport i64

from icf.code cimport operations as op

cdef inline i64 put(i64[:, ::1] ops, i64 n, i64 kind, i64 a, i64 b, i64 c, i64 value, i64 at) nogil:
    ops[n, op.KIND] = kind
    ops[n, op.A] = a
    ops[n, op.B] = b
    ops[n, op.C] = c
    ops[n, op.VALUE] = value
    ops[n, op.AT] = at
    return n + 1

cdef inline i64 kill(i64[:, ::1] ops, i64 n, i64 mask, i64 at) nogil:
    return put(ops, n, op.KILL, mask, 0, 0, 0, at)

cdef inline i64 signed(i64 value, i64 bits) noexcept nogil:
    cdef i64 sign
    sign = 1
    sign <<= bits - 1
    return (value ^ sign) - sign

cdef inline i64 bit(i64 register) noexcept nogil:
    cdef i64 one
    one = 1
    return one << register
