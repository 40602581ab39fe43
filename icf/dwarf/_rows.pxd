# Written by tools/shared.py from _rows.py: change that.

from icf._bytes cimport MASK

from icf._types cimport Bytes, u64

from icf.dwarf cimport columns as col

from icf.dwarf._attributes cimport OUTSIDE, is_set, origin_of, put_address, range_flags, string_ref, value_or_0

cdef inline u64 store_unit(u64[:, ::1] units, size_t unit, u64[::1] values, u64[::1] classes, Bytes addr, Bytes str_offsets) nogil:
    cdef u64 version
    cdef bint is_wide
    cdef u64 unit_type
    version = units[unit, col.VERSION]
    is_wide = units[unit, col.OFFSET_SIZE] == 8
    unit_type = units[unit, col.UNIT_TYPE]
    if units[unit, col.FLAGS] & col.BASES_GIVEN == 0:
        if classes[col.AT_STR_BASE] != 0:
            units[unit, col.STR_BASE] = values[col.AT_STR_BASE]
        elif version >= 5:
            units[unit, col.STR_BASE] = 16 if is_wide else 8
        if classes[col.AT_ADDR_BASE] != 0:
            units[unit, col.ADDR_BASE] = values[col.AT_ADDR_BASE]
        elif version >= 5:
            units[unit, col.ADDR_BASE] = 16 if is_wide else 8
        units[unit, col.LOCLISTS_BASE] = value_or_0(values, classes, col.AT_LOCLISTS_BASE)
        units[unit, col.RNGLISTS_BASE] = value_or_0(values, classes, col.AT_RNGLISTS_BASE)
        if classes[col.AT_RNGLISTS_BASE] == 0 and version >= 5:
            units[unit, col.RNGLISTS_BASE] = 20 if is_wide else 12
        units[unit, col.STMT_LIST] = value_or_0(values, classes, col.AT_STMT_LIST)
        units[unit, col.FLAGS] = col.HAS_STMT_LIST if classes[col.AT_STMT_LIST] != 0 else 0
        if classes[col.AT_DWO_NAME] != 0 or unit_type == col.UT_SKELETON or unit_type == col.UT_SPLIT_COMPILE:
            units[unit, col.FLAGS] |= col.IS_SPLIT
        units[unit, col.COMP_DIR] = string_ref(units, unit, str_offsets, values[col.AT_COMP_DIR], classes[col.AT_COMP_DIR])
        units[unit, col.DWO_NAME] = string_ref(units, unit, str_offsets, values[col.AT_DWO_NAME], classes[col.AT_DWO_NAME])
        if put_address(values, classes, col.AT_LOW_PC, units, unit, addr) != 0:
            return col.ERR_ADDRESS_INDEX
        units[unit, col.LOW_PC] = values[col.AT_LOW_PC] if classes[col.AT_LOW_PC] == col.CLS_ADDRESS else 0
    units[unit, col.LANGUAGE] = value_or_0(values, classes, col.AT_LANGUAGE)
    units[unit, col.NAME] = string_ref(units, unit, str_offsets, values[col.AT_NAME], classes[col.AT_NAME])
    units[unit, col.PRODUCER] = string_ref(units, unit, str_offsets, values[col.AT_PRODUCER], classes[col.AT_PRODUCER])
    if classes[col.AT_DWO_ID] != 0 and version < 5:
        units[unit, col.DWO_ID] = values[col.AT_DWO_ID]
    return 0

cdef inline int store_function(u64[:, ::1] functions, size_t row, u64 die, u64 flags, u64 unit, u64 origin, u64[::1] values, u64[::1] classes) nogil:
    cdef u64 low
    low = low_of(values, classes)
    functions[row, col.S_DIE] = die
    functions[row, col.S_LOW] = low
    functions[row, col.S_HIGH] = high_of(values, classes, low)
    functions[row, col.S_RANGES] = value_or_0(values, classes, col.AT_RANGES)
    functions[row, col.S_FLAGS] = flags | unit << 32
    functions[row, col.S_ORIGIN] = origin
    return 0

