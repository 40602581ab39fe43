cimport cython

ctypedef unsigned long long u64

cdef u64 MASK
cdef u64 OFFSET
cdef u64 PRIME
cdef u64 BASIS

@cython.locals(size=size_t, pos=size_t, value=u64, byte=cython.uint, above=cython.uint, above_that=cython.uint)
cdef u64 _hash(const unsigned char[::1] text, size_t start, bint of_kin) except? 1 nogil

@cython.locals(n=size_t, i=size_t, kind=u64, start=size_t)
cpdef Py_ssize_t hash_references(const unsigned char[::1] info, const unsigned char[::1] str_,
                                 const unsigned char[::1] line_str, const u64[::1] references, bint of_kin,
                                 u64[::1] out) except -1
