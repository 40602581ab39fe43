cimport cython

ctypedef unsigned long long u64

cdef u64 SIZE_BITS, SIZE_MASK, LIMIT, ONE, TOKEN
cdef int NOT_KNOWN
cdef size_t _START

@cython.locals(depth=u64, size=u64)
cdef u64 _plus(u64 first, u64 second) noexcept

cdef class RustMeasure:
    cdef const unsigned char[::1] text
    cdef u64[::1] parts
    cdef size_t length, pos, levels, level
    cdef readonly u64 size, depth
    cdef readonly int bad
    cdef u64 _fail(self, int why) except? 0x7FFFFFFFFFFFFFF0
    cdef int _look(self) except? -1
    @cython.locals(value=u64, byte=int)
    cdef u64 _digits(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(value=u64, digit=u64, byte=int)
    cdef u64 _base62(self) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _optional(self, int mark) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(size=u64)
    cdef u64 _identifier(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(at=size_t, target=u64)
    cdef u64 _reference(self) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _keep(self, size_t at, u64 part) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _enter(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int, at=size_t)
    cdef u64 _path(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(byte=int)
    cdef u64 _generic(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(byte=int, at=size_t, start=size_t)
    cdef u64 _constant(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int, at=size_t)
    cdef u64 _type(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(count=u64)
    cdef u64 _lifetimes(self) except? 0x7FFFFFFFFFFFFFF0
