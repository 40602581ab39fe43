"""One DIE: its abbreviation, and the values of its attributes in their slots.

The operations of an abbreviation (see `_forms`) run over the bytes of a DIE. Each value goes to its slot in
`values`, and its class to the same slot of `classes`, in which 0 means that the DIE lacks the attribute.
"""

from __future__ import annotations

from icf._bytes import entry_at, leb, word
from icf._types import Bytes, u64
from icf.dwarf import columns as col
from icf.dwarf._forms import operation
from icf.string_kinds import IN_INFO, IN_LINE_STR, IN_STR, IN_SUP_STR, STRING_KIND

try:
    import cython
except ImportError:
    from icf import _nocython as cython

OUTSIDE = 0xFFFFFFFFFFFFFFFF  # instead of an origin


@cython.inline
def declaration(
    decls: u64[:, ::1], first: cython.size_t, count: cython.size_t, is_dense: cython.bint, code: u64
) -> cython.size_t:
    """Return the row of the abbreviation with this code, one of `count` from `first` on; their end if there is none."""
    low: cython.size_t = first
    high: cython.size_t = first + count
    middle: cython.size_t
    if is_dense:
        return first + code - 1 if code <= count else high
    while low < high:
        middle = (low + high) >> 1
        if decls[middle, col.D_CODE] < code:
            low = middle + 1
        else:
            high = middle
    if low < first + count and decls[low, col.D_CODE] == code:
        return low
    return first + count


@cython.inline
def indirect(operations: cython.const[cython.uint][:, ::1], variant: cython.size_t, form: u64, packed: u64) -> u64:
    """Return the operation for a form that stands in the DIE, with the slot of `packed`; NO_FORM if it cannot."""
    found: u64 = col.NO_FORM
    if form < 0x40:
        found = operation(operations, variant, form)
    if found == col.NO_FORM or found & 15 == col.ENC_INDIRECT or found & 15 == col.ENC_IMPLICIT:
        return col.NO_FORM
    if found & 15 == col.ENC_SKIP:
        found |= col.ENC_FIXED
    return found | (packed & 31 << 4)


@cython.inline
def string_end(info: Bytes, pos: cython.size_t, end: cython.size_t) -> cython.size_t:
    """Return the position after the string at `pos`, `end` + 1 if it is cut short."""
    while pos < end and info[pos] != 0:
        pos += 1
    return pos + 1


@cython.inline
def unread(start: cython.size_t, stop: cython.size_t, end: cython.size_t) -> cython.size_t:
    """Return where reading a LEB128 that begins at `start` came to a stop: at `end`, or after ten bytes."""
    return end if stop == end + 1 else start + 10


@cython.inline
def constant_of(info: Bytes, start: cython.size_t, end: cython.size_t) -> u64:
    """Return the constant that an expression consists of, plus 1; 0 if it is none below 2 ** 32."""
    value: u64 = 0
    op: u64
    if start >= end:
        return 0
    op = info[start]
    start += 1
    if op >= 0x30 and op < 0x50:  # DW_OP_lit0 ...
        value = op - 0x30
    elif op == 0x08 and end - start == 1:  # DW_OP_const1u
        value = word(info, start, 1)
        start += 1
    elif op == 0x0A and end - start == 2:  # DW_OP_const2u
        value = word(info, start, 2)
        start += 2
    elif op == 0x10 and end - start <= 4:  # DW_OP_constu
        value, start = leb(info, start, end)
    else:
        return 0
    return value + 1 if start == end else 0


@cython.inline
def string_ref(units: u64[:, ::1], unit: cython.size_t, str_offsets: Bytes, value: u64, value_class: u64) -> u64:
    """Return the reference to a string; 0 for none, or an index outside of its table."""
    kind: u64 = 0
    limit: cython.size_t = len(str_offsets)
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


