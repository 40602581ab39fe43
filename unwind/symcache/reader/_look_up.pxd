cimport cython
from unwind.symcache.reader._decode cimport decode, read_members

ctypedef unsigned long long u64
ctypedef long long i64

cdef u64 SELF, NOWHERE, ALL_KNOWN, SIZED, FIRST, AGREED, EACH
cdef size_t SPARE, FAULT, DONE, FRAMES, CHAINS, LACKING, NEEDED
cdef u64 TABLE, NUMBERS, NODES, FRAME_ROOM, CHAIN_ROOM, NOTHING, ONE, ONE_OR_MORE, SEVERAL

@cython.locals(count=size_t, entry=size_t, slot=u64)
cpdef int make_index(const u64[::1] starts, u64 shift, unsigned int[::1] index) except -1

@cython.locals(count=size_t, asked=size_t, slots=u64, i=size_t, offset=u64, entry=size_t)
cpdef int locate(const u64[::1] starts, const u64[::1] sizes, u64 base, u64 shift, const unsigned int[::1] index,
                 const u64[::1] vaddrs, long long[::1] out) except -1

@cython.locals(count=size_t, asked=size_t, i=size_t, offset=u64, low=size_t, high=size_t, middle=size_t, last=size_t,
               entry=size_t, members=i64, flags=u64, kind=u64, chain_count=u64, chain=size_t, target=size_t,
               at=size_t, is_compared=int, column=size_t, member=u64, size=u64, nodes_read=i64, node=u64,
               depth=u64, begin=size_t, k=size_t)
cpdef int look_up(const unsigned char[::1] data, const u64[::1] starts, const u64[::1] sizes,
                  const unsigned int[::1] infos, const u64[::1] offsets, const unsigned int[::1] order, int has_tables,
                  long long compared, u64 wanted, u64[::1] table, u64[::1] numbers, unsigned int[:, ::1] nodes, unsigned int[:, ::1] found,
                  u64[:, ::1] answers, unsigned int[:, ::1] frames, unsigned int[:, ::1] chains,
                  u64[::1] state) except? 12345

cdef u64 as_u64(long long value) noexcept nogil

cdef int _lacks_frames(u64[::1] state, unsigned int[:, ::1] frames) except? 12345 nogil

cdef int _put(unsigned int[:, ::1] frames, size_t at, u64 name, u64 file, u64 line, u64 column) except? 12345 nogil

@cython.locals(node=u64, file=u64, line=u64, column=u64)
cdef size_t _chain(unsigned int[:, ::1] frames, size_t at, u64 own_name, unsigned int[:, ::1] nodes,
                          unsigned int[:, ::1] found, size_t target) except? 12345 nogil

@cython.locals(first=size_t, last=size_t, is_same=int)
cdef int _agree(unsigned int[:, ::1] frames, unsigned int[:, ::1] chains, size_t chain, size_t begin,
                size_t end) except? 12345 nogil
