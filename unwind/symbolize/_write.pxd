cimport cython

ctypedef unsigned long long u64

cdef u64 SELF
cdef size_t NUMBER_BYTES, COPIED_ALONE, HEAD, ONLY, FIRST, MIDDLE, LAST, BEFORE, BEHIND
cdef u64 NOTHING, NAME, FILE, LINE, LINE_OR_MARK, COLUMN, START, ADDRESS, LONG_ADDRESS, AROUND
cdef int ALL, OWN

@cython.locals(count=size_t, room=size_t, written=size_t, i=size_t, at=size_t, chain=size_t, last_chain=size_t, start=u64,
               text_around=size_t, own_name=size_t, name=size_t, file=size_t, frame=size_t, last=size_t, part=size_t,
               fits=int, item=size_t, text=size_t, what=u64, turn=int, begin=size_t, size=size_t, k=size_t, radix=u64,
               width=size_t, value=u64, rest=u64, digits=size_t, digit=u64, of_name=u64)
cpdef size_t write(const u64[::1] asked, const unsigned int[::1] around, const u64[:, ::1] answers,
                   const unsigned int[:, ::1] chains, const unsigned int[:, ::1] frames, const u64[::1] starts, u64 base,
                   const unsigned int[::1] names, const unsigned int[::1] files, const unsigned char[::1] texts,
                   const u64[::1] ends, const unsigned int[:, ::1] items, const unsigned int[::1] parts, int shown,
                   unsigned char[::1] out, u64[::1] state) except? 12345
