# cython: language_level=3, boundscheck=True, wraparound=False
"""One pass over the DIEs of .debug_info: functions that have code, and the call sites in them.

`scan` walks whole units and stores one row for each subprogram that has an address and one for each
call site that names its callee; it steps over everything else. It can also read given DIEs with all of their
attributes: most names and origins are never needed, so they are read afterwards, for the few functions
that matter.

Rows are 64-bit words, whose columns `columns` names. A string is a reference (STRING_KIND). An origin is an
offset in .debug_info, 0 if there is none (or it is not loaded).

The units of other files, split units and those of a supplementary file, lie in `more`, which counts as the continuation
of `info`: all offsets of DIEs and units go on after the end of `info`.

An error ends only its unit; the rows that the unit had filled so far are removed.
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
        constant_of,
        declaration,
        forget,
        forget_other_kinds,
        has_pc,
        indirect,
        is_bare,
        origin_of,
        put_address,
        range_flags,
        string_end,
        unread,
    )
    from cython.cimports.icf.dwarf._forms import variant_of
    from cython.cimports.icf.dwarf._rows import (
        store_details,
        store_failed,
        store_function,
        store_inlined,
        store_site,
        store_unit,
    )
    from cython.cimports.icf.dwarf._walk import (
        NOT_STORED,
        OUTSIDE_OF_FUNCTIONS,
        function_around,
        has_no_code,
        inlined_around,
        reads,
    )
else:
    from icf._bytes import leb, sign_extended, word
    from icf._types import Bytes, u64
    from icf.dwarf import columns as col
    from icf.dwarf._attributes import (
        OUTSIDE,
        constant_of,
        declaration,
        forget,
        forget_other_kinds,
        has_pc,
        indirect,
        is_bare,
        origin_of,
        put_address,
        range_flags,
        string_end,
        unread,
    )
    from icf.dwarf._forms import variant_of
    from icf.dwarf._rows import (
        store_details,
        store_failed,
        store_function,
        store_inlined,
        store_site,
        store_unit,
    )
    from icf.dwarf._walk import NOT_STORED, OUTSIDE_OF_FUNCTIONS, function_around, has_no_code, inlined_around, reads


@cython.ccall
def scan(
    info: Bytes,
    info_start: cython.size_t,
    more: Bytes,
    addr: Bytes,
    str_offsets: Bytes,
    units: u64[:, ::1],
    tables: u64[:, ::1],
    decls: u64[:, ::1],
    ops: cython.const[cython.uint][::1],
    consts: u64[::1],
    operations: cython.const[cython.uint][:, ::1],
    first: cython.size_t,
    last: cython.size_t,
    mode: cython.int,
    picks: u64[:, ::1],
    stack: cython.int[::1],
    functions: u64[:, ::1],
    sites: u64[:, ::1],
    result: u64[::1],
) -> cython.int:
    """Scan units first..last, or read the DIEs `picks`; see the module's text.

    info       .debug_info from `info_start` on: all of the units that are read, but those in `more`
    units, tables, decls, ops, consts
               as `_unit_headers` and `_abbrev` fill them, TABLE replaced by the row in `tables`; on return all columns
               of `units` are filled
    operations as in `_forms`, for DW_FORM_indirect
    mode       READ_*
    picks      u64[n, 2], for READ_DIES and READ_SITES_OF: offset of a DIE, its unit's row; first..last are rows of it
    stack      i32 scratch, its length (of READ_SITES_OF and READ_INLINED: half of it) bounds the nesting
    functions  rows of functions, columns S_*
    sites      rows of call sites, columns C_*, or of inlined calls, I_*
    result     u64[R_SIZE], columns R_*; R_NEXT < last means that an output was full before that unit: make it larger or
               go on with a fresh one
    """
    values: u64[::1] = result[col.R_VALUES : col.R_VALUES + col.SLOT_COUNT]
    classes: u64[::1] = result[col.R_VALUES + col.SLOT_COUNT : col.R_SIZE]
    is_picked: cython.bint = mode == col.READ_DIES or mode == col.READ_SITES_OF
    room: cython.size_t = stack.shape[0]
    main: Bytes = info
    in_more: cython.bint = False
    i: cython.size_t = first
    n_functions: cython.size_t = 0
    n_sites: cython.size_t = 0
    function_count: cython.size_t  # before this unit
    site_count: cython.size_t
    unit: cython.size_t
    before: u64
    end: cython.size_t
    variant: cython.size_t
    table: cython.size_t
    first_decl: cython.size_t
    decl_count: cython.size_t
    is_dense: cython.bint
    first_const: cython.size_t
    is_full: cython.bint
    err: u64
    pos: cython.size_t
    depth: cython.size_t
    scopes: cython.int
    die: cython.size_t
    code: u64
    decl: cython.size_t
    kind: u64
    has_children: cython.bint
    is_stored: cython.bint
    op: cython.size_t
    op_end: cython.size_t
    packed: u64
    encoding: u64
    argument: u64
    slot: cython.size_t
    value: u64
    start: cython.size_t
    flags: u64
    address_idx: u64
    origin: u64
    sibling: u64
    row: cython.longlong
    if mode == col.READ_SITES_OF or mode == col.READ_INLINED:
        room >>= 1
    with cython.nogil:
        while i < last and n_functions < functions.shape[0]:
            unit = picks[i, 1] if is_picked else i
            before = units[unit, col.SHIFT]
            if (before != 0) != in_more:
                in_more = before != 0
                if in_more:
                    info = more
                else:
                    info = main
            if before == 0:
                before = info_start
            end = units[unit, col.END] - before
            pos = (picks[i, 0] if is_picked else units[unit, col.DIE]) - before
            table = units[unit, col.TABLE]
            first_decl = tables[table, col.T_FIRST]
            decl_count = tables[table, col.T_COUNT]
            is_dense = tables[table, col.T_DENSE] & 1 != 0
            first_const = tables[table, col.T_DENSE] >> 32
            variant = variant_of(units[unit, col.VERSION], units[unit, col.ADDRESS_SIZE], units[unit, col.OFFSET_SIZE])
            err = units[unit, col.ERROR]
            if err == 0 and mode != col.READ_DIES and mode != col.READ_UNIT_DIES:
                if has_no_code(units[unit, col.UNIT_TYPE]):
                    i += 1
                    continue
            if err == 0 and tables[table, col.T_ERROR] != 0:
                err = col.ERR_TABLE
            if is_picked and (pos + before < units[unit, col.DIE] or pos >= end):
                err = col.ERR_NO_DIE
            function_count = n_functions
            site_count = n_sites
            is_full = False
            depth = 0
            scopes = 0
            while err == 0:
                # -- the abbreviation of the DIE
                if pos >= end:
                    if depth > 0 or mode == col.READ_DIES:
                        err = col.ERR_CUT
                    break
                die = pos
                code = info[pos]
                pos += 1
                if code >= 0x80:
                    code, pos = leb(info, die, end)
                    if pos > end:
                        pos = unread(die, pos, end)
                        err = col.ERR_CUT
                        break
                if code == 0:
                    if mode == col.READ_DIES:
                        err = col.ERR_NO_DIE
                        break
                    if depth <= 1:
                        break
                    depth -= 1
                    continue
                decl = declaration(decls, first_decl, decl_count, is_dense, code)
                if decl >= first_decl + decl_count:
                    err = col.ERR_CODE
                    break
                kind = decls[decl, col.D_KIND] & 0xFF
                has_children = decls[decl, col.D_KIND] >> 8 != 0
                op = decls[decl, col.D_OPS] & 0x7FFFFFFF
                op_end = decls[decl, col.D_OPS] >> 32
                is_stored = kind != col.KIND_OTHER or mode == col.READ_DIES
                if is_stored:
                    forget(classes, 1)
                # -- its attributes
                while op < op_end:
                    packed = ops[op]
                    op += 1
                    encoding = packed & 15
                    argument = packed >> 14
                    if encoding == col.ENC_SKIP:
                        if argument > end - pos:
                            err = col.ERR_CUT
                            break
                        pos += argument
                        continue
                    if encoding == col.ENC_INDIRECT:
                        start = pos
                        value, pos = leb(info, pos, end)
                        if pos > end:
                            pos = unread(start, pos, end)
                            err = col.ERR_CUT
                            break
                        packed = indirect(operations, variant, value, packed)
                        if packed == col.NO_FORM:
                            err = col.ERR_FORM
                            break
                        encoding = packed & 15
                        argument = packed >> 14
                    slot = packed >> 4 & 31
                    value = 0
                    if encoding == col.ENC_FIXED or encoding == col.ENC_BLOCK:
                        if argument > end - pos:
                            err = col.ERR_CUT
                            break
                        if (slot != 0 or encoding == col.ENC_BLOCK) and argument <= 8:
                            value = word(info, pos, argument)
                        pos += argument
                    elif encoding == col.ENC_ULEB or encoding == col.ENC_SLEB or encoding == col.ENC_ULEB_BLOCK:
                        start = pos
                        value, pos = leb(info, pos, end)
                        if pos > end:
                            pos = unread(start, pos, end)
                            err = col.ERR_CUT
                            break
                        if encoding == col.ENC_SLEB:
                            value = sign_extended(value, info[pos - 1], pos - start)
                    elif encoding == col.ENC_STRING:
                        value = pos + before
                        pos = string_end(info, pos, end)
                        if pos > end:
                            pos = end
                            err = col.ERR_CUT
                            break
                    elif encoding == col.ENC_PRESENT:
                        value = 1
                    else:
                        value = consts[first_const + argument]
                    if encoding == col.ENC_BLOCK or encoding == col.ENC_ULEB_BLOCK:
                        if value > end - pos:
                            err = col.ERR_CUT
                            break
                        pos += value
                        if slot == col.AT_VTABLE_SLOT:
                            value = constant_of(info, pos - value, pos)
                    if slot != 0:
                        values[slot] = value
                        classes[slot] = packed >> 9 & 31
                if err != 0:
                    break
                # -- what follows from its kind
                row = NOT_STORED
                if mode == col.READ_DIES:
                    forget_other_kinds(classes, kind)
                elif kind == col.KIND_TYPE:
                    if has_children and classes[col.AT_SIBLING] == col.CLS_UNIT_REF:
                        if depth == 0 or stack[depth - 1] == OUTSIDE_OF_FUNCTIONS:
                            sibling = units[unit, col.OFFSET] - before + values[col.AT_SIBLING]
                            if sibling <= pos or sibling > end:
                                err = col.ERR_SIBLING
                                break
                            pos = sibling
                            if depth == 0:
                                break
                            continue
                elif kind == col.KIND_UNIT:
                    if depth == 0 and mode != col.READ_SITES_OF:
                        err = store_unit(units, unit, values, classes, addr, str_offsets)
                        if err != 0:
                            break
                if mode == col.READ_UNIT_DIES:
                    break
                # -- the row that it fills
                if is_stored and reads(mode, kind):
                    address_idx = values[col.AT_LOW_PC] + 1 if classes[col.AT_LOW_PC] == col.CLS_ADDRESS_INDEX else 0
                    err = put_address(values, classes, col.AT_LOW_PC, units, unit, addr)
                    if err == 0:
                        err = put_address(values, classes, col.AT_HIGH_PC, units, unit, addr)
                    if err != 0:
                        break
                    origin = origin_of(values, classes, col.AT_ORIGIN, units, unit, more.shape[0])
                    if origin == OUTSIDE:
                        err = col.ERR_REFERENCE
                        break
                    if kind == col.KIND_FUNCTION or mode == col.READ_DIES:
                        flags = range_flags(classes)
                        if flags != 0 or mode == col.READ_DIES or is_bare(mode, origin, classes):
                            if n_functions >= functions.shape[0]:
                                is_full = True
                                break
                            store_function(functions, n_functions, die + before, flags, unit, origin, values, classes)
                            if mode == col.READ_DIES or mode == col.READ_SUBPROGRAMS:
                                store_details(functions, n_functions, units, unit, values, classes, str_offsets)
                                functions[n_functions, col.S_TAG] = decls[decl, col.D_TAG]
                            elif mode == col.READ_INLINED:
                                functions[n_functions, col.S_ADDRESS_IDX] = address_idx
                                functions[n_functions, col.S_SEQUENCE] = 0
                                if classes[col.AT_STMT_SEQUENCE] == col.CLS_OFFSET:
                                    functions[n_functions, col.S_SEQUENCE] = values[col.AT_STMT_SEQUENCE] + 1
                            if flags != 0 or mode != col.READ_SITES:
                                row = n_functions
                            n_functions += 1
                            if mode == col.READ_DIES:
                                break
                    elif kind == col.KIND_INLINED:
                        if depth > 0 and stack[depth - 1] >= 0:
                            if n_sites >= sites.shape[0]:
                                is_full = True
                                break
                            store_inlined(
                                sites, n_sites, stack[depth - 1], stack[room + depth - 1], origin, values, classes
                            )
                            n_sites += 1
                    elif origin != 0 and depth > 0 and mode != col.READ_SUBPROGRAMS and has_pc(classes):
                        if n_sites >= sites.shape[0]:
                            is_full = True
                            break
                        store_site(sites, n_sites, stack[depth - 1], origin, values, classes)
                        if mode == col.READ_SITES_OF:
                            sites[n_sites, col.C_SCOPE] = stack[room + depth - 1]
                        n_sites += 1
                # -- its children
                if has_children:
                    if depth >= room:
                        err = col.ERR_DEPTH
                        break
                    if mode == col.READ_SITES_OF:
                        stack[room + depth] = scopes
                        scopes = (scopes + 1) & 0x7FFFFFFF
                    elif mode == col.READ_INLINED:
                        stack[room + depth] = inlined_around(stack, depth, room, kind, n_sites)
                    stack[depth] = function_around(stack, depth, kind, row)
                    depth += 1
                elif depth == 0:
                    break
            if is_full or err != 0:
                n_functions = function_count
                n_sites = site_count
            if is_full:
                break
            if err != 0:
                if mode == col.READ_DIES:
                    store_failed(functions, n_functions, picks[i, 0], unit)
                    n_functions += 1
                elif units[unit, col.ERROR] == 0 and mode != col.READ_SITES_OF:
                    units[unit, col.ERROR] = err
                    units[unit, col.ERROR_AT] = pos + before
            i += 1
    result[col.R_NEXT] = i
    result[col.R_FUNCTIONS] = n_functions
    result[col.R_SITES] = n_sites
    return 0
