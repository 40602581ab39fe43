cimport cython

ctypedef unsigned long long u64

cdef u64 MASK
cdef u64 OFFSET
cdef u64 PRIME
cdef u64 BASIS

@cython.locals(n=size_t, i=size_t, kind=u64, pos=size_t, value=u64, info_size=size_t,
               str_size=size_t, line_str_size=size_t)
cpdef Py_ssize_t hash_references(const unsigned char[::1] info, const unsigned char[::1] str_,
                                 const unsigned char[::1] line_str, const u64[::1] references,
                                 u64[::1] out) except -1
