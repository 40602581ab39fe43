# cython: language_level=3, boundscheck=True, wraparound=False
"""One pass over the DIEs of .debug_info: functions that have code, and the call sites in them.

`scan` walks whole units and stores one row for each subprogram that has an address and one for each
call site that names its callee; all else is stepped over. Given `picks` it reads just those DIEs
instead, with all of their attributes: most names and origins are never needed, so they are read
afterwards, for the few functions that matter.

Rows are 64-bit words. A string is a reference, kind << 60 | offset: kind 1 in .debug_info itself,
2 .debug_str, 3 .debug_line_str, 4 .debug_str of a supplementary file, 5 of split units, 0 none. An origin is an
offset in .debug_info, 0 if there is none (or none that is at hand).

The units of other files, split units and those of a supplementary file, lie in `more`, which counts as the continuation
of `info`: all offsets of DIEs and units go on behind the end of `info`.

Any error ends its unit only; what the unit had given so far is taken back.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

MASK = 0xFFFFFFFFFFFFFFFF


def word(buf, pos, size):
    """The little-endian unsigned integer of `size` bytes at `pos`, which the caller has checked."""
    value = 0
    i = 0
    while i < size:
        value |= as_u64(buf[pos + i]) << (8 * i)
        i += 1
    return value


def as_u64(value):
    return value


def entry_at(table, base, index, size):
    """Where entry `index` of `size` bytes lies in a table that begins at `base`; the table's end if outside."""
    limit = table.shape[0]
    if base > limit or index >> 40 != 0 or (index + 1) * size > limit - base:
        return limit
    return base + index * size


