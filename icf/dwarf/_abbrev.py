# cython: language_level=3, boundscheck=True, wraparound=False
"""Abbreviation compiler: each abbreviation becomes a short program of packed operations.

A DIE is bytes whose layout its abbreviation gives (DWARF 5, 7.5.3). Interpreting the pairs of
attribute and form for each DIE is slow, so each abbreviation is compiled once:

* attributes nobody asks for become skips, and adjacent skips of fixed size become one;
* attributes of interest become reads into a numbered slot.

One operation is one 32-bit word:

    bits  0..3   encoding: how many bytes there are and how their value is found (ENC_*)
    bits  4..8   slot that receives the value, 0 = none (SLOT_*)
    bits  9..13  class of the value (CLASS_*)
    bits 14..31  argument: size in bytes, or index of an implicit constant among those of its table

Sizes of some forms depend on the unit, so a table is compiled for one combination of offset
size, address size and version. Which attributes are of interest depends on the tag only.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

MASK = 0xFFFFFFFFFFFFFFFF


def compile_tables(abbrev, inlines, tables, ops, decls, consts, out):
    """Compile abbreviation tables.

    abbrev  the bytes of .debug_abbrev
    inlines 1: read inlined calls as well, which takes a third more time; 0: step over them
    tables  u64[n, 8]: in: offset, offset_size, address_size, version; out: first declaration, count,
            1 if codes are 1, 2, 3 ... | first constant << 32, error (0 or 1 cut short, 2 breaks a rule,
            3 too large, 4 unknown form; then column 0 is where)
    ops     u32 output; decls  u64[m, 4] output: code, first op | op end << 32,
            DIE kind | has children << 8, tag; consts  i64 output
    out     u64[3]: number of ops, declarations and constants used
    """
    table_count = len(tables)
    n_ops = 0
    n_decls = 0
    n_consts = 0
    budget = 16 * abbrev.shape[0] + 64  # tables may overlap, but not so that reading them takes forever
    with cython.nogil:
        t = 0
        while t < table_count:
            pos = tables[t, 0]
            end = abbrev.shape[0]
            offset_size = tables[t, 1]
            address_size = tables[t, 2]
            version = tables[t, 3]
            first = n_decls
            first_const = n_consts
            dense = 1
            err = 0
            while True:
                # -- abbreviation code
                value = 0
                shift = 0
                while True:
                    if pos >= end or shift > 63:
                        err = 1
                        break
                    b = abbrev[pos]
                    pos += 1
                    if shift == 63 and b > 1:
                        err = 1
                        break
                    value |= (b & 0x7F) << shift
                    shift += 7
                    if b < 0x80:
                        break
                if err != 0 or value == 0:
                    break
                code = value
                # -- tag
                value = 0
                shift = 0
                while True:
                    if pos >= end or shift > 63:
                        err = 1
                        break
                    b = abbrev[pos]
                    pos += 1
                    if shift == 63 and b > 1:
                        err = 1
                        break
                    value |= (b & 0x7F) << shift
                    shift += 7
                    if b < 0x80:
                        break
                if err != 0:
                    break
                tag = value
                if pos >= end:
                    err = 1
                    break
                children = abbrev[pos]
                pos += 1
                if children > 1:
                    err = 2
                    break
                if n_decls >= decls.shape[0]:
                    err = 3
                    break
                kind = 0
                if tag == 0x2E or tag == 0x03:
                    kind = 1
                elif tag == 0x48 or tag == 0x4109:
                    kind = 2
                elif tag == 0x11 or tag == 0x3C or tag == 0x41 or tag == 0x4A:
                    kind = 3
                elif tag == 0x02 or tag == 0x13 or tag == 0x17 or tag == 0x04 or tag == 0x01 or tag == 0x15:
                    kind = 4  # a type: no code below it, skipped by DW_AT_sibling
                elif tag == 0x1D and inlines != 0:
                    kind = 5
                first_op = n_ops
                skip = 0  # bytes of a pending fixed skip
                start = pos
                attributes = 0
                while True:
                    attributes += 1
                    if attributes > 4096:  # some take no bytes of a DIE, so this bounds the time for a DIE
                        err = 2
                        break
                    # -- attribute
                    value = 0
                    shift = 0
                    while True:
                        if pos >= end or shift > 63:
                            err = 1
                            break
                        b = abbrev[pos]
                        pos += 1
                        if shift == 63 and b > 1:
                            err = 1
                            break
                        value |= (b & 0x7F) << shift
                        shift += 7
                        if b < 0x80:
                            break
                    if err != 0:
                        break
                    attr = value
                    # -- form
                    value = 0
                    shift = 0
                    while True:
                        if pos >= end or shift > 63:
                            err = 1
                            break
                        b = abbrev[pos]
                        pos += 1
                        if shift == 63 and b > 1:
                            err = 1
                            break
                        value |= (b & 0x7F) << shift
                        shift += 7
                        if b < 0x80:
                            break
                    if err != 0:
                        break
                    form = value
                    if attr == 0 and form == 0:
                        break
                    const = 0
                    if form == 0x21:  # DW_FORM_implicit_const: SLEB128 in the table itself
                        value = 0
                        shift = 0
                        while True:
                            if pos >= end or shift > 63:
                                err = 1
                                break
                            b = abbrev[pos]
                            pos += 1
                            value |= (b & (1 if shift == 63 else 0x7F)) << shift
                            shift += 7
                            if b < 0x80:
                                if b & 0x40 and shift < 64:
                                    value |= _sign_bits(shift)
                                break
                        if err != 0:
                            break
                        const = value
                    op = form_op(form, offset_size, address_size, version)
                    if op == 0xFFFFFFF:
                        err = 4
                        break
                    slot = slot_of(kind, tag, attr)
                    enc = op & 15
                    if enc == 0 and slot == 0:
                        skip += op >> 14
                        if skip > 0x1FFFF:
                            err = 2
                            break
                        continue
                    if slot == 0 and (enc == 7 or enc == 8):
                        continue  # no bytes and nobody asks
                    if n_ops + 2 > ops.shape[0]:
                        err = 3
                        break
                    if skip != 0:
                        ops[n_ops] = skip << 14
                        n_ops += 1
                        skip = 0
                    if slot != 0 and enc == 0:
                        op |= 1  # a fixed read instead of a skip
                    if enc == 8:
                        if n_consts >= consts.shape[0] or n_consts - first_const > 0x3FFF0:
                            err = 3
                            break
                        consts[n_consts] = const
                        op |= (n_consts - first_const) << 14
                        n_consts += 1
                    ops[n_ops] = op | slot << 4
                    n_ops += 1
                if err != 0:
                    break
                if pos - start > budget:
                    err = 3
                    break
                budget -= pos - start
                if skip != 0:
                    if n_ops >= ops.shape[0]:
                        err = 3
                        break
                    ops[n_ops] = skip << 14
                    n_ops += 1
                if code != n_decls - first + 1:
                    dense = 0
                decls[n_decls, 0] = code
                decls[n_decls, 1] = first_op | n_ops << 32
                decls[n_decls, 2] = kind | children << 8
                decls[n_decls, 3] = tag
                n_decls += 1
            tables[t, 4] = first
            tables[t, 5] = n_decls - first
            tables[t, 6] = dense | first_const << 32
            tables[t, 7] = err
            if err != 0:
                tables[t, 0] = pos
            t += 1
        out[0] = n_ops
        out[1] = n_decls
        out[2] = n_consts
    return 0


def _sign_bits(shift):
    """64 bits that are ones from bit `shift` up."""
    return (MASK << shift) & MASK


def form_op(form, offset_size, address_size, version):
    """The packed operation for a form, without its slot; 0xfffffff for a form that does not exist.

    Encodings: 0 skip n, 1 read n bytes, 2 ULEB, 3 SLEB, 4 string, 5 block with length of n bytes,
    6 block with ULEB length, 7 value 1 without bytes, 8 implicit constant, 9 indirect.
    Classes: 1 constant, 2 address, 3 address index, 4 string in place, 5 .debug_str, 6 .debug_line_str,
    7 string index, 8 unit reference, 9 .debug_info reference, 10 section offset, 11 block, 12 list index,
    13 in the supplementary file, 14 type signature.
    """
    if form == 0x01:
        return 2 << 9 | address_size << 14
    if form == 0x0B:
        return 1 << 9 | 1 << 14
    if form == 0x05:
        return 1 << 9 | 2 << 14
    if form == 0x06:
        return 1 << 9 | 4 << 14
    if form == 0x07:
        return 1 << 9 | 8 << 14
    if form == 0x1E:
        return 11 << 9 | 16 << 14
    if form == 0x0C:
        return 1 << 9 | 1 << 14
    if form == 0x19:
        return 7 | 1 << 9
    if form == 0x21:
        return 8 | 1 << 9
    if form == 0x0F:
        return 2 | 1 << 9
    if form == 0x0D:
        return 3 | 1 << 9
    if form == 0x08:
        return 4 | 4 << 9
    if form == 0x0E:
        return 5 << 9 | offset_size << 14
    if form == 0x1F:
        return 6 << 9 | offset_size << 14
    if form == 0x1A or form == 0x1F02:
        return 2 | 7 << 9
    if form == 0x25:
        return 7 << 9 | 1 << 14
    if form == 0x26:
        return 7 << 9 | 2 << 14
    if form == 0x27:
        return 7 << 9 | 3 << 14
    if form == 0x28:
        return 7 << 9 | 4 << 14
    if form == 0x1B or form == 0x1F01:
        return 2 | 3 << 9
    if form == 0x29:
        return 3 << 9 | 1 << 14
    if form == 0x2A:
        return 3 << 9 | 2 << 14
    if form == 0x2B:
        return 3 << 9 | 3 << 14
    if form == 0x2C:
        return 3 << 9 | 4 << 14
    if form == 0x11:
        return 8 << 9 | 1 << 14
    if form == 0x12:
        return 8 << 9 | 2 << 14
    if form == 0x13:
        return 8 << 9 | 4 << 14
    if form == 0x14:
        return 8 << 9 | 8 << 14
    if form == 0x15:
        return 2 | 8 << 9
    if form == 0x10:
        return 9 << 9 | (address_size if version == 2 else offset_size) << 14
    if form == 0x17:
        return 10 << 9 | offset_size << 14
    if form == 0x0A:
        return 5 | 11 << 9 | 1 << 14
    if form == 0x03:
        return 5 | 11 << 9 | 2 << 14
    if form == 0x04:
        return 5 | 11 << 9 | 4 << 14
    if form == 0x09 or form == 0x18:
        return 6 | 11 << 9
    if form == 0x22 or form == 0x23:
        return 2 | 12 << 9
    if form == 0x1C:
        return 13 << 9 | 4 << 14
    if form == 0x24:
        return 13 << 9 | 8 << 14
    if form == 0x1D or form == 0x1F20 or form == 0x1F21:
        return 13 << 9 | offset_size << 14
    if form == 0x20:
        return 14 << 9 | 8 << 14
    if form == 0x16:
        return 9
    return 0xFFFFFFF


def slot_of(kind, tag, attr):
    """The slot for an attribute of a DIE of that kind; 0 if nobody asks for it."""
    if kind == 0:
        return 0
    if kind == 4:
        return 31 if attr == 0x01 else 0
    if kind == 1:
        if attr == 0x03:
            return 1
        if attr == 0x6E or attr == 0x2007:
            return 2
        if attr == 0x11:
            return 3
        if attr == 0x12:
            return 4
        if attr == 0x55:
            return 5
        if attr == 0x31 or attr == 0x47:
            return 6
        if attr == 0x3C:
            return 7
        if attr == 0x3F:
            return 8
        if attr == 0x20:
            return 9
        if attr == 0x3B:
            return 10
        if attr == 0x3A:
            return 11
        if attr == 0x34:
            return 12
        if attr == 0x39:
            return 13
        if attr == 0x1D:
            return 14
        if attr == 0x4D:
            return 15
        if attr == 0x3E0C:
            return 16
        return 0
    if kind == 5:
        if attr == 0x11:
            return 3
        if attr == 0x12:
            return 4
        if attr == 0x55:
            return 5
        if attr == 0x31:
            return 6
        if attr == 0x58:
            return 7
        if attr == 0x59:
            return 8
        if attr == 0x57:
            return 9
        return 0
    if kind == 2:
        if attr == 0x7F or attr == 0x31:
            return 6
        if attr == 0x7D or attr == 0x11:
            return 3
        if attr == 0x81:
            return 4
        if attr == 0x82 or attr == 0x2115:
            return 7
        return 0
    if attr == 0x03:
        return 1
    if attr == 0x11:
        return 3
    if attr == 0x10:
        return 4
    if attr == 0x1B:
        return 5
    if attr == 0x72:
        return 6
    if attr == 0x73 or attr == 0x2133:
        return 7
    if attr == 0x74 or attr == 0x2132:
        return 8
    if attr == 0x13:
        return 9
    if attr == 0x76 or attr == 0x2130:
        return 10
    if attr == 0x2131:
        return 11
    if attr == 0x25:
        return 12
    return 0
