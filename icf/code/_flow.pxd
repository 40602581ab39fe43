cimport cython

ctypedef long long i64
ctypedef unsigned long long u64

cdef u64 MASK, NODE, LOST, MET, LOAD, SUM, TABLE, SLOT_LIMIT
cdef i64 PASSES, KEEP, ONE

@cython.locals(temporary=i64, sp=i64, first_argument=i64, second_argument=i64, kept=i64, everything=i64, arguments=u64, count=i64, f=i64, begin=i64, end=i64,
               start=i64, before=i64, passes=i64, changed=i64, live=i64, known=i64, sums=i64, r=i64, row=i64, here=i64, op=i64,
               a=i64, b=i64, c=i64, value=i64, x=u64, y=u64, total=u64, i=i64, code=u64, stack=u64)
cpdef int follow(i64[:, ::1] ops, const i64[::1] first_row, const i64[:, ::1] functions, i64 first, i64 last,
                 const i64[::1] machine, const i64[::1] entries, const i64[:, ::1] edges, const i64[::1] endless, i64[::1] label,
                 u64[:, ::1] nodes, u64[:, ::1] origin, u64[:, ::1] offset, u64[:, ::1] memory, u64[:, ::1] out, unsigned char[::1] status,
                 i64[::1] result) except -1

@cython.locals(labels=i64, temporary=i64, row=i64, op=i64, target=i64, i=i64)
cdef i64 mark_labels(i64[:, ::1] ops, i64 begin, i64 end, i64 start, i64 size, const i64[::1] entries,
                     const i64[:, ::1] edges, const i64[::1] endless, i64[::1] label, u64[:, ::1] origin) except -2 nogil

cdef i64 new_label(i64[::1] label, u64[:, ::1] origin, i64 row, i64 labels, i64 temporary) except -2 nogil

@cython.locals(low=i64, high=i64, middle=i64)
cdef i64 row_at(i64[:, ::1] ops, i64 begin, i64 end, i64 at) except -1 nogil

@cython.locals(low=i64, high=i64, middle=i64)
cdef i64 lower(const i64[::1] values, i64 value) except -1 nogil

@cython.locals(low=i64, high=i64, middle=i64)
cdef i64 lower_edge(const i64[:, ::1] edges, i64 value) except -1 nogil

cdef bint is_end(i64 op) noexcept nogil

cdef u64 as_u64(i64 value) noexcept nogil

@cython.locals(r=i64)
cdef int forget(u64[:, ::1] origin, u64[:, ::1] offset, i64 row, i64 mask, i64 temporary) except -1 nogil

@cython.locals(r=i64, news=i64)
cdef i64 unknown(u64[:, ::1] origin, i64 here, i64 temporary) except -1 nogil

@cython.locals(r=i64, news=i64)
cdef i64 meet(u64[:, ::1] origin, u64[:, ::1] offset, i64 here, i64 temporary) except -1 nogil

@cython.locals(r=i64)
cdef int enter(u64[:, ::1] origin, u64[:, ::1] offset, i64 here, i64 row, i64 temporary) except -1 nogil

@cython.locals(news=i64)
cdef i64 note(u64[:, ::1] nodes, i64 row, u64 kind, u64 x, u64 y) except -1 nogil

cdef bint is_argument(u64 x, u64 arguments) noexcept nogil

cdef u64 kind_of(u64[:, ::1] nodes, u64 x) except? 99 nogil

@cython.locals(x=u64, y=u64, table=u64, place=u64)
cdef u64 slot(u64[:, ::1] nodes, u64[:, ::1] origin, u64[:, ::1] offset, i64 register, i64 first_argument,
              i64 second_argument) except? 99 nogil