cdef inline int store_details(u64[:, ::1] functions, size_t row, u64[:, ::1] units, size_t unit, u64[::1] values, u64[::1] classes, Bytes str_offsets) nogil:
    cdef u64 flags
    cdef u64 parent
    flags = 0
    parent = 0
    functions[row, col.S_NAME] = string_ref(units, unit, str_offsets, values[col.AT_NAME], classes[col.AT_NAME])
    functions[row, col.S_LINKAGE_NAME] = string_ref(units, unit, str_offsets, values[col.AT_LINKAGE_NAME], classes[col.AT_LINKAGE_NAME])
    functions[row, col.S_DECL_LINE] = value_or_0(values, classes, col.AT_DECL_LINE)
    functions[row, col.S_DECL_FILE] = value_or_0(values, classes, col.AT_DECL_FILE)
    functions[row, col.S_DECL_COLUMN] = value_or_0(values, classes, col.AT_DECL_COLUMN)
    if classes[col.AT_CONTAINING_TYPE] != col.CLS_SUP:
        parent = origin_of(values, classes, col.AT_CONTAINING_TYPE, units, unit, 0)
    functions[row, col.S_CONTAINING_TYPE] = parent if parent != OUTSIDE else 0
    functions[row, col.S_VTABLE_SLOT] = 0
    if classes[col.AT_VTABLE_SLOT] == col.CLS_BLOCK:
        functions[row, col.S_VTABLE_SLOT] = values[col.AT_VTABLE_SLOT]
    if is_set(values, classes, col.AT_DECLARATION):
        flags |= col.DECLARATION
    if is_set(values, classes, col.AT_EXTERNAL):
        flags |= col.EXTERNAL
    if is_set(values, classes, col.AT_INLINE):
        flags |= col.INLINE
    if is_set(values, classes, col.AT_ARTIFICIAL):
        flags |= col.ARTIFICIAL
    functions[row, col.S_FLAGS] |= flags
    return 0

cdef inline int store_inlined(u64[:, ::1] calls, size_t row, u64 function, u64 around, u64 origin, u64[::1] values, u64[::1] classes) nogil:
    cdef u64 flags
    cdef u64 low
    flags = range_flags(classes)
    low = low_of(values, classes)
    calls[row, col.I_LOW] = low
    calls[row, col.I_HIGH] = high_of(values, classes, low)
    if flags & (col.RANGES_AT | col.RANGES_INDEX):
        calls[row, col.I_HIGH] = values[col.AT_RANGES]
    calls[row, col.I_ORIGIN] = origin
    calls[row, col.I_OWNER] = function | around << 32
    calls[row, col.I_PLACE] = small_of(values, classes, col.AT_CALL_FILE)
    calls[row, col.I_PLACE] |= small_of(values, classes, col.AT_CALL_LINE) << 32
    calls[row, col.I_FLAGS] = small_of(values, classes, col.AT_CALL_COLUMN) | flags << 32
    return 0

cdef inline int store_site(u64[:, ::1] sites, size_t row, long long function, u64 origin, u64[::1] values, u64[::1] classes) nogil:
    cdef u64 flags
    cdef u64 caller
    flags = 0
    caller = 0
    if is_set(values, classes, col.AT_TAIL_CALL):
        flags |= col.TAIL_CALL
    if classes[col.AT_RETURN_PC] == col.CLS_ADDRESS:
        sites[row, col.C_PC] = values[col.AT_RETURN_PC]
    else:
        sites[row, col.C_PC] = values[col.AT_CALL_PC]
        flags |= col.AT_INSTRUCTION
    if function >= 0:
        caller = function
    else:
        flags |= col.NO_CALLER
    sites[row, col.C_ORIGIN] = origin
    sites[row, col.C_CALLER] = caller | flags << 32
    return 0

cdef inline u64 low_of(u64[::1] values, u64[::1] classes) nogil:
    return values[col.AT_LOW_PC] if classes[col.AT_LOW_PC] == col.CLS_ADDRESS else 0

cdef inline u64 high_of(u64[::1] values, u64[::1] classes, u64 low) nogil:
    if classes[col.AT_HIGH_PC] == col.CLS_ADDRESS:
        return values[col.AT_HIGH_PC]
    return low + values[col.AT_HIGH_PC] & MASK if classes[col.AT_HIGH_PC] != 0 else low

cdef inline u64 small_of(u64[::1] values, u64[::1] classes, size_t slot) nogil:
    return values[slot] if classes[slot] == col.CLS_CONSTANT and values[slot] >> 32 == 0 else 0

cdef inline int store_failed(u64[:, ::1] functions, size_t row, u64 die, u64 unit) nogil:
    cdef size_t column
    column = 0
    while column < col.S_COUNT_ALL:
        functions[row, column] = 0
        column += 1
    functions[row, col.S_DIE] = die
    functions[row, col.S_FLAGS] = col.FAILED | unit << 32
    return 0
