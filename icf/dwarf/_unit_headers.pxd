cimport cython

ctypedef unsigned long long u64

@cython.locals(pos=size_t, count=size_t, size=size_t, start=size_t, offset_size=u64, err=u64, length=u64, end=size_t,
               version=u64, unit_type=u64, address_size=u64, abbrev=u64, extra=u64, dwo_id=u64)
cpdef Py_ssize_t unit_headers(const unsigned char[::1] info, u64[:, ::1] units) except -1

@cython.locals(value=u64, i=size_t)
cdef u64 word(const unsigned char[::1] buf, size_t pos, size_t size) noexcept nogil

cdef u64 as_u64(u64 value) noexcept nogil
