# cython: language_level=3, boundscheck=True, wraparound=False
"""Decodes AArch64 functions into the operations that icf.code._flow follows; `operations` lists them.

Registers are numbered as in the encoding; 31 is the stack pointer, 32 a temporary of the decoder. The zero register has
no number: writes to it are dropped, and reads of it are the constant 0. Groups of encodings that this module does not
decode (SVE, SME, unallocated ones) change everything.
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
    from cython.cimports.icf.code._emit import bit, kill, put, signed
else:
    from icf._bytes import word
    from icf._types import Bytes, i64
    from icf.code import operations as op
    from icf.code._emit import bit, kill, put, signed


@cython.ccall
def decode(
    text: Bytes,
    text_vaddr: i64,
    functions: cython.const[i64][:, ::1],
    first: i64,
    ops: i64[:, ::1],
    first_row: i64[::1],
    result: i64[::1],
) -> cython.int:
    """Decode functions from number `first` on, as many as fit, as icf.code._x86_64.decode does."""
    capacity: i64 = ops.shape[0]
    count: i64 = 0
    f: i64 = first
    start: i64
    end: i64
    n: i64
    rows: i64
    pos: i64
    at: i64
    insn: i64
    group: i64
    with cython.nogil:
        while f < functions.shape[0]:
            first_row[f] = count
            start = functions[f, 0] - text_vaddr
            end = functions[f, 1] - text_vaddr
            n = count
            pos = start
            while pos + 4 <= end and n + 8 <= capacity:
                at = pos - start
                insn = word(text, pos, 4)
                group = insn >> 25 & 15
                if group >> 1 == 4:
                    n = immediate(ops, n, insn, text_vaddr + pos, at)
                elif group >> 1 == 5:
                    rows = branch(ops, n, insn, at)
                    if rows < 0:
                        rows = put(ops, n, op.BAD, 0, 0, 0, 0, at)
                        pos = end
                    n = rows
                elif group & 5 == 4:
                    n = memory(ops, n, insn, text_vaddr + pos, at)
                elif group & 7 == 5:
                    n = registers(ops, n, insn, at)
                elif group & 7 == 7:  # floating point and vectors: conversions and moves to general registers
                    if (
                        insn & 0x7F000000 == 0x1E000000
                        and (insn >> 21 & 1 == 0 or insn & 0xFC00 == 0)
                        or (insn >> 10 & 0x2FF821 == 0x38001)
                    ):
                        if insn & 31 != 31:
                            n = kill(ops, n, bit(insn & 31), at)
                elif insn >> 16 == 0:  # udf
                    n = put(ops, n, op.STOP, 0, 0, 0, 0, at)
                else:
                    n = put(ops, n, op.FORGET, 0, 0, 0, 0, at)
                pos += 4
            if pos + 4 <= end:
                break
            count = put(ops, n, op.STOP, 0, 0, 0, 0, end - start)
            f += 1
            first_row[f] = count
        result[0] = f
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def bit_if_any(register: i64) -> i64:
    """Return the bit of a register, of which 31 is the zero register: 0."""
    return bit(register) if register != 31 else 0


@cython.cfunc
@cython.inline
@cython.nogil
def immediate(ops: i64[:, ::1], n: i64, insn: i64, here: i64, at: i64) -> i64:
    """Store data processing with an immediate operand, of an instruction at `here`; return the row after it."""
    rd: i64 = insn & 31
    rn: i64 = insn >> 5 & 31
    kind: i64 = insn >> 23 & 7
    value: i64
    if kind <= 1:  # adr, adrp
        if rd == 31:
            return n
        value = signed((insn >> 5 & 0x7FFFF) << 2 | insn >> 29 & 3, 21)
        value = (here >> 12 << 12) + value * 4096 if insn >> 31 else here + value
        return put(ops, n, op.CONST, rd, 0, 0, value, at)
    if kind == 2 and insn >> 31:  # add, sub
        if insn >> 29 & 1 and rd == 31:  # cmn, cmp
            return n
        value = (insn >> 10 & 0xFFF) << (12 if insn >> 22 & 1 else 0)
        return put(ops, n, op.ADD, rd, rn, 0, -value if insn >> 30 & 1 else value, at)
    if rd != 31 or insn >> 29 & 1 == 0 or kind == 3 or kind == 4 and insn >> 29 & 3 == 1:
        return kill(ops, n, bit(rd) | (bit(30) if kind == 7 else 0), at)
    return n


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-2)
def branch(ops: i64[:, ::1], n: i64, insn: i64, at: i64) -> i64:
    """Store a branch or system instruction; return the row after it, -1 if it is not allocated."""
    rd: i64 = insn & 31
    kind: i64 = insn >> 21 & 7
    if insn >> 26 & 0x1F == 5:  # b, bl
        kind = op.CALL if insn >> 31 else op.JUMP
        return put(ops, n, kind, 0, 0, 0, at + signed((insn & 0x3FFFFFF) << 2, 28), at)
    if insn >> 24 == 0x54 or insn >> 25 & 0x3F == 0x1A:  # b.cond, cbz
        return put(ops, n, op.BRANCH, 0, 0, 0, at + signed((insn >> 5 & 0x7FFFF) << 2, 21), at)
    if insn >> 25 & 0x3F == 0x1B:  # tbz
        return put(ops, n, op.BRANCH, 0, 0, 0, at + signed((insn >> 5 & 0x3FFF) << 2, 16), at)
    if insn >> 25 == 0x6B and insn >> 16 & 31 == 31:  # branches to registers
        if kind == 0:
            return put(ops, n, op.JUMP_VALUE, 0, insn >> 5 & 31, 0, 0, at)
        if kind == 1:
            return put(ops, n, op.CALL_VALUE, 0, insn >> 5 & 31, 0, 4, at)
        return put(ops, n, op.STOP, 0, 0, 0, 0, at)
    if insn >> 24 == 0xD4:  # svc and its kind; brk, hlt end
        return put(ops, n, op.STOP if kind == 1 or kind == 2 else op.FORGET, 0, 0, 0, 0, at)
    if insn >> 12 == 0xD5032:  # hints: what authenticates pointers changes x16, x17 or x30
        if insn >> 8 & 15 != 4 and insn & 0xFE0 != 0:  # neither bti nor nop
            return kill(ops, n, bit(16) | bit(17) | bit(30), at)
        return kill(ops, n, 0, at)
    if insn >> 22 == 0x354:  # system registers and instructions
        n = kill(ops, n, bit_if_any(rd) if insn >> 21 & 1 else 0, at)
        if insn >> 20 & 1 == 0 and insn >> 12 != 0xD5033:
            n = put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
        return n
    if insn >> 24 == 0xD5:
        return put(ops, n, op.FORGET, 0, 0, 0, 0, at)
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
def registers(ops: i64[:, ::1], n: i64, insn: i64, at: i64) -> i64:
    """Store data processing of registers; return the row after it."""
    rd: i64 = insn & 31
    rn: i64 = insn >> 5 & 31
    rm: i64 = insn >> 16 & 31
    if insn >> 21 == 0x459 and rm != 31:  # add, extended: here 31 is the stack pointer
        if insn >> 10 & 63 == 0x18:
            return put(ops, n, op.SUM, rd, rn, rm, 0, at)
        return put(ops, n, op.SCALED_SUM, rd, rn, rm, insn >> 10 & 7 | (op.SIGNED_INDEX if insn >> 15 & 1 else 0), at)
    if rd == 31:
        return kill(ops, n, bit(rd), at) if insn & 0x3FE00000 == 0x0B200000 else n
    if insn >> 5 & 0x7FF07FF == 0x550001F:  # mov
        return put(ops, n, op.CONST if rm == 31 else op.COPY, rd, rm, 0, 0, at)
    if insn >> 10 & 0x3FF83F == 0x22C000 and rn != 31 and rm != 31:  # add
        return put(ops, n, op.SUM, rd, rn, rm, 0, at)
    if insn >> 21 == 0x458 and rn != 31 and rm != 31:  # add, shifted left
        return put(ops, n, op.SCALED_SUM, rd, rn, rm, insn >> 10 & 63, at)
    return kill(ops, n, bit(rd), at)


# -- loads and stores: `here` is the address of the instruction


@cython.cfunc
@cython.inline
@cython.nogil
def memory(ops: i64[:, ::1], n: i64, insn: i64, here: i64, at: i64) -> i64:
    """Store a load or store; return the row after it."""
    kind: i64 = insn >> 28 & 3
    vector: i64 = insn >> 26 & 1
    rt: i64 = insn & 31
    rn: i64 = insn >> 5 & 31
    rm: i64 = insn >> 16 & 31
    rt2: i64 = insn >> 10 & 31
    mask: i64
    if kind == 1 and insn >> 24 & 1 == 0:  # literal
        if vector or rt == 31 or insn >> 30 == 3:
            return n
        if insn >> 30 == 1:
            return put(ops, n, op.LOAD, rt, -1, 0, here + signed((insn >> 5 & 0x7FFFF) << 2, 21), at)
        return kill(ops, n, bit(rt), at)
    if kind == 2:
        if insn >> 22 & 0x311 == 0x100:  # stgp: 16 bytes a step
            n = put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
            return kill(ops, n, bit(rn), at)
        return pair(ops, n, insn, at)
    if kind == 3:
        return single(ops, n, insn, at)
    if kind == 1:
        return put(ops, n, op.FORGET, 0, 0, 0, 0, at)
    n = put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
    if vector:  # structures of vectors, perhaps with a new base
        return kill(ops, n, bit(rn), at) if insn >> 23 & 1 else n
    # exclusive, acquire and release, compare and swap
    mask = bit_if_any(rt) | bit_if_any(rt2) | bit_if_any(rm)
    if rm < 30:
        mask |= bit(rm | 1)
    if rt < 30:
        mask |= bit(rt | 1)
    return kill(ops, n, mask, at)


@cython.cfunc
@cython.inline
@cython.nogil
def pair(ops: i64[:, ::1], n: i64, insn: i64, at: i64) -> i64:
    """Store a load or store of two registers; return the row after it."""
    rt: i64 = insn & 31
    rn: i64 = insn >> 5 & 31
    rt2: i64 = insn >> 10 & 31
    vector: i64 = insn >> 26 & 1
    mode: i64 = insn >> 23 & 3  # 0 no-allocate, 1 after, 2 offset, 3 before
    opc: i64 = insn >> 30
    size: i64 = (4 << opc) if vector else 8 if opc == 2 else 4
    value: i64 = signed(insn >> 15 & 0x7F, 7) * size
    offset: i64 = value if mode == 0 or mode == 2 else 0
    is_whole: cython.bint = vector == 0 and opc == 2
    if mode == 3:
        n = put(ops, n, op.ADD, rn, rn, 0, value, at)
    if insn >> 22 & 1 == 0:
        n = put(ops, n, op.STORE, size, rn, rt if is_whole and rt != 31 else -1, offset, at)
        n = put(ops, n, op.STORE, size, rn, rt2 if is_whole and rt2 != 31 else -1, offset + size, at)
    elif vector == 0:
        # both are computed before either is written: the base may be one of them
        if opc == 2 and rt != rn and rt != rt2:
            if rt != 31:
                n = put(ops, n, op.LOAD, rt, rn, 0, offset, at)
            if rt2 != 31:
                n = put(ops, n, op.LOAD, rt2, rn, 0, offset + 8, at)
        else:
            n = kill(ops, n, bit_if_any(rt) | bit_if_any(rt2), at)
    return put(ops, n, op.ADD, rn, rn, 0, value, at) if mode == 1 else n


@cython.cfunc
@cython.inline
@cython.nogil
def single(ops: i64[:, ::1], n: i64, insn: i64, at: i64) -> i64:
    """Store a load or store of one register; return the row after it."""
    rt: i64 = insn & 31
    rn: i64 = insn >> 5 & 31
    rm: i64 = insn >> 16 & 31
    vector: i64 = insn >> 26 & 1
    size: i64 = insn >> 30
    opc: i64 = insn >> 22 & 3
    scale: i64 = size
    mode: i64 = insn >> 10 & 3  # 1 after, 3 before
    is_load: cython.bint = opc != 0
    moves_base: cython.bint = False
    value: i64 = 0
    if vector:
        scale = size | opc >> 1 << 2
        is_load = opc & 1
    if size == 3 and opc == 2 and vector == 0 and (insn >> 24 & 1 or insn & 0x200400 != 0x200400):  # prefetch
        return n
    if insn >> 10 == 0x3E0FF4:  # ld64b
        return put(ops, n, op.FORGET, 0, 0, 0, 0, at)
    if insn >> 24 & 1:  # unsigned offset
        value = (insn >> 10 & 0xFFF) << scale
    elif insn >> 21 & 1 == 0:
        value = signed(insn >> 12 & 0x1FF, 9)
        moves_base = mode == 1 or mode == 3
    elif mode == 2:
        if is_load:
            return n if vector or rt == 31 else indexed_load(ops, n, insn, at)
        return put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
    elif mode == 0:  # atomic: ldadd, swp
        n = put(ops, n, op.STORE_ANY, 0, 0, 0, 0, at)
        return kill(ops, n, bit_if_any(rt) | bit_if_any(rm), at)
    else:  # ldraa, ldrab: a pointer that is authenticated
        return kill(ops, n, bit_if_any(rt) | bit(rn), at)
    if moves_base and mode == 3:
        n = put(ops, n, op.ADD, rn, rn, 0, value, at)
    if not is_load:
        n = put(
            ops, n, op.STORE, 1 << scale, rn, rt if size == 3 and vector == 0 and rt != 31 else -1,
            0 if moves_base else value, at,
        )  # fmt: skip
    elif vector == 0 and rt != 31:
        if size == 3 and opc == 1:
            n = put(ops, n, op.LOAD, rt, rn, 0, 0 if moves_base else value, at)
        else:
            n = kill(ops, n, bit(rt), at)
    if moves_base and mode == 1:
        if is_load and vector == 0 and rt == rn:
            return kill(ops, n, bit(rn), at)
        return put(ops, n, op.ADD, rn, rn, 0, value, at)
    return n


@cython.cfunc
@cython.inline
@cython.nogil
def indexed_load(ops: i64[:, ::1], n: i64, insn: i64, at: i64) -> i64:
    """Store a load from the sum of two registers; return the row after it."""
    rt: i64 = insn & 31
    rn: i64 = insn >> 5 & 31
    rm: i64 = insn >> 16 & 31
    size: i64 = insn >> 30
    opc: i64 = insn >> 22 & 3
    shifted: i64 = insn >> 12 & 1
    if size == 3 and opc == 1 and rm != 31 and insn >> 13 & 7 == 3 and shifted == 0:
        n = put(ops, n, op.SUM, 32, rn, rm, 0, at)
        return put(ops, n, op.LOAD, rt, 32, 0, 0, at)
    if rn == 31 or size != 0 and shifted == 0:
        return kill(ops, n, bit(rt), at)
    # w1 of 4 bytes counts as signed: what uses it says so
    return put(ops, n, op.INDEXED, rt, rn, (1 << size) | (op.SIGNED_ENTRY if opc >= 2 or size == 2 else 0), 0, at)
