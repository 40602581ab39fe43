cimport cython

ctypedef unsigned long long u64

@cython.locals(n=size_t, count=size_t, size=size_t, i=size_t, offset=u64, symbol=u64, value=u64, j=u64)
cpdef Py_ssize_t patch_tombstones(unsigned char[::1] section, const u64[:, ::1] rela, u64 absolute64,
                                  const u64[::1] symbol_value, u64[::1] patched) except -1

@cython.locals(value=u64, i=size_t)
cdef u64 word(const unsigned char[::1] buf, size_t pos, size_t size) noexcept nogil

cdef u64 as_u64(u64 value) noexcept nogil