@cython.inline
def put_address(
    values: u64[::1], classes: u64[::1], slot: cython.size_t, units: u64[:, ::1], unit: cython.size_t, addr: Bytes
) -> u64:
    """Replace an index in .debug_addr by the address; return an error, 0 for none."""
    at: cython.size_t
    limit: cython.size_t = len(addr)
    if classes[slot] == col.CLS_ADDRESS_INDEX:
        at = entry_at(addr, units[unit, col.ADDR_BASE], values[slot], units[unit, col.ADDRESS_SIZE])
        if at >= limit:
            return col.ERR_ADDRESS_INDEX
        values[slot] = word(addr, at, units[unit, col.ADDRESS_SIZE])
        classes[slot] = col.CLS_ADDRESS
    return 0


@cython.inline
def origin_of(
    values: u64[::1], classes: u64[::1], slot: cython.size_t, units: u64[:, ::1], unit: cython.size_t, more_size: u64
) -> u64:
    """Return the DIE that an attribute refers to; 0 if there is none or it is not loaded; OUTSIDE of its unit."""
    value: u64 = values[slot]
    if classes[slot] == col.CLS_UNIT_REF:
        if value < units[unit, col.END] - units[unit, col.OFFSET]:
            return units[unit, col.OFFSET] + value
        return OUTSIDE
    if classes[slot] == col.CLS_INFO_REF:
        return units[unit, col.REF_BASE] + value if value < units[unit, col.REF_LIMIT] else OUTSIDE
    if classes[slot] == col.CLS_SUP and units[unit, col.SUP_BASE] != 0:
        return units[unit, col.SUP_BASE] + value if value < more_size else OUTSIDE
    return 0


@cython.inline
def range_flags(classes: u64[::1]) -> u64:
    """Return the flags that describe how the ranges of a DIE are given."""
    flags: u64 = 0
    if classes[col.AT_LOW_PC] == col.CLS_ADDRESS:
        flags |= col.HAS_LOW
    if classes[col.AT_RANGES] == col.CLS_OFFSET or classes[col.AT_RANGES] == col.CLS_CONSTANT:
        flags |= col.RANGES_AT
    elif classes[col.AT_RANGES] == col.CLS_LIST_INDEX:
        flags |= col.RANGES_INDEX
    return flags


@cython.inline
def is_set(values: u64[::1], classes: u64[::1], slot: cython.size_t) -> cython.bint:
    """Return whether a flag is there and true."""
    return classes[slot] != 0 and values[slot] != 0


@cython.inline
def value_or_0(values: u64[::1], classes: u64[::1], slot: cython.size_t) -> u64:
    """Return the value of an attribute, 0 if the DIE lacks it."""
    return values[slot] if classes[slot] != 0 else 0


@cython.inline
def forget(classes: u64[::1], slot: cython.size_t) -> cython.int:
    """Empty the slots from `slot` on."""
    while slot <= col.AT_STMT_SEQUENCE:
        classes[slot] = 0
        slot += 1
    classes[col.AT_SIBLING] = 0
    return 0


@cython.inline
def forget_other_kinds(classes: u64[::1], kind: u64) -> cython.int:
    """Empty the slots that mean something else in a DIE that is not a function."""
    callee_class: u64 = classes[col.AT_ORIGIN]
    if kind != col.KIND_FUNCTION:
        forget(classes, col.AT_LOW_PC + 1)
    if kind == col.KIND_SITE:
        classes[col.AT_ORIGIN] = callee_class
    return 0


@cython.inline
def has_pc(classes: u64[::1]) -> cython.bint:
    """Return whether a call site says where it is."""
    return classes[col.AT_RETURN_PC] == col.CLS_ADDRESS or classes[col.AT_CALL_PC] == col.CLS_ADDRESS


@cython.inline
def is_bare(mode: cython.int, origin: u64, classes: u64[::1]) -> cython.bint:
    """Return whether a scan wants a function without code: one defined here; for READ_SITES, a local one."""
    if classes[col.AT_DECLARATION] != 0:
        return False
    if mode != col.READ_SITES:
        return mode == col.READ_SUBPROGRAMS
    if classes[col.AT_INLINE] != 0 or (classes[col.AT_LINKAGE_NAME] != 0 and origin != 0):
        return False  # gcc describes by name and origin constructors that are inlined
    return classes[col.AT_EXTERNAL] == 0
