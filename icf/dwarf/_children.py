# cython: language_level=3, boundscheck=True, wraparound=False
"""Reads DIEs with those directly below them: parameters of functions, members and bases of classes; or functions with
their variables.

`icf.dwarf.children` describes the rows, whose columns are L_*. A DIE that breaks its format ends its list; its own row
has the flag L_FAILED.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import leb, sign_extended, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf import columns as col
    from cython.cimports.icf.dwarf._attributes import (
        OUTSIDE,
        declaration,
        indirect,
        origin_of,
        string_end,
    )
    from cython.cimports.icf.dwarf._forms import variant_of
else:
    from icf._bytes import leb, sign_extended, word
    from icf._types import Bytes, u64
    from icf.dwarf import columns as col
    from icf.dwarf._attributes import (
        OUTSIDE,
        declaration,
        indirect,
        origin_of,
        string_end,
    )
    from icf.dwarf._forms import variant_of


@cython.ccall
def read_children(
    info: Bytes,
    before: u64,
    more_size: u64,
    units: u64[:, ::1],
    unit: cython.size_t,
    tables: u64[:, ::1],
    decls: u64[:, ::1],
    ops: cython.const[cython.uint][::1],
    consts: u64[::1],
    operations: cython.const[cython.uint][:, ::1],
    picks: u64[::1],
    first: cython.size_t,
    last: cython.size_t,
    variables: cython.bint,
    rows: u64[:, ::1],
    scratch: u64[::1],
    result: u64[::1],
) -> cython.int:
    """Read the DIEs `picks[first:last]` of one unit, as many as fit.

    info     the bytes of the unit; `before`: the offset of the first one
    variables  below a DIE, at any depth, only variables and parameters with a list or a register have rows
    rows     u64[n, L_COUNT]
    scratch  u64[2 * SLOT_COUNT]
    result   u64[2]: the pick to go on with, and how many rows are filled
    """
    values: u64[::1] = scratch[: col.SLOT_COUNT]
    classes: u64[::1] = scratch[col.SLOT_COUNT :]
    table: cython.size_t = units[unit, col.TABLE]
    first_decl: cython.size_t = tables[table, col.T_FIRST]
    decl_count: cython.size_t = tables[table, col.T_COUNT]
    is_dense: cython.bint = tables[table, col.T_DENSE] & 1 != 0
    first_const: cython.size_t = tables[table, col.T_DENSE] >> 32
    variant: cython.size_t = variant_of(
        units[unit, col.VERSION], units[unit, col.ADDRESS_SIZE], units[unit, col.OFFSET_SIZE]
    )
    end: cython.size_t = info.shape[0]
    count: cython.size_t = 0
    before_pick: cython.size_t
    i: cython.size_t = first
    pos: cython.size_t
    die: cython.size_t
    code: u64
    decl: cython.size_t
    op: cython.size_t
    op_end: cython.size_t
    packed: u64
    encoding: u64
    argument: u64
    slot: cython.size_t
    value: u64
    start: cython.size_t
    depth: cython.longlong
    is_full: cython.bint
    is_bad: cython.bint
    has_method: cython.bint
    is_row: cython.bint
    tag: u64
    target: u64
    block_bytes: u64
    with cython.nogil:
        while i < last:
            before_pick = count
            pos = picks[i] - before
            depth = 0
            is_full = False
            has_method = False
            is_bad = tables[table, col.T_ERROR] != 0 or units[unit, col.ERROR] != 0
            while not is_bad:
                if pos >= end:
                    is_bad = True
                    break
                die = pos
                code = info[pos]
                pos += 1
                if code >= 0x80:
                    code, pos = leb(info, die, end)
                    if pos > end:
                        is_bad = True
                        break
                if code == 0:
                    depth -= 1
                    if depth <= 0:
                        is_bad = depth < 0
                        break
                    continue
                decl = declaration(decls, first_decl, decl_count, is_dense, code)
                if decl >= first_decl + decl_count:
                    is_bad = True
                    break
                tag = decls[decl, col.D_TAG]
                op = decls[decl, col.D_OPS] & 0x7FFFFFFF
                op_end = decls[decl, col.D_OPS] >> 32
                slot = 0
                block_bytes = 0
                while slot < col.LT_COUNT:
                    classes[slot] = 0
                    slot += 1
                while op < op_end:
                    packed = ops[op]
                    op += 1
                    encoding = packed & 15
                    argument = packed >> 14
                    if encoding == col.ENC_INDIRECT:
                        value, pos = leb(info, pos, end)
                        packed = col.NO_FORM
                        if pos <= end:
                            packed = indirect(operations, variant, value, ops[op - 1])
                        if packed == col.NO_FORM:
                            is_bad = True
                            break
                        encoding = packed & 15
                        argument = packed >> 14
                    slot = packed >> 4 & 31
                    value = 0
                    if encoding == col.ENC_SKIP or encoding == col.ENC_FIXED or encoding == col.ENC_BLOCK:
                        if argument > end - pos:
                            is_bad = True
                            break
                        if encoding != col.ENC_SKIP and argument <= 8:
                            value = word(info, pos, argument)
                        pos += argument
                    elif encoding == col.ENC_ULEB or encoding == col.ENC_SLEB or encoding == col.ENC_ULEB_BLOCK:
                        start = pos
                        value, pos = leb(info, pos, end)
                        if pos > end:
                            is_bad = True
                            break
                        if encoding == col.ENC_SLEB:
                            value = sign_extended(value, info[pos - 1], pos - start)
                    elif encoding == col.ENC_STRING:
                        value = pos + before
                        pos = string_end(info, pos, end)
                        if pos > end:
                            is_bad = True
                            break
                    elif encoding == col.ENC_PRESENT:
                        value = 1
                    else:
                        value = consts[first_const + argument]
                    if encoding == col.ENC_BLOCK or encoding == col.ENC_ULEB_BLOCK:
                        if value > end - pos:
                            is_bad = True
                            break
                        if slot == col.LT_PLACE:
                            block_bytes = value
                        pos += value
                        value = pos - value
                    if slot != 0:
                        values[slot] = value
                        classes[slot] = packed >> 9 & 31
                if is_bad:
                    break
                if variables:
                    is_row = tag == col.TAG_VARIABLE or tag == col.TAG_FORMAL_PARAMETER
                    is_row = is_row and place_of(info, values, classes, block_bytes) != 0
                else:
                    is_row = depth == 1 and is_wanted(tag, classes[col.LT_LINKAGE_NAME] != 0, has_method)
                if depth == 0 or is_row:
                    if count >= rows.shape[0]:
                        is_full = True
                        break
                    has_method |= depth == 1 and tag == col.TAG_SUBPROGRAM
                    rows[count, col.L_OWNER] = i
                    rows[count, col.L_DIE] = die + before
                    rows[count, col.L_TAG] = tag
                    target = origin_of(values, classes, col.LT_TYPE, units, unit, more_size)
                    rows[count, col.L_FLAGS] = flags_of(values, classes) | place_of(info, values, classes, block_bytes)
                    if target == OUTSIDE or target == 0 and classes[col.LT_TYPE] != 0:
                        rows[count, col.L_FLAGS] |= col.L_FAILED
                        target = 0
                    rows[count, col.L_TYPE] = target
                    target = origin_of(values, classes, col.LT_ORIGIN, units, unit, more_size)
                    rows[count, col.L_ORIGIN] = 0 if target == OUTSIDE else target
                    rows[count, col.L_PLACE] = 0
                    if rows[count, col.L_FLAGS] & col.L_REGISTER:
                        rows[count, col.L_PLACE] = info[values[col.LT_PLACE]] - 0x50
                    elif rows[count, col.L_FLAGS] & (col.L_LIST | col.L_LIST_INDEX):
                        rows[count, col.L_PLACE] = values[col.LT_PLACE]
                    rows[count, col.L_OFFSET] = constant(values, classes, col.LT_LOCATION)
                    rows[count, col.L_SIZE] = constant(values, classes, col.LT_SIZE)
                    count += 1
                if decls[decl, col.D_KIND] >> 8 != 0:
                    depth += 1
                if depth == 0:
                    break
            if is_full:
                count = before_pick
                break
            if is_bad:
                count = before_pick
                if count >= rows.shape[0]:
                    break
                slot = 0
                while slot < col.L_COUNT:
                    rows[count, slot] = 0
                    slot += 1
                rows[count, col.L_OWNER] = i
                rows[count, col.L_DIE] = picks[i]
                rows[count, col.L_FLAGS] = col.L_FAILED
                count += 1
            i += 1
        result[0] = i
        result[1] = count
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_wanted(tag: u64, is_named: cython.bint, has_method: cython.bint) -> cython.bint:
    """Return whether a child has a row; of the methods of a class the first one with a linkage name has."""
    if tag == col.TAG_SUBPROGRAM:
        return is_named and not has_method
    return tag == col.TAG_FORMAL_PARAMETER or tag == col.TAG_MEMBER or tag == col.TAG_INHERITANCE


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def flags_of(values: u64[::1], classes: u64[::1]) -> u64:
    """Return the flags of a row, but for those of its place."""
    flags: u64 = 0
    if classes[col.LT_OBJECT_POINTER] != 0:
        flags |= col.L_METHOD
    if classes[col.LT_VIRTUALITY] != 0 and values[col.LT_VIRTUALITY] != 0:
        flags |= col.L_VIRTUAL
    if classes[col.LT_EXTERNAL] != 0:
        flags |= col.L_STATIC
    return flags


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def place_of(info: Bytes, values: u64[::1], classes: u64[::1], block_bytes: u64) -> u64:
    """Return the flag that says what DW_AT_location has: a list, or one register; 0 for anything else."""
    if classes[col.LT_PLACE] == col.CLS_OFFSET:
        return col.L_LIST
    if classes[col.LT_PLACE] == col.CLS_LIST_INDEX:
        return col.L_LIST_INDEX
    if classes[col.LT_PLACE] == col.CLS_BLOCK and block_bytes == 1:
        if info[values[col.LT_PLACE]] >= 0x50 and info[values[col.LT_PLACE]] <= 0x6F:  # DW_OP_reg0, DW_OP_reg31
            return col.L_REGISTER
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def constant(values: u64[::1], classes: u64[::1], slot: cython.size_t) -> u64:
    """Return a constant plus 1; 0 if there is none, or one that is not small."""
    if classes[slot] != col.CLS_CONSTANT or values[slot] >> 32 != 0:
        return 0
    return values[slot] + 1
