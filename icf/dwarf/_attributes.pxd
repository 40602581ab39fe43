# Written by tools/shared.py from _attributes.py: change that.

from icf._bytes cimport entry_at, leb, word

from icf._types cimport Bytes, u64

from icf.dwarf cimport columns as col

from icf.dwarf._forms cimport operation

from icf.string_kinds cimport IN_INFO, IN_LINE_STR, IN_STR, IN_SUP_STR, STRING_KIND

cdef inline size_t declaration(u64[:, ::1] decls, size_t first, size_t count, bint is_dense, u64 code) nogil:
    cdef size_t low
    cdef size_t high
    cdef size_t middle
    low = first
    high = first + count
    if is_dense:
        return first + code - 1 if code <= count else high
    while low < high:
        middle = low + high >> 1
        if decls[middle, col.D_CODE] < code:
            low = middle + 1
        else:
            high = middle
    if low < first + count and decls[low, col.D_CODE] == code:
        return low
    return first + count

cdef inline u64 indirect(const unsigned int[:, ::1] operations, size_t variant, u64 form, u64 packed) nogil:
    cdef u64 found
    found = col.NO_FORM
    if form < 64:
        found = operation(operations, variant, form)
    if found == col.NO_FORM or found & 15 == col.ENC_INDIRECT or found & 15 == col.ENC_IMPLICIT:
        return col.NO_FORM
    if found & 15 == col.ENC_SKIP:
        found |= col.ENC_FIXED
    return found | packed & 31 << 4

cdef inline size_t string_end(Bytes info, size_t pos, size_t end) nogil:
    while pos < end and info[pos] != 0:
        pos += 1
    return pos + 1

cdef inline size_t unread(size_t start, size_t stop, size_t end) nogil:
    return end if stop == end + 1 else start + 10

cdef inline u64 constant_of(Bytes info, size_t start, size_t end) nogil:
    cdef u64 value
    cdef u64 op
    value = 0
    if start >= end:
        return 0
    op = info[start]
    start += 1
    if op >= 48 and op < 80:
        value = op - 48
    elif op == 8 and end - start == 1:
        value = word(info, start, 1)
        start += 1
    elif op == 10 and end - start == 2:
        value = word(info, start, 2)
        start += 2
    elif op == 16 and end - start <= 4:
        value, start = leb(info, start, end)
    else:
        return 0
    return value + 1 if start == end else 0

cdef inline u64 string_ref(u64[:, ::1] units, size_t unit, Bytes str_offsets, u64 value, u64 value_class) nogil:
    cdef u64 kind
    cdef size_t limit
    kind = 0
    limit = len(str_offsets)
    if value_class == col.CLS_STR_INDEX:
        value = entry_at(str_offsets, units[unit, col.STR_BASE], value, units[unit, col.OFFSET_SIZE])
        if value >= limit:
            return 0
        value = word(str_offsets, value, units[unit, col.OFFSET_SIZE])
        value_class = col.CLS_STR
    if value >> STRING_KIND != 0:
        return 0
    if value_class == col.CLS_STR:
        return value + units[unit, col.STR_KIND]
    if value_class == col.CLS_STRING:
        kind = IN_INFO
    elif value_class == col.CLS_LINE_STR and units[unit, col.STR_KIND] >> STRING_KIND == IN_STR:
        kind = IN_LINE_STR
    elif value_class == col.CLS_SUP:
        kind = IN_SUP_STR
    return value | kind << STRING_KIND if kind != 0 else 0

cdef inline u64 put_address(u64[::1] values, u64[::1] classes, size_t slot, u64[:, ::1] units, size_t unit, Bytes addr) nogil:
    cdef size_t at
    cdef size_t limit
    limit = len(addr)
    if classes[slot] == col.CLS_ADDRESS_INDEX:
        at = entry_at(addr, units[unit, col.ADDR_BASE], values[slot], units[unit, col.ADDRESS_SIZE])
        if at >= limit:
            return col.ERR_ADDRESS_INDEX
        values[slot] = word(addr, at, units[unit, col.ADDRESS_SIZE])
        classes[slot] = col.CLS_ADDRESS
    return 0

cdef inline u64 origin_of(u64[::1] values, u64[::1] classes, size_t slot, u64[:, ::1] units, size_t unit, u64 more_size) nogil:
    cdef u64 value
    value = values[slot]
    if classes[slot] == col.CLS_UNIT_REF:
        if value < units[unit, col.END] - units[unit, col.OFFSET]:
            return units[unit, col.OFFSET] + value
        return OUTSIDE
    if classes[slot] == col.CLS_INFO_REF:
        return units[unit, col.REF_BASE] + value if value < units[unit, col.REF_LIMIT] else OUTSIDE
    if classes[slot] == col.CLS_SUP and units[unit, col.SUP_BASE] != 0:
        return units[unit, col.SUP_BASE] + value if value < more_size else OUTSIDE
    return 0

cdef inline u64 range_flags(u64[::1] classes) nogil:
    cdef u64 flags
    flags = 0
    if classes[col.AT_LOW_PC] == col.CLS_ADDRESS:
        flags |= col.HAS_LOW
    if classes[col.AT_RANGES] == col.CLS_OFFSET or classes[col.AT_RANGES] == col.CLS_CONSTANT:
        flags |= col.RANGES_AT
    elif classes[col.AT_RANGES] == col.CLS_LIST_INDEX:
        flags |= col.RANGES_INDEX
    return flags

cdef inline bint is_set(u64[::1] values, u64[::1] classes, size_t slot) nogil:
    return classes[slot] != 0 and values[slot] != 0

cdef inline u64 value_or_0(u64[::1] values, u64[::1] classes, size_t slot) nogil:
    return values[slot] if classes[slot] != 0 else 0

cdef inline int forget(u64[::1] classes, size_t slot) nogil:
    while slot <= col.AT_STMT_SEQUENCE:
        classes[slot] = 0
        slot += 1
    classes[col.AT_SIBLING] = 0
    return 0

cdef inline int forget_other_kinds(u64[::1] classes, u64 kind) nogil:
    cdef u64 callee_class
    callee_class = classes[col.AT_ORIGIN]
    if kind != col.KIND_FUNCTION:
        forget(classes, col.AT_LOW_PC + 1)
    if kind == col.KIND_SITE:
        classes[col.AT_ORIGIN] = callee_class
    return 0

cdef inline bint has_pc(u64[::1] classes) nogil:
    return classes[col.AT_RETURN_PC] == col.CLS_ADDRESS or classes[col.AT_CALL_PC] == col.CLS_ADDRESS

cdef inline bint is_bare(int mode, u64 origin, u64[::1] classes) nogil:
    if classes[col.AT_DECLARATION] != 0:
        return False
    if mode != col.READ_SITES:
        return mode == col.READ_SUBPROGRAMS
    if classes[col.AT_INLINE] != 0 or (classes[col.AT_LINKAGE_NAME] != 0 and origin != 0):
        return False
    return classes[col.AT_EXTERNAL] == 0

cdef enum:
    OUTSIDE = 0xffffffffffffffff
