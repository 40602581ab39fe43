cimport cython

ctypedef unsigned long long u64

cdef u64 ALL_ONES

@cython.locals(n=size_t, count=size_t, limit=size_t, entries=size_t, i=size_t, unit=size_t, version=u64, address_size=u64, offset_size=u64,
               addr_base=u64, base=u64, pos=u64, index=u64, size=u64, ones=u64, low=u64, high=u64, list_base=u64,
               kind=u64, operands=u64, first=u64, second=u64, bad=u64, shift=u64, b=u64)
cpdef Py_ssize_t expand(const u64[:, ::1] rows, const u64[:, ::1] units, const unsigned char[::1] ranges,
                        const unsigned char[::1] rnglists, const unsigned char[::1] addr, u64[:, ::1] out) except -1

@cython.locals(limit=u64)
cdef u64 entry_at(const unsigned char[::1] table, u64 base, u64 index, u64 size) noexcept nogil

@cython.locals(value=u64, i=size_t)
cdef u64 word(const unsigned char[::1] buf, size_t pos, size_t size) noexcept nogil

cdef u64 as_u64(u64 value) noexcept nogil
