cimport cython

ctypedef unsigned long long u64

cdef u64 MASK

@cython.locals(table_count=size_t, n_ops=size_t, n_decls=size_t, n_consts=size_t, budget=size_t, t=size_t, pos=size_t,
               end=size_t, offset_size=u64, address_size=u64, version=u64, first=size_t, first_const=u64, start=size_t, attributes=u64, dense=u64, err=u64,
               value=u64, shift=u64, b=u64, code=u64, tag=u64, children=u64, kind=u64, first_op=size_t,
               skip=u64, attr=u64, form=u64, const=u64, op=u64, slot=u64, enc=u64)
cpdef int compile_tables(const unsigned char[::1] abbrev, int inlines, u64[:, ::1] tables, unsigned int[::1] ops,
                         u64[:, ::1] decls, u64[::1] consts, u64[::1] out) except -1

cdef u64 _sign_bits(u64 shift) noexcept nogil
cpdef u64 form_op(u64 form, u64 offset_size, u64 address_size, u64 version) noexcept nogil
cdef u64 slot_of(u64 kind, u64 tag, u64 attr) noexcept nogil
