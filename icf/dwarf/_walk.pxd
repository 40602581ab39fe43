# Written by tools/shared.py from _walk.py: change that.

from icf._types cimport u64

from icf.dwarf cimport columns as col

cdef inline bint has_no_code(u64 unit_type) nogil:
    return unit_type == col.UT_TYPE or unit_type == col.UT_SPLIT_TYPE or unit_type == col.UT_SKELETON

cdef inline bint reads(int mode, u64 kind) nogil:
    if mode == col.READ_DIES or kind == col.KIND_FUNCTION:
        return True
    return kind == col.KIND_INLINED if mode == col.READ_INLINED else kind == col.KIND_SITE

cdef inline int function_around(int[::1] stack, size_t depth, u64 kind, long long row) nogil:
    if kind == col.KIND_FUNCTION:
        return row
    if depth == 0:
        return OUTSIDE_OF_FUNCTIONS
    if kind == col.KIND_TYPE and stack[depth - 1] >= 0:
        return NOT_STORED
    return stack[depth - 1]

cdef inline int inlined_around(int[::1] stack, size_t depth, size_t room, u64 kind, size_t n_sites) nogil:
    if kind == col.KIND_INLINED and depth > 0 and (stack[depth - 1] >= 0):
        return n_sites
    if kind == col.KIND_FUNCTION or depth == 0:
        return 0
    return stack[room + depth - 1]

cdef enum:
    OUTSIDE_OF_FUNCTIONS = -2
    NOT_STORED = -3
