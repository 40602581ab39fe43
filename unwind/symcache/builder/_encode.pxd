cimport cython

ctypedef unsigned long long u64

cdef u64 DEPTH_LIMIT, SELF

@cython.locals(count=size_t, at=size_t, piece=size_t, start=u64, end=u64, base=size_t, segment_count=size_t, node=size_t,
               begin=size_t, found=size_t, segment=size_t, too_deep=int, depth=size_t, up=size_t, i=size_t,
               parent=size_t, row=size_t, last_row=size_t, first_row=size_t, middle=size_t, now=u64, written=u64,
               old_node=size_t, old_file=u64, old_line=u64, seen=size_t, file=u64, number=u64, head=u64, steps=u64)
cpdef u64 encode(const u64[:, ::1] pieces, const u64[::1] range_low, const u64[::1] range_high,
                 const unsigned int[::1] range_node, const unsigned int[::1] node_up, const unsigned int[::1] node_name,
                 const unsigned int[::1] node_file, const unsigned int[::1] node_line,
                 const unsigned int[::1] node_column, const u64[::1] address, const unsigned int[::1] file_idx,
                 const unsigned int[::1] line, const unsigned int[::1] column, const unsigned int[::1] file_map,
                 u64[:, ::1] segments, unsigned int[:, ::1] scratch, unsigned char[::1] out,
                 u64[:, ::1] ends) except? 12345

@cython.locals(count=size_t, size=size_t, now=u64, current=u64, i=size_t, at=size_t, moved=size_t, child=size_t,
               node=u64, following=u64)
cdef size_t _paint(const u64[::1] range_low, const u64[::1] range_high, const unsigned int[::1] range_node, size_t first,
                   size_t last, u64 start, u64 end, u64[:, ::1] segments,
                   unsigned int[:, ::1] heap) except? 12345 nogil

cdef size_t _uleb(unsigned char[::1] out, size_t at, u64 value) except? 12345 nogil

cdef size_t _zigzag(unsigned char[::1] out, size_t at, u64 old, u64 new) except? 12345 nogil