def scan(
    info,
    more,
    addr,
    str_offsets,
    units,
    tables,
    decls,
    ops,
    consts,
    forms,
    first,
    last,
    mode,
    picks,
    stack,
    subprograms,
    sites,
    result,
):
    """Scan units first..last, or read the DIEs `picks`; see the module's text.

    units        as `_unit_headers` fills them, column 6 replaced by the row in `tables`; on return columns
                 10 stmt_list, 11 name, 12 comp_dir, 13 str_offsets_base, 14 addr_base, 15 rnglists_base,
                 16 low_pc, 17 language, 18 dwo name, 19 flags (1 has stmt_list, 2 skeleton or split, 4 other
                 columns stay as they are, but 11, 17, 20, 26), 20 dwo id, 21 where `more` begins, 0 if in `info`,
                 22 what is added to references to all of .debug_info, 23 their limit, 24 what is added to references to
                 a supplementary file, 0 if it is not there, 25 what is added to offsets in .debug_str, 26 producer
    forms        u32[512]: the operation of each form, for DW_FORM_indirect (see units.indirect_forms)
    mode         0 functions with code, and with flags 0 local ones that have lost theirs, and call sites; 1 the unit
                 DIEs and no more: what names and addresses of other DIEs are relative to; 2 every subprogram that is
                 no declaration, as with picks; 3 as 0, but of the
                 functions `picks` only, and `sites` is u64[n, 4]: the last column tells apart, within a function, the
                 scopes (DIEs) that sites are children of; 4 as 0, but `sites` are the inlined calls, in the order
                 of their DIEs, and `subprograms` is u64[n, 7]: instead of the origin where in .debug_addr the low pc
                 stands + 1, 0 if it stands in place, and behind that DW_AT_LLVM_stmt_sequence + 1
    picks        u64[n, 2]: offset of a DIE, its unit's row; n = 0: scan units
    stack        i32 scratch, its length (in modes 3 and 4: half of it) bounds the nesting
    subprograms  u64[n, 6]: DIE, low, high, ranges, flags | unit << 32, origin; flags: 1 has low, 2 has ranges as
                 an offset, 4 as an index. With picks u64[n, 14]: DIE, low, high, ranges, flags | unit << 32,
                 origin, name, linkage name, decl_line, decl_file, decl_column, tag, containing type (a DIE; 0 for
                 none), slot in the vtable + 1 (0 for none); further flags: 8 declaration, 16 external, 32 inline,
                 64 artificial, 128 could not be read
    sites        u64[n, 3]: pc, origin, caller's row in this call's `subprograms` | flags << 32;
                 flags: 1 tail call, 2 pc is that of the call or jump instruction, not a return address, 4 no caller.
                 In mode 4 u64[n, 6]: low, high (or ranges), origin, function's row | row of the inlined call
                 around it + 1 << 32, call_file | call_line << 32, call_column | flags << 32, as of subprograms
    result       u64[3]: next unit (or pick), rows in subprograms, rows in sites; next < last means an
                 output was full before that unit: make it larger or go on with a fresh one
    """
    pick_mode = picks.shape[0] > 0 and mode != 3
    room = stack.shape[0] >> 1 if mode >= 3 else stack.shape[0]
    n_subs = 0
    n_sites = 0
    i = first
    val = result[3:]  # scratch: 32 values, then 32 classes
    main = info
    in_more = False
    with cython.nogil:
        while i < last:
            unit = picks[i, 1] if pick_mode or mode == 3 else i
            before = units[unit, 21]
            if (before != 0) != in_more:
                in_more = before != 0
                if in_more:
                    info = more
                else:
                    info = main
            unit_offset = units[unit, 0] - before
            end = units[unit, 1] - before
            pos = (picks[i, 0] if pick_mode or mode == 3 else units[unit, 2]) - before
            version = units[unit, 3]
            address_size = units[unit, 4]
            offset_size = units[unit, 5]
            unit_type = units[unit, 7]
            table = units[unit, 6]
            decl_first = tables[table, 4]
            decl_count = tables[table, 5]
            dense = tables[table, 6] & 1
            const_first = tables[table, 6] >> 32
            addr_base = units[unit, 14]
            err = units[unit, 8]
            start_subs = n_subs
            start_sites = n_sites
            if n_subs >= subprograms.shape[0]:
                break
            if not pick_mode and mode != 1 and (unit_type == 2 or unit_type == 6 or unit_type == 4) and err == 0:
                i += 1
                continue  # type units hold no code, skeletons none that the split unit does not describe
            if err == 0 and tables[table, 7] != 0:
                err = 6
            if (pick_mode or mode == 3) and (pos + before < units[unit, 2] or pos >= end):
                err = 9
            depth = 0
            scopes = 0
            full = 0
            while err == 0:
                # -- abbreviation code
                if pos >= end:
                    if depth > 0 or pick_mode:
                        err = 1
                    break
                die = pos
                b = info[pos]
                pos += 1
                code = b
                if b >= 0x80:
                    code = b & 0x7F
                    shift = 7
                    while True:
                        if pos >= end or shift > 63:
                            err = 1
                            break
                        b = info[pos]
                        pos += 1
                        code |= (b & (1 if shift == 63 else 0x7F)) << shift
                        shift += 7
                        if b < 0x80:
                            break
                    if err != 0:
                        break
                if code == 0:
                    if pick_mode:
                        err = 9
                        break
                    if depth <= 1:
                        break
                    depth -= 1
                    continue
                if dense != 0:
                    if code > decl_count:
                        err = 7
                        break
                    decl = decl_first + code - 1
                else:
                    lo = decl_first
                    hi = decl_first + decl_count
                    while lo < hi:
                        mid = (lo + hi) >> 1
                        if decls[mid, 0] < code:
                            lo = mid + 1
                        else:
                            hi = mid
                    if lo >= decl_first + decl_count or decls[lo, 0] != code:
                        err = 7
                        break
                    decl = lo
                op_i = decls[decl, 1] & 0x7FFFFFFF
                op_end = decls[decl, 1] >> 32
                kind = decls[decl, 2] & 0xFF
                children = decls[decl, 2] >> 8
                if kind != 0 or pick_mode:
                    slot = 0
                    while slot < 17:
                        val[32 + slot] = 0
                        slot += 1
                    val[32 + 31] = 0
                # -- attributes
                while op_i < op_end:
                    op = ops[op_i]
                    op_i += 1
                    enc = op & 15
                    arg = op >> 14
                    if enc == 0:
                        if arg > end - pos:
                            err = 1
                            break
                        pos += arg
                        continue
                    slot = (op >> 4) & 31
                    cls = (op >> 9) & 31
                    if enc == 9:
                        # DW_FORM_indirect: the form stands in the DIE
                        form = 0
                        shift = 0
                        while True:
                            if pos >= end or shift > 21:
                                err = 1
                                break
                            b = info[pos]
                            pos += 1
                            form |= (b & 0x7F) << shift
                            shift += 7
                            if b < 0x80:
                                break
                        if err != 0:
                            break
                        if form >= 64:
                            err = 8
                            break
                        slot_form = form | (64 if offset_size == 8 else 0) | (128 if address_size == 8 else 0)
                        op = forms[slot_form | (256 if version == 2 else 0)]
                        if op == 0xFFFFFFF:
                            err = 8
                            break
                        enc = op & 15
                        cls = (op >> 9) & 31
                        arg = op >> 14
                        if enc == 0:
                            enc = 1
                    value = 0
                    if enc == 1:
                        if arg > end - pos:
                            err = 1
                            break
                        if slot != 0 and arg <= 8:
                            shift = 0
                            while shift < 8 * arg:
                                b = info[pos]
                                value |= b << shift
                                pos += 1
                                shift += 8
                        else:
                            pos += arg
                    elif enc == 2 or enc == 3 or enc == 6:
                        shift = 0
                        while True:
                            if pos >= end or shift > 63:
                                err = 1
                                break
                            b = info[pos]
                            pos += 1
                            value |= (b & (1 if shift == 63 else 0x7F)) << shift
                            shift += 7
                            if b < 0x80:
                                break
                        if err != 0:
                            break
                        if enc == 3 and b & 0x40 and shift < 64:
                            value |= (MASK << shift) & MASK
                        if enc == 6:
                            if value > end - pos:
                                err = 1
                                break
                            pos += value
                            if slot == 15:
                                value = constant_of(info, pos - value, pos)
                    elif enc == 4:
                        value = pos + before
                        while True:
                            if pos >= end:
                                err = 1
                                break
                            b = info[pos]
                            pos += 1
                            if b == 0:
                                break
                        if err != 0:
                            break
                    elif enc == 5:
                        if arg > end - pos:
                            err = 1
                            break
                        shift = 0
                        while shift < 8 * arg:
                            b = info[pos]
                            value |= b << shift
                            pos += 1
                            shift += 8
                        if value > end - pos:
                            err = 1
                            break
                        pos += value
                        if slot == 15:
                            value = constant_of(info, pos - value, pos)
                    elif enc == 7:
                        value = 1
                    else:
                        value = consts[const_first + arg]
                    if slot != 0:
                        val[slot] = value
                        val[32 + slot] = cls
                if err != 0:
                    break
                # -- what it is
                row = -1
                if pick_mode:
                    slot = 4 if kind != 1 else 17  # of other kinds these mean something else
                    while slot < 17:
                        if slot != 6 or kind != 2:
                            val[32 + slot] = 0
                        slot += 1
                elif kind == 4:
                    if children != 0 and val[32 + 31] == 8 and (depth == 0 or stack[depth - 1] == -2):
                        value = unit_offset + val[31]
                        if value <= pos or value > end:
                            err = 10
                            break
                        pos = value
                        if depth == 0:
                            break
                        continue
                elif kind == 3:
                    if depth == 0 and mode != 3:
                        err = unit_die(units, unit, val, addr, str_offsets)
                        if err != 0 or mode == 1:
                            break
                        addr_base = units[unit, 14]
                if kind == 1 or (kind == 2 and mode != 4) or (kind == 5 and mode == 4) or pick_mode:
                    # addresses: low_pc or return pc, call pc
                    address_idx = val[3] + 1 if val[32 + 3] == 3 else 0
                    if val[32 + 3] == 3 or val[32 + 4] == 3:
                        err = look_up(val, addr, addr_base, address_size)
                        if err != 0:
                            break
                    low = val[3] if val[32 + 3] == 2 else 0
                    high = low
                    if val[32 + 4] == 2:
                        high = val[4]
                    elif val[32 + 4] != 0:
                        high = (low + val[4]) & MASK
                    origin = 0
                    is_outside = False
                    if val[32 + 6] == 8:
                        origin = unit_offset + val[6] + before
                        is_outside = val[6] >= end - unit_offset
                    elif val[32 + 6] == 9:
                        origin = units[unit, 22] + val[6]
                        is_outside = val[6] >= units[unit, 23]
                    elif val[32 + 6] == 13 and units[unit, 24] != 0:
                        origin = units[unit, 24] + val[6]
                        is_outside = val[6] >= more.shape[0]
                    if is_outside:
                        err = 12
                        break
                    if kind == 1 or pick_mode:
                        flags = 0
                        if val[32 + 3] == 2:
                            flags |= 1
                        if val[32 + 5] == 10 or val[32 + 5] == 1:
                            flags |= 2
                        elif val[32 + 5] == 12:
                            flags |= 4
                        is_bare = flags == 0 and val[32 + 7] == 0 and (mode == 0 or mode == 2)
                        if mode == 0 and is_bare:  # gcc describes constructors that are inlined by name and origin
                            is_inlined = val[32 + 9] != 0 or (val[32 + 2] != 0 and origin != 0)
                            is_bare = val[32 + 8] == 0 and not is_inlined
                        if flags != 0 or pick_mode or is_bare:
                            if n_subs >= subprograms.shape[0]:
                                full = 1
                                break
                            subprograms[n_subs, 0] = die + before
                            subprograms[n_subs, 1] = low
                            subprograms[n_subs, 2] = high
                            subprograms[n_subs, 3] = val[5] if val[32 + 5] != 0 else 0
                            subprograms[n_subs, 5] = origin
                            if pick_mode or mode == 2:
                                subprograms[n_subs, 11] = decls[decl, 3]
                                flags |= store_details(subprograms, n_subs, units, unit, val, str_offsets)
                            elif mode == 4:
                                subprograms[n_subs, 5] = address_idx
                                subprograms[n_subs, 6] = val[16] + 1 if val[32 + 16] == 10 else 0
                            subprograms[n_subs, 4] = flags | unit << 32
                            if flags != 0 or mode != 0:
                                row = n_subs
                            n_subs += 1
                            if pick_mode:
                                break
                    elif kind == 5:
                        if depth > 0 and stack[depth - 1] >= 0:
                            if n_sites >= sites.shape[0]:
                                full = 1
                                break
                            sites[n_sites, 0] = low
                            sites[n_sites, 1] = high
                            sites[n_sites, 2] = origin
                            value = stack[room + depth - 1]
                            sites[n_sites, 3] = value << 32
                            value = stack[depth - 1]
                            sites[n_sites, 3] |= value
                            flags = 1 if val[32 + 3] == 2 else 0
                            if val[32 + 5] == 10 or val[32 + 5] == 1:
                                flags |= 2
                                sites[n_sites, 1] = val[5]
                            elif val[32 + 5] == 12:
                                flags |= 4
                                sites[n_sites, 1] = val[5]
                            value = val[8] if val[32 + 8] == 1 and val[8] >> 32 == 0 else 0
                            sites[n_sites, 4] = value << 32
                            sites[n_sites, 4] |= val[7] if val[32 + 7] == 1 and val[7] >> 32 == 0 else 0
                            value = val[9] if val[32 + 9] == 1 and val[9] >> 32 == 0 else 0
                            sites[n_sites, 5] = value | flags << 32
                            n_sites += 1
                    elif origin != 0 and depth > 0 and (mode == 0 or mode == 3):
                        flags = 0
                        if val[32 + 7] != 0 and val[7] != 0:
                            flags |= 1
                        if val[32 + 3] != 2:
                            low = high  # clang's tail calls: DW_AT_call_pc is the jump itself
                            flags |= 2
                        if flags & 2 == 0 or val[32 + 4] == 2:
                            if n_sites >= sites.shape[0]:
                                full = 1
                                break
                            value = 0
                            if stack[depth - 1] >= 0:
                                value = stack[depth - 1]
                            else:
                                flags |= 4  # gcc hangs some into the abstract instance
                            sites[n_sites, 0] = low
                            sites[n_sites, 1] = origin
                            sites[n_sites, 2] = value | flags << 32
                            if mode == 3:
                                sites[n_sites, 3] = stack[room + depth - 1]
                            n_sites += 1
                if children != 0:
                    if depth >= room:
                        err = 13
                        break
                    if mode == 3:
                        stack[room + depth] = scopes
                        scopes = (scopes + 1) & 0x7FFFFFFF
                    elif mode == 4:  # the row of the inlined call around what follows, plus 1
                        if kind == 5 and depth > 0 and stack[depth - 1] >= 0:
                            stack[room + depth] = n_sites
                        elif kind == 1 or depth == 0:
                            stack[room + depth] = 0
                        else:
                            stack[room + depth] = stack[room + depth - 1]
                    # Code in here belongs to this function, or to the one around: its row, -1 if it has none, -2
                    # outside of functions. gcc puts the methods of a function's own classes inside of the class, so
                    # only a type outside of all functions may be stepped over.
                    if kind == 1:
                        stack[depth] = row
                    elif depth == 0:
                        stack[depth] = -2
                    elif kind == 4 and stack[depth - 1] >= 0:
                        stack[depth] = -1
                    else:
                        stack[depth] = stack[depth - 1]
                    depth += 1
                elif depth == 0:
                    break
            if full != 0:
                n_subs = start_subs
                n_sites = start_sites
                break
            if err != 0:
                n_subs = start_subs
                n_sites = start_sites
                if pick_mode:
                    subprograms[n_subs, 0] = picks[i, 0]
                    value = 1
                    while value < 14:
                        subprograms[n_subs, value] = 0
                        value += 1
                    subprograms[n_subs, 4] = 128 | unit << 32
                    n_subs += 1
                elif units[unit, 8] == 0 and mode != 3:
                    units[unit, 8] = err
                    units[unit, 9] = pos + before
            i += 1
        result[0] = i
        result[1] = n_subs
        result[2] = n_sites
    return 0


