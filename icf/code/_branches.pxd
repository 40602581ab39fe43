cimport cython

ctypedef unsigned long long u64

cdef u64 SIGN
cdef u64 MASK

@cython.locals(size=size_t, count=size_t, call_limit=u64, jump_limit=u64, i=size_t, b=u64, kind=u64, at=size_t,
               end=u64, target=u64, top=u64)
cpdef int find_x86_64(const unsigned char[::1] text, u64 text_vaddr, u64 low, const unsigned char[::1] call_bits,
                      const unsigned char[::1] jump_bits, size_t start, u64[:, ::1] out, u64[::1] result) except -1

@cython.locals(size=size_t, count=size_t, call_limit=u64, jump_limit=u64, i=size_t, kind=u64, target=u64, top=u64,
               wanted=u64)
cpdef int find_aarch64(const unsigned char[::1] text, u64 text_vaddr, u64 low, const unsigned char[::1] call_bits,
                       const unsigned char[::1] jump_bits, size_t start, u64[:, ::1] out, u64[::1] result) except -1
