# Written by tools/shared.py from _line_errors.py: change that.

from icf._types cimport u64

from icf.dwarf cimport line_columns as col

cdef inline int fail(u64[:, ::1] units, size_t unit, u64 error, u64 at, u64 value) nogil:
    units[unit, col.ERROR] = error
    units[unit, col.ERROR_AT] = at
    units[unit, col.ERROR_VALUE] = value
    return 0
