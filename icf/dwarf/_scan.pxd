cimport cython

ctypedef unsigned long long u64

cdef u64 MASK

@cython.locals(value=u64, i=size_t)
cdef u64 word(const unsigned char[::1] buf, size_t pos, size_t size) noexcept nogil

cdef u64 as_u64(u64 value) noexcept nogil

@cython.locals(limit=u64)
cdef u64 entry_at(const unsigned char[::1] table, u64 base, u64 index, u64 size) noexcept nogil

@cython.locals(main="const unsigned char[::1]", in_more=bint, before=u64, pick_mode=bint, n_subs=size_t, n_sites=size_t, i=size_t, val="unsigned long long[::1]", unit=u64,
               unit_offset=u64, end=size_t,
               pos=size_t, version=u64, address_size=u64, offset_size=u64, unit_type=u64, table=size_t,
               decl_first=size_t, decl_count=size_t, dense=u64, const_first=size_t, addr_base=u64, err=u64,
               start_subs=size_t, start_sites=size_t, depth=size_t, room=size_t, scopes=int, full=int, die=u64, b=u64,
               code=u64, shift=u64, decl=size_t, lo=size_t, hi=size_t, mid=size_t, op_i=size_t, op_end=size_t, kind=u64, children=u64,
               slot=u64, op=u64, enc=u64, arg=u64, cls=u64, form=u64, slot_form=u64, value=u64, row="long long", low=u64,
               high=u64, origin=u64, address_idx=u64, is_outside=bint, is_bare=bint, is_inlined=bint, flags=u64)
cpdef int scan(const unsigned char[::1] info, const unsigned char[::1] more, const unsigned char[::1] addr, const unsigned char[::1] str_offsets,
               u64[:, ::1] units, u64[:, ::1] tables, u64[:, ::1] decls, const unsigned int[::1] ops,
               u64[::1] consts, const unsigned int[::1] forms, size_t first, size_t last, int mode, u64[:, ::1] picks, int[::1] stack,
               u64[:, ::1] subprograms, u64[:, ::1] sites, u64[::1] result) except -1

@cython.locals(version=u64, offset_size=u64, str_base=u64, is_split=bint)
cdef u64 unit_die(u64[:, ::1] units, size_t unit, u64[::1] val, const unsigned char[::1] addr,
                  const unsigned char[::1] str_offsets) noexcept nogil

@cython.locals(slot=size_t, value=u64)
cdef u64 look_up(u64[::1] val, const unsigned char[::1] addr, u64 addr_base, u64 address_size) noexcept nogil

@cython.locals(str_base=u64, offset_size=u64, flags=u64)
cdef u64 store_details(u64[:, ::1] subprograms, size_t row, u64[:, ::1] units, size_t unit, u64[::1] val,
                       const unsigned char[::1] str_offsets) noexcept nogil

@cython.locals(value=u64, op=u64, shift=u64)
cdef u64 constant_of(const unsigned char[::1] info, size_t start, size_t end) noexcept nogil

cdef u64 string_ref(u64 value, u64 cls, const unsigned char[::1] str_offsets, u64 str_base,
                    u64 offset_size, u64 str_kind) noexcept nogil
