cimport cython

ctypedef unsigned long long u64

cdef u64 SIZE_BITS, SIZE_MASK, LIMIT, ONE, TOKEN, STANDARD, IS_PACK
cdef int NOT_KNOWN

@cython.locals(depth=u64, size=u64)
cdef u64 _plus(u64 first, u64 second) noexcept

cdef int _operands(int first, int second) noexcept

cdef class Measure:
    cdef const unsigned char[::1] text
    cdef u64[::1] subs, args
    cdef size_t length, pos, levels, level, sub_count, arg_start, arg_count, arg_top
    cdef u64 pack, packed, forward, largest, identifier
    cdef int is_forward, conversion, in_lambda
    cdef readonly u64 size, depth
    cdef readonly int bad
    cdef u64 _fail(self, int why) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(at=size_t)
    cdef int _look(self, int ahead) except? -1
    cdef u64 _enter(self) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _push(self, u64 part) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(value=u64, byte=int)
    cdef u64 _digits(self) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _number(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(value=u64, byte=int)
    cdef u64 _index(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(size=u64, byte=int)
    cdef u64 _source_name(self) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _discriminator(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, number=u64, byte=int)
    cdef u64 _substitution(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, number=u64)
    cdef u64 _template_param(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, total=u64, byte=int, own=size_t, is_pack=int)
    cdef u64 _template_args(self, bint is_named) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, total=u64, count=u64, byte=int, following=int)
    cdef u64 _template_arg(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, following=int)
    cdef u64 _param_declaration(self) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _ended(self, u64 part) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, byte=int, start=size_t)
    cdef u64 _literal(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, total=u64, byte=int, old_args=size_t, old_count=size_t)
    cdef u64 _encoding(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(byte=int)
    cdef u64 _call_offset(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int, first=int)
    cdef u64 _special_name(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int)
    cdef u64 _name(self, bint is_named) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int)
    cdef u64 _local_name(self, bint is_named) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int, following=int)
    cdef u64 _unqualified_name(self, bint is_named) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, outside=u64, first=int, second=int)
    cdef u64 _operator_name(self, bint is_named) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, total=u64, byte=int, following=int, kind=int)
    cdef u64 _unnamed(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int, following=int, is_pushed=int)
    cdef u64 _nested_name(self, bint is_named) except? 0x7FFFFFFFFFFFFFF0
    cdef u64 _decltype(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, byte=int, following=int, last=int, ahead=int, before=size_t)
    cdef u64 _type(self, bint takes_args) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, outside=u64, byte=int, following=int)
    cdef u64 _bare_type(self, bint takes_args) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int, kind=int)
    cdef u64 _function_type(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(part=u64, total=u64, count=u64, outside=u64, first=int, second=int)
    cdef u64 _expression(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64)
    cdef u64 _list(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, first=int, second=int)
    cdef u64 _base_name(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64)
    cdef u64 _simple_id(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64, byte=int)
    cdef u64 _unresolved_type(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(total=u64)
    cdef u64 _unresolved_name(self) except? 0x7FFFFFFFFFFFFFF0
    @cython.locals(size=u64, packed=u64, count=u64)
    cdef u64 _expanded(self, u64 part) except? 0x7FFFFFFFFFFFFFF0
