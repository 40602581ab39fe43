"""The rows that a scan fills, from the values of a DIE (see `_attributes`)."""

from __future__ import annotations

from icf._bytes import MASK
from icf._types import Bytes, u64
from icf.dwarf import columns as col
from icf.dwarf._attributes import OUTSIDE, is_set, origin_of, put_address, range_flags, string_ref, value_or_0

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
def store_unit(
    units: u64[:, ::1], unit: cython.size_t, values: u64[::1], classes: u64[::1], addr: Bytes, str_offsets: Bytes
) -> u64:
    """Store the columns of a unit that come from its DIE; return an error, 0 for none."""
    version: u64 = units[unit, col.VERSION]
    is_wide: cython.bint = units[unit, col.OFFSET_SIZE] == 8
    unit_type: u64 = units[unit, col.UNIT_TYPE]
    if units[unit, col.FLAGS] & col.BASES_GIVEN == 0:
        # a split unit has no attribute for what follows the header of its only table
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
        units[unit, col.COMP_DIR] = string_ref(
            units, unit, str_offsets, values[col.AT_COMP_DIR], classes[col.AT_COMP_DIR]
        )
        units[unit, col.DWO_NAME] = string_ref(
            units, unit, str_offsets, values[col.AT_DWO_NAME], classes[col.AT_DWO_NAME]
        )
        if put_address(values, classes, col.AT_LOW_PC, units, unit, addr) != 0:
            return col.ERR_ADDRESS_INDEX
        units[unit, col.LOW_PC] = values[col.AT_LOW_PC] if classes[col.AT_LOW_PC] == col.CLS_ADDRESS else 0
    units[unit, col.LANGUAGE] = value_or_0(values, classes, col.AT_LANGUAGE)
    units[unit, col.NAME] = string_ref(units, unit, str_offsets, values[col.AT_NAME], classes[col.AT_NAME])
    units[unit, col.PRODUCER] = string_ref(units, unit, str_offsets, values[col.AT_PRODUCER], classes[col.AT_PRODUCER])
    if classes[col.AT_DWO_ID] != 0 and version < 5:
        units[unit, col.DWO_ID] = values[col.AT_DWO_ID]
    return 0


@cython.inline
def store_function(
    functions: u64[:, ::1],
    row: cython.size_t,
    die: u64,
    flags: u64,
    unit: u64,
    origin: u64,
    values: u64[::1],
    classes: u64[::1],
) -> cython.int:
    """Store the columns of a function that every scan fills."""
    low: u64 = low_of(values, classes)
    functions[row, col.S_DIE] = die
    functions[row, col.S_LOW] = low
    functions[row, col.S_HIGH] = high_of(values, classes, low)
    functions[row, col.S_RANGES] = value_or_0(values, classes, col.AT_RANGES)
    functions[row, col.S_FLAGS] = flags | unit << 32
    functions[row, col.S_ORIGIN] = origin
    return 0


@cython.inline
def store_details(
    functions: u64[:, ::1],
    row: cython.size_t,
    units: u64[:, ::1],
    unit: cython.size_t,
    values: u64[::1],
    classes: u64[::1],
    str_offsets: Bytes,
) -> cython.int:
    """Store the other columns of a function but its tag, and add the flags that only scans for these know."""
    flags: u64 = 0
    parent: u64 = 0
    functions[row, col.S_NAME] = string_ref(units, unit, str_offsets, values[col.AT_NAME], classes[col.AT_NAME])
    functions[row, col.S_LINKAGE_NAME] = string_ref(
        units, unit, str_offsets, values[col.AT_LINKAGE_NAME], classes[col.AT_LINKAGE_NAME]
    )
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


@cython.inline
def store_inlined(
    calls: u64[:, ::1], row: cython.size_t, function: u64, around: u64, origin: u64, values: u64[::1], classes: u64[::1]
) -> cython.int:
    """Store an inlined call of the function in row `function`; `around`: row of the inlined call around it, plus 1."""
    flags: u64 = range_flags(classes)
    low: u64 = low_of(values, classes)
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


@cython.inline
def store_site(
    sites: u64[:, ::1],
    row: cython.size_t,
    function: cython.longlong,
    origin: u64,
    values: u64[::1],
    classes: u64[::1],
) -> cython.int:
    """Store a call site in the function in row `function`, which is negative if no function is around it."""
    flags: u64 = 0
    caller: u64 = 0
    if is_set(values, classes, col.AT_TAIL_CALL):
        flags |= col.TAIL_CALL
    if classes[col.AT_RETURN_PC] == col.CLS_ADDRESS:
        sites[row, col.C_PC] = values[col.AT_RETURN_PC]
    else:  # clang's tail calls: DW_AT_call_pc is the jump itself
        sites[row, col.C_PC] = values[col.AT_CALL_PC]
        flags |= col.AT_INSTRUCTION
    if function >= 0:
        caller = function
    else:  # gcc puts some into the abstract instance
        flags |= col.NO_CALLER
    sites[row, col.C_ORIGIN] = origin
    sites[row, col.C_CALLER] = caller | flags << 32
    return 0


@cython.inline
def low_of(values: u64[::1], classes: u64[::1]) -> u64:
    """Return DW_AT_low_pc, 0 if there is none."""
    return values[col.AT_LOW_PC] if classes[col.AT_LOW_PC] == col.CLS_ADDRESS else 0


@cython.inline
def high_of(values: u64[::1], classes: u64[::1], low: u64) -> u64:
    """Return where a function ends: DW_AT_high_pc is an address, or a size."""
    if classes[col.AT_HIGH_PC] == col.CLS_ADDRESS:
        return values[col.AT_HIGH_PC]
    return (low + values[col.AT_HIGH_PC]) & MASK if classes[col.AT_HIGH_PC] != 0 else low


@cython.inline
def small_of(values: u64[::1], classes: u64[::1], slot: cython.size_t) -> u64:
    """Return a constant of 32 bits; 0 if there is none, or a larger one."""
    return values[slot] if classes[slot] == col.CLS_CONSTANT and values[slot] >> 32 == 0 else 0


@cython.inline
def store_failed(functions: u64[:, ::1], row: cython.size_t, die: u64, unit: u64) -> cython.int:
    """Store that a DIE cannot be read."""
    column: cython.size_t = 0
    while column < col.S_COUNT_ALL:
        functions[row, column] = 0
        column += 1
    functions[row, col.S_DIE] = die
    functions[row, col.S_FLAGS] = col.FAILED | unit << 32
    return 0
