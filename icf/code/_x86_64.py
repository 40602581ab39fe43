# cython: language_level=3, boundscheck=True, wraparound=False
"""Decodes x86-64 functions into the few operations that icf.code._flow follows; `operations` lists them.

Every instruction is decoded, for its length. Moves, additions of addresses, loads, stores, calls and jumps become
operations of their own; any other instruction becomes the set of registers it changes, and whether it changes memory.
An instruction that the decoder does not understand changes everything. Instructions without an effect on registers or
memory (cmp, test, most of SSE) leave no row.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import word
    from cython.cimports.icf._types import Bytes, i64
    from cython.cimports.icf.code import operations as op
    from cython.cimports.icf.code import x86_64_opcodes as opc
    from cython.cimports.icf.code._emit import kill, put, signed
else:
    from icf._bytes import word
    from icf._types import Bytes, i64
    from icf.code import operations as op
    from icf.code import x86_64_opcodes as opc
    from icf.code._emit import kill, put, signed

# An instruction while it is read.
Insn = cython.struct(
    pos=cython.longlong,  # of the next byte
    byte=cython.longlong,  # opcode ...
    table=cython.longlong,  # ... and its map: one byte, 0F, 0F 38, 0F 3A
    info=cython.longlong,  # of the opcode, see x86_64_opcodes
    rex=cython.longlong,
    narrow=cython.longlong,  # prefix 66
    repeat=cython.longlong,  # prefix F2 or F3
    lock=cython.longlong,
    short=cython.longlong,  # prefix 67
    plain=cython.longlong,  # addresses are of 64 bits, without a segment
    vex=cython.longlong,
    vvvv=cython.longlong,  # the register in a VEX prefix
    mod=cython.longlong,
    reg=cython.longlong,
    rm=cython.longlong,
    base=cython.longlong,  # of the address, or NO_REGISTER, RELATIVE
    index=cython.longlong,
    scale=cython.longlong,
    disp=cython.longlong,
    value=cython.longlong,  # immediate operand
)


@cython.ccall
def decode(
    text: Bytes,
    text_vaddr: i64,
    functions: cython.const[i64][:, ::1],
    first: i64,
    opcodes: cython.const[cython.ushort][:, ::1],
    ops: i64[:, ::1],
    first_row: i64[::1],
    result: i64[::1],
) -> cython.int:
    """Decode functions from number `first` on, as many as fit.

    functions  i64[n, 2]: start and end, within `text` at `text_vaddr`
    opcodes    icf.code.x86_64_opcodes.OPCODES
    ops        rows of operations; the last row of a function stands at its end
    first_row  i64[n + 1]: the first row of each function, from that of `first` on
    result     i64[1]: the function to go on with
    """
    capacity: i64 = ops.shape[0]
    count: i64 = 0
    f: i64 = first
    start: i64
    end: i64
    n: i64
    rows: i64
    pos: i64
    at: i64
    limit: i64
    insn: Insn
    with cython.nogil:
        while f < functions.shape[0]:
            first_row[f] = count
            start = functions[f, 0] - text_vaddr
            end = functions[f, 1] - text_vaddr
            n = count
            pos = start
            while pos < end and n + 10 <= capacity:
                limit = pos + 15 if pos + 15 < end else end
                insn = read_prefixes(text, pos, limit)
                at = pos - start + insn.lock  # where a jump past that prefix goes
                insn = read_opcode(text, insn, limit, opcodes)
                insn = read_address(text, insn, limit)
                insn = read_immediate(text, insn, limit)
                if insn.info & opc.INVALID:
                    n = put(ops, n, op.BAD, 0, 0, 0, 0, pos - start)
                    pos = end
                    break
                pos = insn.pos
                if insn.base == opc.RELATIVE:
                    insn.base = opc.NO_REGISTER
                    insn.disp += text_vaddr + pos
                rows = -1
                if insn.info & opc.SPECIAL and insn.vex == 0:
                    if insn.table == 0:
                        rows = one_byte(ops, n, insn, at, pos - start)
                    elif insn.table == 1:
                        rows = two_bytes(ops, n, insn, at, pos - start)
                    else:
                        rows = put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
                if rows < 0:
                    rows = changes(ops, n, insn, at)
                n = rows
            if pos < end:
                break
            count = put(ops, n, op.STOP, 0, 0, 0, 0, end - start)
            f += 1
            first_row[f] = count
        result[0] = f
    return 0


# -- reading


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_prefixes(text: Bytes, pos: i64, limit: i64) -> Insn:
    """Read the legacy prefixes and REX, and the byte after them."""
    byte: i64 = 0
    insn: Insn = Insn(
        pos=pos, byte=0, table=0, info=opc.INVALID, rex=0, narrow=0, repeat=0, lock=0, short=0, plain=1, vex=0, vvvv=0,
        mod=0, reg=0, rm=0, base=opc.NO_REGISTER, index=opc.NO_REGISTER, scale=0, disp=0, value=0,
    )  # fmt: skip
    while pos < limit:
        byte = text[pos]
        if byte >> 4 == 4:
            insn.rex = byte
        else:
            if byte == 0x66:
                insn.narrow = 1
            elif byte == 0xF2 or byte == 0xF3:
                insn.repeat = byte
            elif byte == 0xF0:
                insn.lock = 1
            elif byte == 0x67 or byte == 0x64 or byte == 0x65:
                insn.plain = 0
                if byte == 0x67:
                    insn.short = 1
            elif byte != 0x2E and byte != 0x36 and byte != 0x3E and byte != 0x26:
                break
            insn.rex = 0  # counts only right before the opcode
        pos += 1
    insn.pos = pos
    insn.byte = byte
    return insn


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_opcode(text: Bytes, insn: Insn, limit: i64, opcodes: cython.const[cython.ushort][:, ::1]) -> Insn:
    """Read the opcode, which may have several bytes, or a VEX or EVEX prefix, and look it up."""
    byte: i64 = insn.byte
    if insn.pos >= limit:
        return insn
    if (byte == 0xC5 or byte == 0xC4 or byte == 0x62) and insn.pos + 3 <= limit:
        return read_vex(text, insn, limit, opcodes)
    insn.pos += 1
    if byte != 0x0F:
        insn.info = opcodes[0, byte]
        if byte == 0x8F and insn.pos < limit and text[insn.pos] & 0x1F >= 8:
            insn.info = opc.INVALID  # XOP
    elif insn.pos < limit:
        insn.table = 1
        byte = text[insn.pos]
        insn.pos += 1
        if byte == 0x38 or byte == 0x3A:
            if insn.pos < limit:
                insn.table = 2 if byte == 0x38 else 3
                byte = text[insn.pos]
                insn.pos += 1
                insn.info = opcodes[insn.table, byte]
        else:
            insn.info = opcodes[1, byte]
    insn.byte = byte
    return insn


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_vex(text: Bytes, insn: Insn, limit: i64, opcodes: cython.const[cython.ushort][:, ::1]) -> Insn:
    """Read a VEX or EVEX prefix and the opcode after it."""
    first: i64 = text[insn.pos + 1]
    last: i64 = first  # the byte with vvvv and pp
    byte: i64
    insn.vex = 1
    if insn.byte == 0xC5:
        insn.table = 1
        insn.rex = 4 if first & 0x80 == 0 else 0
        insn.pos += 2
    else:
        insn.table = first & 0x1F if insn.byte == 0xC4 else first & 7
        insn.rex = first >> 5 ^ 7
        last = text[insn.pos + 2]
        insn.pos += 3 if insn.byte == 0xC4 else 4
    insn.vvvv = last >> 3 & 15 ^ 15
    insn.repeat = 0xF3 if last & 3 == 2 else 0
    # maps 5 and 6 of EVEX have no immediate operand, as map 2
    if insn.pos < limit and insn.table != 0 and insn.table != 4 and insn.table <= 6:
        byte = text[insn.pos]
        insn.byte = byte
        insn.info = opcodes[insn.table if insn.table < 4 else 2, byte]
        if insn.table >= 5 or insn.table == 2 and byte >= 0xF0:
            insn.info = opc.MODRM | opc.RM | opc.REG
        elif insn.table == 1:
            if byte == 0x77:
                insn.info = 0
            elif byte >> 4 == 8:
                insn.info = opc.INVALID
            elif byte & 0xF8 == 0x90:  # kmov between mask and general registers
                insn.info = opc.MODRM | opc.RM | opc.REG
            elif byte == 0x7E and insn.repeat:
                insn.info = opc.MODRM
            elif byte == 0x78:
                insn.info = opc.MODRM | opc.REG
        insn.pos += 1
    return insn


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_address(text: Bytes, insn: Insn, limit: i64) -> Insn:
    """Read ModRM, SIB and the displacement, if there are any."""
    byte: i64
    size: i64 = 0
    if insn.info & opc.MODRM == 0 or insn.info & opc.INVALID:
        return insn
    if insn.pos >= limit:
        insn.info = opc.INVALID
        return insn
    byte = text[insn.pos]
    insn.pos += 1
    insn.mod = byte >> 6
    insn.reg = byte >> 3 & 7 | (insn.rex & 4) << 1
    insn.rm = byte & 7
    if insn.mod == 3:
        insn.rm |= (insn.rex & 1) << 3
        return insn
    if insn.mod == 1:
        size = 1
    elif insn.mod == 2:
        size = 4
    if insn.rm == 4:
        if insn.pos >= limit:
            insn.info = opc.INVALID
        else:
            byte = text[insn.pos]
            insn.pos += 1
            insn.scale = byte >> 6
            insn.index = byte >> 3 & 7 | (insn.rex & 2) << 2
            if insn.index == 4:
                insn.index = opc.NO_REGISTER
            insn.base = byte & 7 | (insn.rex & 1) << 3
            if byte & 7 == 5 and insn.mod == 0:
                insn.base = opc.NO_REGISTER
                size = 4
    elif insn.rm == 5 and insn.mod == 0:
        insn.base = opc.RELATIVE
        size = 4
    else:
        insn.base = insn.rm | (insn.rex & 1) << 3
    if insn.pos + size > limit:
        insn.info = opc.INVALID
    elif size > 0:
        insn.disp = number(text, insn.pos, size)
    insn.pos += size
    return insn


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_immediate(text: Bytes, insn: Insn, limit: i64) -> Insn:
    """Read the immediate operand, if there is one."""
    byte: i64 = insn.byte
    kind: i64 = insn.info & opc.OPERAND
    size: i64 = 0
    if insn.table == 0 and (byte == 0xF6 or byte == 0xF7) and insn.reg & 7 < 2:
        kind = opc.IB if byte == 0xF6 else opc.IZ
    elif insn.table == 0 and insn.vex == 0 and byte >> 3 == 0xB0 >> 3:
        kind = opc.IB
    elif insn.table == 0 and insn.vex == 0 and byte >> 3 == 0xB8 >> 3:
        kind = opc.IV
    elif insn.table == 1 and insn.vex == 0 and byte == 0x78 and (insn.narrow or insn.repeat == 0xF2):
        kind = opc.IW
    if insn.vex == 0 and (insn.table == 0 and (byte == 0xE8 or byte == 0xE9) or insn.table == 1 and byte >> 4 == 8):
        size = 4
    elif kind == opc.IB:
        size = 1
    elif kind == opc.IW:
        size = 2
    elif kind == opc.IZ:
        size = 2 if insn.narrow and insn.rex & 8 == 0 else 4
    elif kind == opc.IV:
        size = 8 if insn.rex & 8 else 2 if insn.narrow else 4
    elif kind == opc.MOFFS:
        size = 4 if insn.short else 8
    elif kind == opc.IWB:
        size = 3
    if insn.pos + size > limit:
        insn.info = opc.INVALID
    elif size == 8:
        insn.value = word(text, insn.pos, 4) | number(text, insn.pos + 4, 4) << 32
    elif size > 0 and size != 3:
        insn.value = number(text, insn.pos, size)
    insn.pos += size
    if insn.table == 1 and insn.vex == 0 and byte >> 2 == 0x20 >> 2:
        insn.pos += 1  # the ModRM byte of mov to and from control registers
    return insn


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def number(text: Bytes, at: i64, size: i64) -> i64:
    """Return the signed number of so many bytes at `at`, which the caller has checked."""
    return signed(word(text, at, size), 8 * size)


# -- what instructions do


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-2)
def one_byte(ops: i64[:, ::1], n: i64, insn: Insn, at: i64, end: i64) -> i64:
    """Store the operations of a SPECIAL opcode of one byte; the instruction ends at `end`.

    Returns the row after them; -1 if what it changes is all.
    """
    byte: i64 = insn.byte
    extension: i64 = insn.reg & 7  # of the opcode
    short_reg: i64 = byte & 7 | (insn.rex & 1) << 3  # the register in the opcode
    wide: i64 = insn.rex & 8
    in_memory: cython.bint = insn.mod != 3
    word_size: i64 = 2 if insn.narrow else 8
    if byte == 0x01 and wide and not in_memory:
        return put(ops, n, op.SUM, insn.rm, insn.rm, insn.reg, 0, at)
    if byte == 0x03 and wide and not in_memory:
        return put(ops, n, op.SUM, insn.reg, insn.reg, insn.rm, 0, at)
    if byte >> 3 == 0x50 >> 3 or byte == 0x68 or byte == 0x6A or byte == 0x9C:  # push
        n = put(ops, n, op.ADD, opc.SP, opc.SP, 0, -word_size, at)
        if byte >> 3 == 0x50 >> 3 and not insn.narrow and short_reg != opc.SP:
            return put(ops, n, op.STORE, word_size, opc.SP, short_reg, 0, at)
        return put(ops, n, op.STORE, word_size, opc.SP, opc.NO_REGISTER, 0, at)
    if byte >> 3 == 0x58 >> 3:  # pop
        if insn.narrow or short_reg == opc.SP:
            n = kill(ops, n, 1 << short_reg, at)
        else:
            n = put(ops, n, op.LOAD, short_reg, opc.SP, 0, 0, at)
        return put(ops, n, op.ADD, opc.SP, opc.SP, 0, word_size, at) if short_reg != opc.SP else n
    if byte == 0x9D:
        return put(ops, n, op.ADD, opc.SP, opc.SP, 0, word_size, at)
    if byte == 0x63 and wide and in_memory and insn.plain and insn.index >= 0 and insn.scale == 2:
        return put(ops, n, op.INDEXED, insn.reg, insn.base, 4 | op.SIGNED_ENTRY, insn.disp, at)
    if byte >> 4 == 7 or byte >= 0xE0 and byte <= 0xE3:
        if byte >= 0xE0:  # loop, jrcxz
            n = kill(ops, n, 1 << opc.CX_REGISTER, at)
        return put(ops, n, op.BRANCH, 0, 0, 0, end + insn.value, at)
    if byte == 0xE9 or byte == 0xEB:
        return put(ops, n, op.JUMP, 0, 0, 0, end + insn.value, at)
    if byte == 0xE8:
        return put(ops, n, op.CALL, 0, 0, 0, end + insn.value, at)
    if (byte == 0x81 or byte == 0x83) and wide and not in_memory and (extension == 0 or extension == 5):
        return put(ops, n, op.ADD, insn.rm, insn.rm, 0, insn.value if extension == 0 else -insn.value, at)
    if byte >= 0x80 and byte <= 0x83:
        return n if extension == 7 else -1  # cmp
    if byte == 0x89 and wide and not in_memory:
        return put(ops, n, op.COPY, insn.rm, insn.reg, 0, 0, at)
    if byte == 0x89 and wide and insn.plain and insn.index < 0:
        return put(ops, n, op.STORE, 8, insn.base, insn.reg, insn.disp, at)
    if byte == 0x8B and wide and not in_memory:
        return put(ops, n, op.COPY, insn.reg, insn.rm, 0, 0, at)
    if byte == 0x8B and wide and insn.plain:
        return load(ops, n, insn.reg, insn, at)
    if byte == 0x8B and not insn.narrow and in_memory and insn.plain and insn.index >= 0 and insn.scale == 2:
        return put(ops, n, op.INDEXED, insn.reg, insn.base, 4, insn.disp, at)
    if byte == 0x8D and in_memory and wide and insn.plain:  # lea
        if insn.index < 0 and insn.base < 0:
            return put(ops, n, op.CONST, insn.reg, 0, 0, insn.disp, at)
        if insn.index < 0:
            return put(ops, n, op.ADD, insn.reg, insn.base, 0, insn.disp, at)
        if insn.scale == 0 and insn.base >= 0:
            return put(ops, n, op.SUM, insn.reg, insn.base, insn.index, insn.disp, at)
        return -1
    if byte >> 3 == 0x90 >> 3:  # xchg with rax
        return kill(ops, n, 1 | 1 << short_reg, at) if short_reg != 0 else n
    if byte == 0xA4 or byte == 0xA5 or byte == 0xAA or byte == 0xAB:  # movs, stos
        n = kill(ops, n, 0xC2, at)
        return put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
    if byte >= 0xA4 and byte <= 0xAF:
        return kill(ops, n, 0xC3, at)
    if byte >> 3 == 0xB0 >> 3:
        return kill(ops, n, 1 << (short_reg - 4 if insn.rex == 0 and short_reg >= 4 else short_reg), at)
    if byte >> 3 == 0xB8 >> 3:
        if insn.narrow and not wide:
            return kill(ops, n, 1 << short_reg, at)
        return put(ops, n, op.CONST, short_reg, 0, 0, insn.value if wide else insn.value & opc.LOW, at)
    if byte == 0xC9:  # leave
        n = put(ops, n, op.ADD, opc.SP, opc.BP, 0, 8, at)
        return put(ops, n, op.LOAD, opc.BP, opc.SP, 0, -8, at)
    if byte == 0xC7 and extension == 0 and wide and not in_memory:
        return put(ops, n, op.CONST, insn.rm, 0, 0, insn.value, at)
    if byte == 0xC7 and extension == 7:  # xbegin
        return put(ops, n, op.FORGET, 0, 0, 0, 0, at)
    if byte == 0xC2 or byte == 0xC3 or byte == 0xCA or byte == 0xCB or byte == 0xCC or byte == 0xCF or byte == 0xF4:
        return put(ops, n, op.STOP, 0, 0, 0, 0, at)
    if byte == 0xF6 or byte == 0xF7:
        if extension >= 4:
            return kill(ops, n, 5, at)
        return n if extension < 2 else -1
    if byte == 0xFF and extension >= 2:
        return group_5(ops, n, insn, at, end)
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-2)
def group_5(ops: i64[:, ::1], n: i64, insn: Insn, at: i64, end: i64) -> i64:
    """Store the operations of a call, jump or push by FF; return the row after them."""
    extension: i64 = insn.reg & 7
    source: i64 = insn.rm
    if insn.mod != 3 and extension != 3 and extension != 5:
        source = opc.TEMPORARY
        if insn.plain:
            n = load(ops, n, opc.TEMPORARY, insn, at)
        else:
            n = kill(ops, n, 1 << opc.TEMPORARY, at)
    if extension == 2:
        return put(ops, n, op.CALL_VALUE, 0, source, 0, end - at + insn.lock, at)
    if extension == 4:
        return put(ops, n, op.JUMP_VALUE, 0, source, 0, 0, at)
    if extension == 6:
        n = put(ops, n, op.ADD, opc.SP, opc.SP, 0, -8, at)
        return put(ops, n, op.STORE, 8, opc.SP, opc.NO_REGISTER, 0, at)
    if extension == 5:  # far
        n = kill(ops, n, 1 << opc.TEMPORARY, at)
        return put(ops, n, op.JUMP_VALUE, 0, opc.TEMPORARY, 0, 0, at)
    return put(ops, n, op.FORGET, 0, 0, 0, 0, at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-2)
def two_bytes(ops: i64[:, ::1], n: i64, insn: Insn, at: i64, end: i64) -> i64:
    """Store the operations of an opcode after 0F that is SPECIAL, as `one_byte` does."""
    byte: i64 = insn.byte
    if byte >> 4 == 8:
        return put(ops, n, op.BRANCH, 0, 0, 0, end + insn.value, at)
    if byte == 0x1E:
        if insn.repeat == 0xF3 and insn.mod == 3 and insn.reg & 7 == 1:  # rdssp
            return kill(ops, n, 1 << insn.rm, at)
        return n
    if byte == 0x7E:
        return n if insn.repeat == 0xF3 else -1
    if byte >> 2 == 0x20 >> 2:  # control registers
        return put(ops, n, op.FORGET, 0, 0, 0, 0, at)
    if byte == 0xA0 or byte == 0xA8:
        n = put(ops, n, op.ADD, opc.SP, opc.SP, 0, -8, at)
        return put(ops, n, op.STORE, 8, opc.SP, opc.NO_REGISTER, 0, at)
    if byte == 0xA1 or byte == 0xA9:
        return put(ops, n, op.ADD, opc.SP, opc.SP, 0, 8, at)
    if byte >> 3 == 0xC8 >> 3:  # bswap
        return kill(ops, n, 1 << (byte & 7 | (insn.rex & 1) << 3), at)
    if byte == 0xF7:
        return put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
    if byte == 0x07 or byte == 0x0B or byte == 0x35 or byte == 0xB9 or byte == 0xFF:
        return put(ops, n, op.STOP, 0, 0, 0, 0, at)
    return n if byte == 0x77 else -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-2)
def changes(ops: i64[:, ::1], n: i64, insn: Insn, at: i64) -> i64:
    """Store which registers an instruction changes, and whether memory; return the row after that."""
    byte: i64 = insn.byte
    info: i64 = insn.info
    mask: i64 = 0
    stores: cython.bint = False
    is_masked: cython.bint = insn.vex != 0 and insn.table == 1 and byte == 0xF7  # maskmovdqu
    anywhere: cython.bint
    if insn.table == 0 and insn.vex == 0 and byte == 0x8F:  # pop
        n = put(ops, n, op.ADD, opc.SP, opc.SP, 0, 2 if insn.narrow else 8, at)
    if info & opc.ALL:
        return put(ops, n, op.FORGET, 0, 0, 0, 0, at)
    if info & opc.RM and insn.mod == 3:
        mask |= 1 << low_byte_of(insn, insn.rm)
    if info & opc.REG:
        mask |= 1 << low_byte_of(insn, insn.reg)
        if insn.vex:
            mask |= 1 << insn.vvvv
    if info & opc.AX:
        mask |= 1
    if info & opc.DX:
        mask |= 4
    if info & opc.CX:
        mask |= 2
    if insn.mod != 3:
        stores = info & (opc.RM | opc.MEM) != 0 or insn.vex != 0 and insn.table >= 2
    if stores or is_masked:
        anywhere = insn.vex != 0 and insn.table >= 2 or is_masked or insn.plain == 0 or insn.index >= 0
        if insn.table == 0:
            anywhere = anywhere or byte == 0xA2 or byte == 0xA3 or byte >> 3 == 0xD8 >> 3
        elif insn.table == 1:
            anywhere = anywhere or byte == 0xAE
        if anywhere:
            n = put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
        else:
            n = put(ops, n, op.STORE, 1 if info & opc.BYTE else 8 if insn.table == 0 else 64, insn.base,
                    opc.NO_REGISTER, insn.disp, at)  # fmt: skip
    return kill(ops, n, mask, at) if mask else n


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def low_byte_of(insn: Insn, register: i64) -> i64:
    """Return the register that an operand is in: without a REX prefix ah to bh are bytes of the first four."""
    return register - 4 if insn.info & opc.BYTE and insn.rex == 0 and register >= 4 else register


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-2)
def load(ops: i64[:, ::1], n: i64, register: i64, insn: Insn, at: i64) -> i64:
    """Store a load of eight bytes; return the row after it."""
    if insn.index < 0:
        return put(ops, n, op.LOAD, register, insn.base, 0, insn.disp, at)
    if insn.base >= 0 and insn.scale == 0:
        n = put(ops, n, op.SUM, opc.TEMPORARY, insn.base, insn.index, 0, at)
        return put(ops, n, op.LOAD, register, opc.TEMPORARY, 0, insn.disp, at)
    if insn.scale == 3:
        return put(ops, n, op.INDEXED, register, insn.base, 8, insn.disp, at)
    return kill(ops, n, 1 << register, at)
