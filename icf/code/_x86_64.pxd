cimport cython

ctypedef long long i64

cdef i64 LOW, SIGN

@cython.locals(capacity=i64, count=i64, f=i64, start=i64, end=i64, n=i64, pos=i64, at=i64, limit=i64, wide=i64, narrow=i64,
               repeat=i64, plain=i64, lock=i64, short=i64, rex=i64, i=i64, b=i64, table=i64, vex=i64, vvvv=i64, info=i64,
               b1=i64, b2=i64, mod=i64, reg=i64, rm=i64, base=i64, index=i64, scale=i64, disp=i64, modrm=i64, size=i64,
               sib=i64, kind=i64, value=i64, done=i64, source=i64, mask=i64, store=i64, far=i64)
cpdef int decode(const unsigned char[::1] text, i64 text_vaddr, const i64[:, ::1] functions, i64 first,
                 const unsigned short[:, ::1] opcodes, i64[:, ::1] ops, i64[::1] first_row, i64[::1] result) except -1

cdef int put(i64[:, ::1] ops, i64 n, i64 op, i64 a, i64 b, i64 c, i64 value, i64 at) except -1 nogil

cdef i64 load(i64[:, ::1] ops, i64 n, i64 register, i64 base, i64 index, i64 scale, i64 disp, i64 at) except -1 nogil

@cython.locals(value=i64)
cdef i64 signed(const unsigned char[::1] text, i64 at, i64 size) except? -1 nogil
