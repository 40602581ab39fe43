cimport cython

ctypedef unsigned long long u64
ctypedef long long i64

cdef u64 SELF
cdef size_t NEXT, AT, NUMBER_BYTES, COPIED_ALONE, HEAD, ONLY, FIRST, MIDDLE, LAST
cdef u64 NOTHING, NAME, FILE, LINE, LINE_OR_MARK, COLUMN, START, ADDRESS, LONG_ADDRESS
cdef int ALL, OWN, INNERMOST

@cython.locals(count=size_t, i=size_t, begin=size_t, fits=int, text=size_t, own_name=size_t, chain=size_t, last_chain=size_t,
               start=u64, first=size_t, last=size_t, at=size_t, part=size_t, name=u64)
cpdef size_t write(const u64[::1] asked, const unsigned int[::1] around, const u64[:, ::1] answers,
                   const unsigned int[:, ::1] chains, const unsigned int[:, ::1] frames, const u64[::1] starts, u64 base,
                   const unsigned int[::1] names, const unsigned int[::1] files, const unsigned char[::1] texts,
                   const u64[::1] ends, const unsigned int[:, ::1] items, const unsigned int[::1] parts, int shown,
                   unsigned char[::1] out, u64[::1] state) except? 12345

@cython.locals(item=size_t, what=u64)
cdef int _part(size_t part, u64 address, size_t name, size_t file, u64 line, u64 column, u64 start,
               const unsigned char[::1] texts, const u64[::1] ends, const unsigned int[:, ::1] items,
               const unsigned int[::1] parts, unsigned char[::1] out, u64[::1] state) except? 123 nogil

@cython.locals(begin=size_t, size=size_t, at=size_t, i=size_t)
cdef int _text(size_t number, const unsigned char[::1] texts, const u64[::1] ends, unsigned char[::1] out,
               u64[::1] state) except? 123 nogil

@cython.locals(rest=u64, count=u64, at=size_t, digit=u64)
cdef int _digits(u64 value, u64 radix, i64 width, unsigned char[::1] out, u64[::1] state) except? 123 nogil
