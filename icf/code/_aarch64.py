# cython: language_level=3, boundscheck=True, wraparound=False
"""Decodes AArch64 functions into the operations that icf.code._flow follows; icf.code._x86_64 lists them.

Registers are numbered as in the encoding; 31 is the stack pointer, 32 holds what an instruction computes for itself.
The zero register is no register here: what is written to it is lost, what is read from it the constant 0. Groups of
encodings that are not looked into (SVE, SME, what is not allocated) change everything.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

ONE = 1


def decode(text, text_vaddr, functions, first, ops, first_row, result):
    """Decode functions from number `first` on, as many as fit; as icf.code._x86_64.decode."""
    capacity = ops.shape[0]
    count = 0
    f = first
    with cython.nogil:
        while f < functions.shape[0]:
            first_row[f] = count
            start = functions[f, 0] - text_vaddr
            end = functions[f, 1] - text_vaddr
            n = count
            pos = start
            while pos + 4 <= end and n + 8 <= capacity:
                at = pos - start
                word = text[pos] | text[pos + 1] << 8 | text[pos + 2] << 16 | text[pos + 3] * (ONE << 24)
                group = word >> 25 & 15
                rd = word & 31
                rn = word >> 5 & 31
                rm = word >> 16 & 31
                if group >> 1 == 4:  # data processing, immediate operand
                    kind = word >> 23 & 7
                    if kind <= 1:  # adr, adrp
                        value = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
                        if value >> 20:
                            value -= ONE << 21
                        if word >> 31:
                            value = (text_vaddr + pos >> 12 << 12) + value * 4096
                        else:
                            value += text_vaddr + pos
                        if rd != 31:
                            put(ops, n, 4, rd, 0, 0, value, at)
                            n += 1
                    elif kind == 2 and word >> 31:  # add, sub
                        value = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
                        if word >> 30 & 1:
                            value = -value
                        if word >> 29 & 1 == 0 or rd != 31:
                            put(ops, n, 2, rd, rn, 0, value, at)
                            n += 1
                    elif rd != 31 or word >> 29 & 1 == 0 or kind == 3 or kind == 4 and word >> 29 & 3 == 1:
                        put(ops, n, 0, ONE << rd | (ONE << 30 if kind == 7 else 0), 0, 0, 0, at)
                        n += 1
                elif group >> 1 == 5:  # branches, system
                    if word >> 26 & 0x1F == 5:  # b, bl
                        value = (word & 0x3FFFFFF) << 2
                        if value >> 27:
                            value -= ONE << 28
                        put(ops, n, 10 if word >> 31 else 12, 0, 0, 0, at + value, at)
                    elif word >> 24 == 0x54 or word >> 25 & 0x3F == 0x1A:  # b.cond, cbz
                        value = (word >> 5 & 0x7FFFF) << 2
                        if value >> 20:
                            value -= ONE << 21
                        put(ops, n, 13, 0, 0, 0, at + value, at)
                    elif word >> 25 & 0x3F == 0x1B:  # tbz
                        value = (word >> 5 & 0x3FFF) << 2
                        if value >> 15:
                            value -= ONE << 16
                        put(ops, n, 13, 0, 0, 0, at + value, at)
                    elif word >> 25 == 0x6B and rm == 31:  # branches to registers
                        kind = word >> 21 & 7
                        if kind == 0:
                            put(ops, n, 14, 0, rn, 0, 0, at)
                        elif kind == 1:
                            put(ops, n, 11, 0, rn, 0, 4, at)
                        else:
                            put(ops, n, 15, 0, 0, 0, 0, at)
                    elif word >> 24 == 0xD4:  # svc and its kind; brk, hlt end
                        kind = word >> 21 & 7
                        put(ops, n, 15 if kind == 1 or kind == 2 else 17, 0, 0, 0, 0, at)
                    elif word >> 12 == 0xD5032:  # hints: what authenticates pointers changes x16, x17 or x30
                        value = 0
                        if word >> 8 & 15 != 4 and word & 0xFE0 != 0:  # neither bti nor nop
                            value = ONE << 16 | ONE << 17 | ONE << 30
                        put(ops, n, 0, value, 0, 0, 0, at)
                    elif word >> 22 == 0x354:  # system registers and instructions
                        put(ops, n, 0, ONE << rd if rd != 31 and word >> 21 & 1 else 0, 0, 0, 0, at)
                        if word >> 20 & 1 == 0 and word >> 12 != 0xD5033:
                            n += 1
                            put(ops, n, 9, 0, 0, 0, 0, at)
                    elif word >> 24 == 0xD5:
                        put(ops, n, 17, 0, 0, 0, 0, at)
                    else:
                        put(ops, n, 16, 0, 0, 0, 0, at)
                        pos = end
                    n += 1
                elif group & 5 == 4:  # loads and stores
                    n = memory(ops, n, word, text_vaddr + pos, at)
                elif group & 7 == 5:  # data processing, registers
                    if word >> 5 & 0x7FF07FF == 0x550001F:  # mov
                        if rd != 31:
                            put(ops, n, 4 if rm == 31 else 1, rd, rm, 0, 0, at)
                            n += 1
                    elif word >> 10 & 0x3FF83F == 0x22C000 and rn != 31 and rm != 31:  # add
                        if rd != 31:
                            put(ops, n, 3, rd, rn, rm, 0, at)
                            n += 1
                    elif word >> 21 == 0x458 and rn != 31 and rm != 31:  # add, shifted left
                        if rd != 31:
                            put(ops, n, 7, rd, rn, rm, word >> 10 & 63, at)
                            n += 1
                    elif word >> 21 == 0x459 and rm != 31:  # add, extended
                        if word >> 10 & 63 == 0x18:
                            put(ops, n, 3, rd, rn, rm, 0, at)
                        else:
                            put(ops, n, 7, rd, rn, rm, word >> 10 & 7 | (256 if word >> 15 & 1 else 0), at)
                        n += 1
                    elif rd != 31 or word & 0x3FE00000 == 0x0B200000:
                        put(ops, n, 0, ONE << rd, 0, 0, 0, at)
                        n += 1
                elif group & 7 == 7:  # floating point and vectors
                    # conversions and moves to general registers
                    if (
                        word & 0x7F000000 == 0x1E000000
                        and (word >> 21 & 1 == 0 or word & 0xFC00 == 0)
                        or (word >> 10 & 0x2FF821 == 0x38001)
                    ):
                        if rd != 31:
                            put(ops, n, 0, ONE << rd, 0, 0, 0, at)
                            n += 1
                elif word >> 16 == 0:  # udf
                    put(ops, n, 15, 0, 0, 0, 0, at)
                    n += 1
                else:
                    put(ops, n, 17, 0, 0, 0, 0, at)
                    n += 1
                pos += 4
            if pos + 4 <= end:
                break
            put(ops, n, 15, 0, 0, 0, 0, end - start)
            count = n + 1
            f += 1
            first_row[f] = count
        result[0] = f
    return 0


def memory(ops, n, word, here, at):
    """The rows of a load or store; gives the row after them."""
    rt = word & 31
    rn = word >> 5 & 31
    rm = word >> 16 & 31
    rt2 = word >> 10 & 31
    vector = word >> 26 & 1
    kind = word >> 28 & 3
    if kind == 1 and word >> 24 & 1 == 0:  # literal
        if vector == 0 and rt != 31 and word >> 30 < 3:
            if word >> 30 == 1:
                value = (word >> 5 & 0x7FFFF) << 2
                if value >> 20:
                    value -= ONE << 21
                put(ops, n, 5, rt, -1, 0, here + value, at)
            else:
                put(ops, n, 0, ONE << rt, 0, 0, 0, at)
            n += 1
        return n
    if kind == 2 and word >> 22 & 0x311 == 0x100:  # stgp: 16 bytes a step
        put(ops, n, 9, 0, 0, 0, 0, at)
        put(ops, n + 1, 0, ONE << rn, 0, 0, 0, at)
        return n + 2
    if kind == 2:  # pairs
        load = word >> 22 & 1
        mode = word >> 23 & 3  # 0 no-allocate, 1 after, 2 offset, 3 before
        opc = word >> 30
        size = (4 << opc) if vector else 8 if opc == 2 else 4
        value = word >> 15 & 0x7F
        if value >> 6:
            value -= 128
        value *= size
        if mode == 3:
            put(ops, n, 2, rn, rn, 0, value, at)
            n += 1
        value_at = value if mode == 0 or mode == 2 else 0
        if load == 0:
            whole = vector == 0 and opc == 2
            put(ops, n, 8, size, rn, rt if whole and rt != 31 else -1, value_at, at)
            put(ops, n + 1, 8, size, rn, rt2 if whole and rt2 != 31 else -1, value_at + size, at)
            n += 2
        elif vector == 0:
            # both are computed before either is written: the base may be one of them
            if opc == 2 and rt != rn and rt != rt2:
                if rt != 31:
                    put(ops, n, 5, rt, rn, 0, value_at, at)
                    n += 1
                if rt2 != 31:
                    put(ops, n, 5, rt2, rn, 0, value_at + 8, at)
                    n += 1
            else:
                put(ops, n, 0, (ONE << rt if rt != 31 else 0) | (ONE << rt2 if rt2 != 31 else 0), 0, 0, 0, at)
                n += 1
        if mode == 1:
            put(ops, n, 2, rn, rn, 0, value, at)
            n += 1
        return n
    if kind == 3:
        size = word >> 30
        opc = word >> 22 & 3
        load = opc != 0
        scale = size
        if vector:
            scale = size | opc >> 1 << 2
            load = opc & 1
        if size == 3 and opc == 2 and vector == 0 and (word >> 24 & 1 or word & 0x200400 != 0x200400):  # prefetch
            return n
        if word >> 10 == 0x3E0FF4:  # ld64b
            put(ops, n, 17, 0, 0, 0, 0, at)
            return n + 1
        before = after = 0
        value = 0
        if word >> 24 & 1:  # unsigned offset
            value = (word >> 10 & 0xFFF) << scale
        elif word >> 21 & 1 == 0:
            value = word >> 12 & 0x1FF
            if value >> 8:
                value -= 512
            after = word >> 10 & 3 == 1
            before = word >> 10 & 3 == 3
        elif word >> 10 & 3 == 2:  # register offset
            if load == 0:
                put(ops, n, 9, 0, 0, 0, 0, at)
                return n + 1
            if vector or rt == 31:
                return n
            shifted = word >> 12 & 1
            if size == 3 and opc == 1 and rm != 31 and word >> 13 & 7 == 3 and shifted == 0:
                put(ops, n, 3, 32, rn, rm, 0, at)
                put(ops, n + 1, 5, rt, 32, 0, 0, at)
                return n + 2
            if rn == 31 or size != 0 and shifted == 0:
                put(ops, n, 0, ONE << rt, 0, 0, 0, at)
            else:  # w1 of 4 bytes counts as signed: what uses it says so
                put(ops, n, 6, rt, rn, (1 << size) | (16 if opc >= 2 or size == 2 else 0), 0, at)
            return n + 1
        elif word >> 10 & 3 == 0:  # atomic: ldadd, swp
            put(ops, n, 9, 0, 0, 0, 0, at)
            put(ops, n + 1, 0, (ONE << rt if rt != 31 else 0) | (ONE << rm if rm != 31 else 0), 0, 0, 0, at)
            return n + 2
        else:  # ldraa, ldrab: a pointer that is authenticated
            put(ops, n, 0, (ONE << rt if rt != 31 else 0) | ONE << rn, 0, 0, 0, at)
            return n + 1
        if before:
            put(ops, n, 2, rn, rn, 0, value, at)
            n += 1
        at_value = 0 if before or after else value
        if load == 0:
            whole = size == 3 and vector == 0 and rt != 31
            put(ops, n, 8, 1 << scale, rn, rt if whole else -1, at_value, at)
            n += 1
        elif vector == 0 and rt != 31:
            if size == 3 and opc == 1:
                put(ops, n, 5, rt, rn, 0, at_value, at)
            else:
                put(ops, n, 0, ONE << rt, 0, 0, 0, at)
            n += 1
        if after and (load == 0 or vector or rt != rn):
            put(ops, n, 2, rn, rn, 0, value, at)
            n += 1
        elif after:
            put(ops, n, 0, ONE << rn, 0, 0, 0, at)
            n += 1
        return n
    if vector and kind == 0:  # structures of vectors, perhaps with a new base
        put(ops, n, 9, 0, 0, 0, 0, at)
        if word >> 23 & 1:
            put(ops, n + 1, 0, ONE << rn, 0, 0, 0, at)
            n += 1
        return n + 1
    if kind == 0:  # exclusive, acquire and release, compare and swap
        put(ops, n, 9, 0, 0, 0, 0, at)
        put(ops, n + 1, 0, 0, 0, 0, 0, at)
        ops[n + 1, 1] = (
            (ONE << rt if rt != 31 else 0)
            | (ONE << rt2 if rt2 != 31 else 0)
            | (ONE << rm if rm != 31 else 0)
            | (ONE << (rm | 1) if rm < 30 else 0)
            | (ONE << (rt | 1) if rt < 30 else 0)
        )
        return n + 2
    put(ops, n, 17, 0, 0, 0, 0, at)
    return n + 1


def put(ops, n, op, a, b, c, value, at):
    ops[n, 0] = op
    ops[n, 1] = a
    ops[n, 2] = b
    ops[n, 3] = c
    ops[n, 4] = value
    ops[n, 5] = at
