cimport cython

ctypedef unsigned long long u64

cdef u64 DEPTH_LIMIT, SELF
cdef u64 SIZED, REST
cdef size_t PLACE, FAULT, NEED, ROOM, SPARE

@cython.locals(at=size_t, value=u64, shift=u64, byte=u64)
cdef u64 _number(const unsigned char[::1] data, u64[::1] state, size_t end) except? 12345 nogil

cdef long long _fail(u64[::1] state) except? 12345 nogil

cdef long long as_signed(u64 value) noexcept nogil

@cython.locals(head=u64, turn=int, end=size_t, distance=u64, count=u64, at=size_t, i=u64, bits=u64, aliases=u64, k=u64,
               size=u64)
cpdef long long read_members(const unsigned char[::1] data, const unsigned int[::1] infos, size_t entry, u64[::1] table,
                             u64[::1] state) except? 12345 nogil

@cython.locals(end=size_t, total=size_t, value=u64, shift=u64, byte=u64, k=size_t, count=u64, i=u64, target=size_t,
               now=u64, node=u64, file=u64, number=u64, seen=u64, head=u64)
cpdef long long decode(const unsigned char[::1] data, size_t at, size_t size, u64 base, const u64[::1] offsets,
                       size_t first, size_t last, u64[::1] numbers, unsigned int[:, ::1] nodes,
                       unsigned int[:, ::1] found) except? 12345 nogil

@cython.locals(last=size_t, members=cython.longlong, place=size_t, i=cython.longlong, count=cython.longlong)
cpdef size_t check_records(const unsigned char[::1] data, const unsigned int[::1] infos, size_t entry, u64 name_count,
                           const u64[::1] offsets, u64[::1] table, u64[::1] state, u64[::1] numbers,
                           unsigned int[:, ::1] nodes, unsigned int[:, ::1] found) except? 12345 nogil
