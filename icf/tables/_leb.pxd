# cython: language_level=3
cimport cython

ctypedef unsigned long long u64


@cython.locals(shift=cython.uint, byte=cython.uchar)
cdef size_t _uleb_end(const unsigned char[::1] buffer, size_t pos, size_t end) except? 0 nogil

@cython.locals(value=u64)
cdef u64 _uleb_value(const unsigned char[::1] buffer, size_t pos, size_t stop) except? 1 nogil

@cython.locals(row=size_t, count=size_t, stop=size_t, bad=bint)
cpdef long long uleb_run(const unsigned char[::1] buffer, size_t pos, size_t end, u64[::1] out) except? -1

@cython.locals(current=u64, limit=u64, address=u64, value=u64, byte_idx=size_t, stop=size_t, bad=bint)
cpdef long long call_run(
    const unsigned char[::1] buffer, size_t pos, size_t end, size_t width, u64 base,
    u64[::1] site, u64[::1] callee, u64[::1] caller, size_t row,
) except? -1

@cython.locals(address=u64, byte_idx=size_t, stop=size_t, bad=bint)
cpdef long long slot_run(
    const unsigned char[::1] buffer, size_t pos, size_t end, size_t width,
    u64[::1] site, u64[::1] slot, size_t row,
) except? -1

@cython.locals(row=size_t, count=size_t, pos=size_t, value=u64)
cpdef long long uleb_write(const u64[::1] values, unsigned char[::1] out) except? -1

@cython.locals(row=size_t, count=size_t, pos=size_t, address=u64, value=u64, byte_idx=size_t)
cpdef long long entry_write(
    const u64[::1] sites, const u64[::1] values, size_t width, unsigned char[::1] out,
) except? -1