def unit_die(units, unit, val, addr, str_offsets):
    """Store what the DIE of a unit says; gives an error, 0 for none."""
    version = units[unit, 3]
    offset_size = units[unit, 5]
    str_base = units[unit, 13]
    if units[unit, 19] & 4 == 0:
        if val[32 + 6] != 0:
            str_base = val[6]
        elif version >= 5:
            str_base = offset_size * 2
        if val[32 + 7] != 0:
            units[unit, 14] = val[7]
        elif version >= 5:
            units[unit, 14] = 8 if offset_size == 4 else 16
        units[unit, 13] = str_base
        units[unit, 15] = val[8] if val[32 + 8] != 0 else 0
        if val[32 + 8] == 0 and version >= 5:
            units[unit, 15] = 12 if offset_size == 4 else 20
        units[unit, 10] = val[4] if val[32 + 4] != 0 else 0
        is_split = val[32 + 10] != 0 or units[unit, 7] == 4 or units[unit, 7] == 5
        units[unit, 19] = (1 if val[32 + 4] != 0 else 0) | (2 if is_split else 0)
        units[unit, 12] = string_ref(val[5], val[32 + 5], str_offsets, str_base, offset_size, units[unit, 25])
        units[unit, 18] = string_ref(val[10], val[32 + 10], str_offsets, str_base, offset_size, units[unit, 25])
        if look_up(val, addr, units[unit, 14], units[unit, 4]) != 0:
            return 11
        units[unit, 16] = val[3] if val[32 + 3] == 2 else 0
    units[unit, 17] = val[9] if val[32 + 9] != 0 else 0
    units[unit, 11] = string_ref(val[1], val[32 + 1], str_offsets, str_base, offset_size, units[unit, 25])
    units[unit, 26] = string_ref(val[12], val[32 + 12], str_offsets, str_base, offset_size, units[unit, 25])
    if val[32 + 11] != 0 and version < 5:
        units[unit, 20] = val[11]
    return 0


