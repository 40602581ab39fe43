# Written by tools/shared.py from _forms.py: change that.

from icf._types cimport u64

from icf.dwarf cimport columns as col

cdef inline size_t variant_of(u64 version, u64 address_size, u64 offset_size) nogil:
    return (1 if offset_size == 8 else 0) + (2 if address_size == 8 else 0) + (4 if version == 2 else 0)

cdef inline u64 operation(const unsigned int[:, ::1] operations, size_t variant, u64 form) nogil:
    if form < 64:
        return operations[variant, form]
    if form >= 7936 and form < 8000:
        return operations[variant, form - 7936 + 64]
    return col.NO_FORM

cdef enum:
    _WIDTH = 0x80
    _OFFSET = -1
    _ADDRESS = -2
    _REFERENCE = -3
