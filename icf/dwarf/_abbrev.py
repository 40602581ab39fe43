# cython: language_level=3, boundscheck=True, wraparound=False
"""Abbreviation compiler: each abbreviation becomes a short program of packed operations.

The abbreviation of a DIE describes the layout of its bytes (DWARF 5, 7.5.3). Interpreting the pairs of
attribute and form for each DIE is slow, so each abbreviation is compiled once:

* attributes that no reader wants become skips, and adjacent skips of fixed size become one;
* attributes of interest become reads into a numbered slot.

`_forms` describes the operations. Sizes of some forms depend on the unit, so a table is compiled for one
combination of offset size, address size and version. Which attributes are of interest depends on the tag only.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import leb, sign_extended, uleb
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf import columns as col
    from cython.cimports.icf.dwarf._forms import operation, variant_of
else:
    from icf._bytes import leb, sign_extended, uleb
    from icf._types import Bytes, u64
    from icf.dwarf import columns as col
    from icf.dwarf._forms import operation, variant_of


@cython.ccall
def compile_tables(
    abbrev: Bytes,
    operations: cython.const[cython.uint][:, ::1],
    slots: cython.const[cython.uchar][:, ::1],
    inlines: cython.int,
    tables: u64[:, ::1],
    ops: cython.uint[::1],
    decls: u64[:, ::1],
    consts: u64[::1],
    used: u64[::1],
) -> cython.int:
    """Compile abbreviation tables.

    abbrev             the bytes of .debug_abbrev
    operations, slots  as in `_forms`
    inlines            1: read inlined calls as well, which takes a third more time; 0: step over them
    tables             u64[n, 8], columns T_*: which tables, and what became of them
    ops, consts        u32, i64 output; decls  u64[m, 4] output, columns D_*
    used               u64[4]: number of ops, declarations and constants, bytes that may still be read
    """
    count: cython.size_t = tables.shape[0]
    table: cython.size_t = 0
    used[col.OP_COUNT] = 0
    used[col.DECL_COUNT] = 0
    used[col.CONST_COUNT] = 0
    used[col.BUDGET] = 16 * abbrev.shape[0] + 64  # tables may overlap, but not so that reading them takes forever
    with cython.nogil:
        while table < count:
            compile_table(abbrev, operations, slots, inlines, tables, table, ops, decls, consts, used)
            table += 1
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
def compile_table(
    abbrev: Bytes,
    operations: cython.const[cython.uint][:, ::1],
    slots: cython.const[cython.uchar][:, ::1],
    inlines: cython.int,
    tables: u64[:, ::1],
    table: cython.size_t,
    ops: cython.uint[::1],
    decls: u64[:, ::1],
    consts: u64[::1],
    used: u64[::1],
) -> cython.int:
    """Compile the declarations of one table."""
    variant: cython.size_t = variant_of(
        tables[table, col.T_VERSION], tables[table, col.T_ADDRESS_SIZE], tables[table, col.T_OFFSET_SIZE]
    )
    pos: cython.size_t = tables[table, col.T_OFFSET]
    end: cython.size_t = abbrev.shape[0]
    first: u64 = used[col.DECL_COUNT]
    first_const: u64 = used[col.CONST_COUNT]
    start: cython.size_t
    row: cython.size_t
    dense: u64 = 1
    err: u64 = 0
    code: u64
    tag: u64
    children: u64
    kind: u64
    first_op: u64
    while True:
        code, pos = uleb(abbrev, pos, end)
        if code == 0 and pos <= end:
            break
        if pos <= end:
            tag, pos = uleb(abbrev, pos, end)
        if pos >= end:
            err = col.TABLE_CUT
            break
        children = abbrev[pos]
        pos += 1
        if children > 1:
            err = col.TABLE_BROKEN
            break
        row = used[col.DECL_COUNT]
        if row >= decls.shape[0]:
            err = col.TABLE_TOO_LARGE
            break
        kind = kind_of(tag, inlines)
        start = pos
        first_op = used[col.OP_COUNT]
        pos = compile_attributes(abbrev, operations, slots, pos, variant, kind, first_const, ops, consts, used)
        if pos > end:
            err = pos - end
            break
        if pos - start > used[col.BUDGET]:
            err = col.TABLE_TOO_LARGE
            break
        used[col.BUDGET] -= pos - start
        if code != row - first + 1:
            dense = 0
        decls[row, col.D_CODE] = code
        decls[row, col.D_OPS] = first_op | used[col.OP_COUNT] << 32
        decls[row, col.D_KIND] = kind | children << 8
        decls[row, col.D_TAG] = tag
        used[col.DECL_COUNT] = row + 1
    tables[table, col.T_FIRST] = first
    tables[table, col.T_COUNT] = used[col.DECL_COUNT] - first
    tables[table, col.T_DENSE] = dense | first_const << 32
    tables[table, col.T_ERROR] = err
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
def compile_attributes(
    abbrev: Bytes,
    operations: cython.const[cython.uint][:, ::1],
    slots: cython.const[cython.uchar][:, ::1],
    pos: cython.size_t,
    variant: cython.size_t,
    kind: u64,
    first_const: u64,
    ops: cython.uint[::1],
    consts: u64[::1],
    used: u64[::1],
) -> cython.size_t:
    """Compile the attributes of one declaration; return the position after them, or the end plus an error number."""
    end: cython.size_t = abbrev.shape[0]
    op_count: cython.size_t = used[col.OP_COUNT]
    const_count: cython.size_t = used[col.CONST_COUNT]
    slot_limit: u64 = slots.shape[1]
    start: cython.size_t
    attributes: cython.size_t = 0
    skip: u64 = 0  # bytes of a pending fixed skip
    attr: u64
    form: u64
    const: u64
    op: u64
    slot: u64
    encoding: u64
    while True:
        attributes += 1
        if attributes > 4096:  # some take no bytes of a DIE, so this bounds the time for a DIE
            return end + col.TABLE_BROKEN
        attr, pos = uleb(abbrev, pos, end)
        if pos > end:
            return end + col.TABLE_CUT
        form, pos = uleb(abbrev, pos, end)
        if pos > end:
            return end + col.TABLE_CUT
        if attr == 0 and form == 0:
            break
        const = 0
        if form == 0x21:  # DW_FORM_implicit_const: SLEB128 in the table itself
            start = pos
            const, pos = leb(abbrev, pos, end)
            if pos > end:
                return end + col.TABLE_CUT
            const = sign_extended(const, abbrev[pos - 1], pos - start)
        op = operation(operations, variant, form)
        if op == col.NO_FORM:
            return end + col.TABLE_FORM
        slot = slots[kind, attr] if attr < slot_limit else 0
        encoding = op & 15
        if encoding == col.ENC_SKIP and slot == 0:
            skip += op >> 14
            if skip > 0x1FFFF:
                return end + col.TABLE_BROKEN
            continue
        if slot == 0 and (encoding == col.ENC_PRESENT or encoding == col.ENC_IMPLICIT):
            continue  # no bytes, and no reader wants the value
        if op_count + 2 > ops.shape[0]:
            return end + col.TABLE_TOO_LARGE
        if skip != 0:
            ops[op_count] = skip << 14
            op_count += 1
            skip = 0
        if slot != 0 and encoding == col.ENC_SKIP:
            op |= col.ENC_FIXED
        if encoding == col.ENC_IMPLICIT:
            if const_count >= consts.shape[0] or const_count - first_const > 0x3FFF0:
                return end + col.TABLE_TOO_LARGE
            consts[const_count] = const
            op |= (const_count - first_const) << 14
            const_count += 1
        ops[op_count] = op | slot << 4
        op_count += 1
    if skip != 0:
        if op_count >= ops.shape[0]:
            return end + col.TABLE_TOO_LARGE
        ops[op_count] = skip << 14
        op_count += 1
    used[col.OP_COUNT] = op_count
    used[col.CONST_COUNT] = const_count
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
def kind_of(tag: u64, inlines: cython.int) -> u64:
    """Return how the scan treats a DIE of this tag."""
    if tag == 0x2E or tag == 0x03:  # subprogram, entry_point
        return col.KIND_FUNCTION
    if tag == 0x48 or tag == 0x4109:  # call_site, GNU_call_site
        return col.KIND_SITE
    if tag == 0x11 or tag == 0x3C or tag == 0x41 or tag == 0x4A:  # units: compile, partial, type, skeleton
        return col.KIND_UNIT
    if tag == 0x02 or tag == 0x13 or tag == 0x17 or tag == 0x04 or tag == 0x01 or tag == 0x15:
        return col.KIND_TYPE  # no code below it: DW_AT_sibling skips it
    if tag == 0x1D and inlines != 0:  # inlined_subroutine
        return col.KIND_INLINED
    return col.KIND_OTHER