def look_up(val, addr, addr_base, address_size):
    """Put addresses in the place of their indices in .debug_addr; gives an error, 0 for none."""
    slot = 3
    while slot < 5:
        if val[32 + slot] == 3:
            value = entry_at(addr, addr_base, val[slot], address_size)
            if value >= addr.shape[0]:
                return 11
            val[slot] = word(addr, value, address_size)
            val[32 + slot] = 2
        slot += 1
    return 0


def store_details(subprograms, row, units, unit, val, str_offsets):
    """Store what only single DIEs are asked for: columns 6 to 13, but the tag; gives the flags that this adds."""
    str_base = units[unit, 13]
    offset_size = units[unit, 5]
    subprograms[row, 6] = string_ref(val[1], val[32 + 1], str_offsets, str_base, offset_size, units[unit, 25])
    subprograms[row, 7] = string_ref(val[2], val[32 + 2], str_offsets, str_base, offset_size, units[unit, 25])
    subprograms[row, 8] = val[10] if val[32 + 10] != 0 else 0
    subprograms[row, 9] = val[11] if val[32 + 11] != 0 else 0
    subprograms[row, 10] = val[13] if val[32 + 13] != 0 else 0
    subprograms[row, 12] = 0
    if val[32 + 14] == 8 and val[14] < units[unit, 1] - units[unit, 0]:
        subprograms[row, 12] = units[unit, 0] + val[14]
    elif val[32 + 14] == 9 and val[14] < units[unit, 23]:
        subprograms[row, 12] = units[unit, 22] + val[14]
    subprograms[row, 13] = val[15] if val[32 + 15] == 11 else 0
    flags = 0
    if val[32 + 7] != 0 and val[7] != 0:
        flags |= 8
    if val[32 + 8] != 0 and val[8] != 0:
        flags |= 16
    if val[32 + 9] != 0 and val[9] != 0:
        flags |= 32
    if val[32 + 12] != 0 and val[12] != 0:
        flags |= 64
    return flags


