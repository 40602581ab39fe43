cimport cython

ctypedef long long i64

cdef i64 ONE

@cython.locals(capacity=i64, count=i64, f=i64, start=i64, end=i64, n=i64, pos=i64, at=i64, word=i64, group=i64, rd=i64, rn=i64,
               rm=i64, kind=i64, value=i64)
cpdef int decode(const unsigned char[::1] text, i64 text_vaddr, const i64[:, ::1] functions, i64 first,
                 i64[:, ::1] ops, i64[::1] first_row, i64[::1] result) except -1

@cython.locals(rt=i64, rn=i64, rm=i64, rt2=i64, vector=i64, kind=i64, value=i64, load=i64, mode=i64, opc=i64, size=i64,
               value_at=i64, whole=i64, scale=i64, before=i64, after=i64, shifted=i64, at_value=i64)
cdef i64 memory(i64[:, ::1] ops, i64 n, i64 word, i64 here, i64 at) except -1 nogil

cdef int put(i64[:, ::1] ops, i64 n, i64 op, i64 a, i64 b, i64 c, i64 value, i64 at) except -1 nogil
