cimport cython

ctypedef unsigned long long u64

cdef u64 MASK64, MASK32
cdef size_t ERROR, PLACE, VALUE, ROWS, SEQUENCES, DEFINED

@cython.locals(count=size_t, unit=size_t, row=u64, sequence=u64, define=u64, key=u64)
cpdef u64 run_programs(const unsigned char[::1] line, u64[::1] state, u64[:, ::1] special, u64[:, ::1] units,
                       u64[:, ::1] sequences, u64[:, ::1] defined, u64[::1] address, unsigned int[::1] file_idx,
                       unsigned int[::1] line_number, unsigned int[::1] column, unsigned char[::1] flags) except? 12345

cdef int _fail(u64[::1] state, u64 code, u64 place, u64 value) except -1 nogil

@cython.locals(key=u64)
cdef u64 _key(u64[:, ::1] units, size_t unit) except? 12345 nogil

@cython.locals(line_base=u64, line_range=u64, opcode_base=u64, opcode=size_t, adjusted=u64, delta=u64)
cdef int _tabulate(u64[:, ::1] special, u64[:, ::1] units, size_t unit) except -1 nogil

@cython.locals(value=u64, shift=u64, byte=u64)
cdef u64 _uint(const unsigned char[::1] buf, size_t pos, size_t size_bytes) except? 12345 nogil

@cython.locals(end=size_t, pos=size_t, lengths=size_t, min_inst_length=u64, max_ops=u64, line_range=u64,
               opcode_base=size_t, row=size_t, first_row=size_t, row_capacity=size_t, sequence=size_t,
               sequence_capacity=size_t, is_stmt="unsigned char", reg_address=u64, last_address=u64, reg_op=u64,
               reg_file="unsigned int", reg_line="unsigned int", reg_column="unsigned int", reg_flags="unsigned char",
               base=u64, highest=u64, dead=u64, marks=u64, start=size_t, opcode=size_t, value=u64, shift=u64, byte=u64,
               next_pos=size_t, skip=u64, low=u64, high=u64, scan_row=size_t, begin=size_t)
cdef int _program(const unsigned char[::1] line, u64[::1] state, u64[:, ::1] special, u64[:, ::1] units, size_t unit,
                  u64[:, ::1] sequences, u64[:, ::1] defined, u64[::1] address, unsigned int[::1] file_idx,
                  unsigned int[::1] line_number, unsigned int[::1] column, unsigned char[::1] flags) except -1 nogil