def constant_of(info, start, end):
    """The constant that an expression consists of, plus 1; 0 if it is none below 2 ** 32."""
    value = 0
    if start < end:
        op = info[start]
        start += 1
        if op >= 0x30 and op < 0x50:  # DW_OP_lit0 ...
            value = op - 0x30 + 1
        elif op == 0x08 and end - start == 1:  # DW_OP_const1u
            value = word(info, start, 1) + 1
            start += 1
        elif op == 0x0A and end - start == 2:  # DW_OP_const2u
            value = word(info, start, 2) + 1
            start += 2
        elif op == 0x10 and end - start <= 4:  # DW_OP_constu
            shift = 0
            while start < end:
                op = info[start]
                start += 1
                value |= (op & 0x7F) << shift
                shift += 7
                if op < 0x80:
                    value += 1
                    break
            else:
                value = 0
        if start != end:
            value = 0
    return value


def string_ref(value, cls, str_offsets, str_base, offset_size, str_kind):
    """A string attribute as kind << 60 | offset; 0 for none, or an index outside of its table."""
    if cls == 7:
        value = entry_at(str_offsets, str_base, value, offset_size)
        if value >= str_offsets.shape[0]:
            return 0
        value = word(str_offsets, value, offset_size)
        cls = 5
    if value >> 60 != 0:
        return 0
    if cls == 4:
        return value | as_u64(1) << 60
    if cls == 5:
        return value + str_kind
    if cls == 6 and str_kind >> 60 == 2:
        return value | as_u64(3) << 60
    if cls == 13:
        return value | as_u64(4) << 60
    return 0
