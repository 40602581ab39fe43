cimport cython

ctypedef unsigned long long u64

cdef u64 MASK64
cdef size_t ERROR, PLACE, VALUE, POS, ENTRIES

@cython.locals(count=size_t, unit=size_t, first=u64)
cpdef u64 scan_headers(const unsigned char[::1] line, const u64[::1] offsets, const u64[::1] limits, u64[::1] state,
                       u64[::1] formats, u64[:, ::1] units, u64[:, ::1] entries) except? 12345

@cython.locals(pos=size_t, end=size_t, length=u64, offset_size=size_t, version=u64, field=size_t)
cdef int _header(const unsigned char[::1] line, u64 start, const u64[::1] limits, u64[::1] state, u64[::1] formats,
                 u64[:, ::1] units, size_t unit, u64[:, ::1] entries) except -1 nogil

@cython.locals(table=size_t, format_count=size_t, field=size_t, count=u64)
cdef int _tables(const unsigned char[::1] line, size_t pos, size_t end, u64 version, size_t offset_size,
                 const u64[::1] limits, u64[::1] state, u64[::1] formats, u64[:, ::1] units, size_t unit,
                 u64[:, ::1] entries) except -1 nogil

cdef size_t _old_formats(u64[::1] formats, size_t table) except? 12345 nogil

@cython.locals(entry=u64, capacity=u64, field=size_t, content=u64, form=u64, start=size_t, source=u64, skip=u64,
               value=u64, size_bytes=size_t)
cdef int _entries(const unsigned char[::1] line, size_t pos, size_t end, u64 version, size_t offset_size,
                  size_t format_count, u64 count, const u64[::1] limits, u64[::1] state, u64[::1] formats,
                  u64[:, ::1] entries) except -1 nogil

cdef int _fail(u64[::1] state, u64 code, u64 place, u64 value) except -1 nogil

@cython.locals(value=u64, shift=u64, byte=u64)
cdef u64 _uint(const unsigned char[::1] buf, size_t pos, size_t size_bytes) except? 12345 nogil

@cython.locals(value=u64, shift=u64, byte=u64, start=size_t)
cdef u64 _uleb(const unsigned char[::1] buf, size_t pos, size_t end, u64[::1] state) except? 12345 nogil

@cython.locals(value=u64, shift=u64, byte=u64)
cdef u64 _uleb_any(const unsigned char[::1] buf, size_t pos, size_t end, u64[::1] state) except? 12345 nogil
