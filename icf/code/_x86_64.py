# cython: language_level=3, boundscheck=True, wraparound=False
"""Decodes x86-64 functions into the few operations that icf.code._flow follows.

Every instruction is decoded, for its length; moves, additions of addresses, loads, stores, calls and jumps become
operations of their own, all else says only which registers it changes, and whether memory. What is not understood
changes everything. Instructions without an effect on registers or memory (cmp, test, most of SSE) leave no row.

Rows of `ops`, i64 each: operation, a, b, c, value, offset in the function.

    0 KILL        a: bits of registers that change         8 STORE       a bytes at register b + value: register c or -1
    1 COPY        register a is b                          9 STORE_ANY   to somewhere
    2 ADD         a is b + value                          10 CALL        c: inside of the function, at offset value
    3 SUM         a is b + c + value                      11 CALL_VALUE  of register b; value: bytes of the instruction
    4 CONST       a is value                              12 JUMP        c: inside, at offset value; else it leaves
    5 LOAD        a is 8 bytes at b + value (b -1: value) 13 BRANCH      likewise, or goes on
    6 INDEXED     a is an entry of the table at b + value 14 JUMP_VALUE  to register b
                  (b -1: value); c: its size, 16 if signed  15 STOP      nothing follows
    7 SCALED_SUM  a is b + (c << value % 64)              16 BAD         no instruction: the function cannot be read
                                                          17 FORGET      everything changes

A SCALED_SUM has 256 in its value if c counts as signed. Registers are numbered as in the encoding; 16 holds what an
instruction computes for itself.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

LOW = 0xFFFFFFFF
SIGN = 1 << 32  # what a number of four bytes with its top bit set is too large by


def decode(text, text_vaddr, functions, first, opcodes, ops, first_row, result):
    """Decode functions from number `first` on, as many as fit.

    functions  u64[n, 2]: start and end, within `text` at `text_vaddr`
    opcodes    icf.code.x86_64_opcodes.OPCODES
    ops        i64[m, 6]: the rows, see above; the last row of a function stands at its end
    first_row  i64[n + 1]: the first row of each function, from that of `first` on
    result     i64[1]: the function to go on with
    """
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
            while pos < end and n + 10 <= capacity:
                at = pos - start
                limit = pos + 15 if pos + 15 < end else end
                # prefixes
                narrow = repeat = lock = short = rex = 0
                plain = 1
                i = pos
                b = 0
                while i < limit:
                    b = text[i]
                    if b == 0x66:
                        narrow = 1
                        rex = 0
                    elif b == 0xF2 or b == 0xF3:
                        repeat = b
                        rex = 0
                    elif b == 0xF0:
                        lock = 1
                        rex = 0
                    elif b == 0x67 or b == 0x64 or b == 0x65:
                        plain = 0
                        short |= b == 0x67
                        rex = 0
                    elif b == 0x2E or b == 0x36 or b == 0x3E or b == 0x26:
                        rex = 0
                    elif b >> 4 == 4:
                        rex = b
                    else:
                        break
                    i += 1
                if lock:
                    at += 1  # where a jump past the prefix goes
                table = 0
                vex = 0
                vvvv = 0
                info = 0x80
                if i < limit and (b == 0xC5 or b == 0xC4 or b == 0x62) and i + 3 <= limit:
                    vex = 1
                    rex = 0
                    b1 = text[i + 1]
                    if b == 0xC5:
                        table = 1
                        rex = 4 if b1 & 0x80 == 0 else 0
                        vvvv = b1 >> 3 & 15 ^ 15
                        repeat = 0xF3 if b1 & 3 == 2 else 0
                        i += 2
                    else:
                        table = b1 & 0x1F if b == 0xC4 else b1 & 7
                        rex = b1 >> 5 ^ 7
                        b2 = text[i + 2]
                        vvvv = b2 >> 3 & 15 ^ 15
                        repeat = 0xF3 if b2 & 3 == 2 else 0
                        i += 3 if b == 0xC4 else 4
                    # maps 5 and 6 of EVEX have no immediate operand, as map 2
                    if i < limit and table != 0 and table != 4 and table <= 6:
                        b = text[i]
                        info = opcodes[table if table < 4 else 2, b]
                        if table >= 5:
                            info = 0x310
                        elif table == 1 and b == 0x77:
                            info = 0
                        elif table == 1 and b >> 4 == 8:
                            info = 0x80
                        elif table == 1 and b & 0xF8 == 0x90:
                            info = 0x310  # kmov between mask and general registers
                        elif table == 1 and b == 0x7E and repeat:
                            info = 0x10
                        elif table == 2 and b >= 0xF0:
                            info = 0x310
                        elif b == 0x78 and table == 1:
                            info = 0x210
                        i += 1
                elif i < limit:
                    i += 1
                    if b == 0x0F and i < limit:
                        table = 1
                        b = text[i]
                        i += 1
                        if (b == 0x38 or b == 0x3A) and i < limit:
                            table = 2 if b == 0x38 else 3
                            b = text[i]
                            i += 1
                            info = opcodes[table, b]
                        elif b != 0x38 and b != 0x3A:
                            info = opcodes[1, b]
                    elif b != 0x0F:
                        info = opcodes[0, b]
                        if b == 0x8F and i < limit and text[i] & 0x1F >= 8:
                            info = 0x80  # XOP
                wide = rex & 8
                # ModRM, SIB, displacement
                mod = reg = rm = 0
                base = index = -1
                scale = 0
                disp = 0
                if info & 0x10 and info & 0x80 == 0:
                    if i >= limit:
                        info = 0x80
                    else:
                        modrm = text[i]
                        i += 1
                        mod = modrm >> 6
                        reg = modrm >> 3 & 7 | (rex & 4) << 1
                        rm = modrm & 7
                        size = 1 if mod == 1 else 4 if mod == 2 else 0
                        if mod != 3:
                            if rm == 4:
                                if i >= limit:
                                    info = 0x80
                                else:
                                    sib = text[i]
                                    i += 1
                                    scale = sib >> 6
                                    index = sib >> 3 & 7 | (rex & 2) << 2
                                    if index == 4:
                                        index = -1
                                    base = sib & 7 | (rex & 1) << 3
                                    if sib & 7 == 5 and mod == 0:
                                        base = -1
                                        size = 4
                            elif rm == 5 and mod == 0:
                                base = -2
                                size = 4
                            else:
                                base = rm | (rex & 1) << 3
                            if size > 0 and i + size <= limit:
                                disp = signed(text, i, size)
                            elif size > 0:
                                info = 0x80
                            i += size
                        else:
                            rm = rm | (rex & 1) << 3
                # immediate operand
                kind = info & 15
                if table == 0 and (b == 0xF6 or b == 0xF7) and reg & 7 < 2:
                    kind = 1 if b == 0xF6 else 3
                elif table == 0 and vex == 0 and b >> 3 == 0xB0 >> 3:
                    kind = 1
                elif table == 0 and vex == 0 and b >> 3 == 0xB8 >> 3:
                    kind = 4
                elif table == 1 and vex == 0 and b == 0x78 and (narrow or repeat == 0xF2):
                    kind = 2
                size = 0
                if kind == 1:
                    size = 1
                elif kind == 2:
                    size = 2
                elif kind == 3:
                    size = 2 if narrow and wide == 0 else 4
                elif kind == 4:
                    size = 8 if wide else 2 if narrow else 4
                elif kind == 5:
                    size = 4 if short else 8
                elif kind == 6:
                    size = 3
                if vex == 0 and (table == 0 and (b == 0xE8 or b == 0xE9) or table == 1 and b >> 4 == 8):
                    size = 4
                value = 0
                if i + size > limit:
                    info = 0x80
                elif size == 8:
                    value = (signed(text, i, 4) & LOW) | (signed(text, i + 4, 4) << 32)
                elif size > 0 and size != 3:
                    value = signed(text, i, size)
                i += size
                if info & 0x80:
                    put(ops, n, 16, 0, 0, 0, 0, pos - start)
                    n += 1
                    pos = end
                    break
                if base == -2:
                    base = -1
                    disp += text_vaddr + i
                # effects
                done = 0
                if info & 0x40 and vex == 0:
                    done = 1
                    if table == 0:
                        if b == 0x01 and wide and mod == 3:
                            put(ops, n, 3, rm, rm, reg, 0, at)
                            n += 1
                        elif b == 0x03 and wide and mod == 3:
                            put(ops, n, 3, reg, reg, rm, 0, at)
                            n += 1
                        elif b >> 3 == 0x50 >> 3 or b == 0x68 or b == 0x6A or b == 0x9C:  # push
                            put(ops, n, 2, 4, 4, 0, -2 if narrow else -8, at)
                            put(ops, n + 1, 8, 2 if narrow else 8, 4, -1, 0, at)
                            if b >> 3 == 0x50 >> 3 and narrow == 0:
                                rm = b & 7 | (rex & 1) << 3
                                ops[n + 1, 3] = rm if rm != 4 else -1
                            n += 2
                        elif b >> 3 == 0x58 >> 3:  # pop
                            rm = b & 7 | (rex & 1) << 3
                            if narrow or rm == 4:
                                put(ops, n, 0, 1 << rm, 0, 0, 0, at)
                            else:
                                put(ops, n, 5, rm, 4, 0, 0, at)
                            n += 1
                            if rm != 4:
                                put(ops, n, 2, 4, 4, 0, 2 if narrow else 8, at)
                                n += 1
                        elif b == 0x9D:
                            put(ops, n, 2, 4, 4, 0, 2 if narrow else 8, at)
                            n += 1
                        elif b == 0x63 and wide and mod != 3 and plain and index >= 0 and scale == 2:
                            put(ops, n, 6, reg, base, 20, disp, at)
                            n += 1
                        elif b >> 4 == 7 or b >= 0xE0 and b <= 0xE3:
                            if b >= 0xE0:
                                put(ops, n, 0, 2, 0, 0, 0, at)
                                n += 1
                            put(ops, n, 13, 0, 0, 0, i - start + value, at)
                            n += 1
                        elif b == 0xE9 or b == 0xEB:
                            put(ops, n, 12, 0, 0, 0, i - start + value, at)
                            n += 1
                        elif b == 0xE8:
                            put(ops, n, 10, 0, 0, 0, i - start + value, at)
                            n += 1
                        elif (b == 0x81 or b == 0x83) and wide and mod == 3 and (reg & 7 == 0 or reg & 7 == 5):
                            put(ops, n, 2, rm, rm, 0, value if reg & 7 == 0 else -value, at)
                            n += 1
                        elif b >= 0x80 and b <= 0x83:
                            done = reg & 7 == 7  # cmp
                        elif b == 0x89 and wide and mod == 3:
                            put(ops, n, 1, rm, reg, 0, 0, at)
                            n += 1
                        elif b == 0x89 and wide and plain and index < 0:
                            put(ops, n, 8, 8, base, reg, disp, at)
                            n += 1
                        elif b == 0x8B and wide and mod == 3:
                            put(ops, n, 1, reg, rm, 0, 0, at)
                            n += 1
                        elif b == 0x8B and wide and plain:
                            n = load(ops, n, reg, base, index, scale, disp, at)
                        elif b == 0x8D and mod != 3 and wide and plain and index < 0:
                            if base < 0:
                                put(ops, n, 4, reg, 0, 0, disp, at)
                            else:
                                put(ops, n, 2, reg, base, 0, disp, at)
                            n += 1
                        elif b == 0x8D and mod != 3 and wide and plain and scale == 0 and base >= 0:
                            put(ops, n, 3, reg, base, index, disp, at)
                            n += 1
                        elif b == 0x8F:
                            put(ops, n, 2, 4, 4, 0, 2 if narrow else 8, at)
                            n += 1
                            info = 0x110
                            done = 0
                        elif b >> 3 == 0x90 >> 3:
                            rm = b & 7 | (rex & 1) << 3
                            if rm != 0:
                                put(ops, n, 0, 1 | 1 << rm, 0, 0, 0, at)
                                n += 1
                        elif b == 0xA4 or b == 0xA5 or b == 0xAA or b == 0xAB:  # movs, stos
                            put(ops, n, 0, 0xC2, 0, 0, 0, at)
                            put(ops, n + 1, 9, 0, 0, 0, 0, at)
                            n += 2
                        elif b >= 0xA4 and b <= 0xAF:
                            put(ops, n, 0, 0xC3, 0, 0, 0, at)
                            n += 1
                        elif b >> 3 == 0xB0 >> 3:
                            rm = b & 7 | (rex & 1) << 3
                            if rex == 0 and rm >= 4:
                                rm -= 4
                            put(ops, n, 0, 1 << rm, 0, 0, 0, at)
                            n += 1
                        elif b >> 3 == 0xB8 >> 3:
                            rm = b & 7 | (rex & 1) << 3
                            if narrow and wide == 0:
                                put(ops, n, 0, 1 << rm, 0, 0, 0, at)
                            else:
                                put(ops, n, 4, rm, 0, 0, value if wide else value & LOW, at)
                            n += 1
                        elif b == 0xC9:  # leave
                            put(ops, n, 2, 4, 5, 0, 8, at)
                            put(ops, n + 1, 5, 5, 4, 0, -8, at)
                            n += 2
                        elif b == 0xC7 and reg & 7 == 7:  # xbegin
                            put(ops, n, 17, 0, 0, 0, 0, at)
                            n += 1
                        elif b == 0xC2 or b == 0xC3 or b == 0xCA or b == 0xCB or b == 0xCC or b == 0xCF or b == 0xF4:
                            put(ops, n, 15, 0, 0, 0, 0, at)
                            n += 1
                        elif b == 0xF6 or b == 0xF7:
                            if reg & 7 >= 4:
                                put(ops, n, 0, 5, 0, 0, 0, at)
                                n += 1
                            else:
                                done = reg & 7 < 2
                        elif b == 0xFF and reg & 7 >= 2:
                            source = rm
                            if mod != 3 and reg & 7 != 3 and reg & 7 != 5:
                                source = 16
                                if plain:
                                    n = load(ops, n, 16, base, index, scale, disp, at)
                                else:
                                    put(ops, n, 0, 1 << 16, 0, 0, 0, at)
                                    n += 1
                            if reg & 7 == 2:
                                put(ops, n, 11, 0, source, 0, i - pos, at)
                            elif reg & 7 == 4:
                                put(ops, n, 14, 0, source, 0, 0, at)
                            elif reg & 7 == 6:
                                put(ops, n, 2, 4, 4, 0, -8, at)
                                n += 1
                                put(ops, n, 8, 8, 4, -1, 0, at)
                            elif reg & 7 == 5:  # far
                                put(ops, n, 0, 1 << 16, 0, 0, 0, at)
                                put(ops, n + 1, 14, 0, 16, 0, 0, at)
                                n += 1
                            else:
                                put(ops, n, 17, 0, 0, 0, 0, at)
                            n += 1
                        else:
                            done = 0
                    elif table == 1:
                        if b >> 4 == 8:
                            put(ops, n, 13, 0, 0, 0, i - start + value, at)
                            n += 1
                        elif b == 0x1E:
                            info = 0x110
                            done = repeat != 0xF3 or mod != 3 or reg & 7 != 1
                        elif b == 0x7E:
                            done = repeat == 0xF3
                        elif b == 0x20 or b == 0x22 or b == 0x21 or b == 0x23:
                            i += 1  # ModRM
                            put(ops, n, 17, 0, 0, 0, 0, at)
                            n += 1
                        elif b == 0xA0 or b == 0xA8:
                            put(ops, n, 2, 4, 4, 0, -8, at)
                            put(ops, n + 1, 8, 8, 4, -1, 0, at)
                            n += 2
                        elif b == 0xA1 or b == 0xA9:
                            put(ops, n, 2, 4, 4, 0, 8, at)
                            n += 1
                        elif b >> 3 == 0xC8 >> 3:
                            put(ops, n, 0, 1 << (b & 7 | (rex & 1) << 3), 0, 0, 0, at)
                            n += 1
                        elif b == 0xF7:
                            put(ops, n, 9, 0, 0, 0, 0, at)
                            n += 1
                        elif b == 0x07 or b == 0x0B or b == 0x35 or b == 0xB9 or b == 0xFF:
                            put(ops, n, 15, 0, 0, 0, 0, at)
                            n += 1
                        elif b == 0x77:
                            done = 1
                        else:
                            done = 0
                    else:
                        put(ops, n, 9, 0, 0, 0, 0, at)
                        n += 1
                if done == 0:
                    mask = 0
                    store = 0
                    if info & 0x100:
                        if mod == 3:
                            if info & 0x20 and rex == 0 and rm >= 4:
                                rm -= 4
                            mask |= 1 << rm
                        else:
                            store = 1
                    if info & 0x200:
                        if info & 0x20 and rex == 0 and reg >= 4:
                            reg -= 4
                        mask |= 1 << reg
                        if vex:
                            mask |= 1 << vvvv
                    if info & 0x400:
                        mask |= 1
                    if info & 0x800:
                        mask |= 4
                    if info & 0x1000:
                        mask |= 2
                    if mod != 3 and (info & 0x2000 or vex and table >= 2) or vex and table == 1 and b == 0xF7:
                        store = 1
                    if info & 0x8000:
                        put(ops, n, 17, 0, 0, 0, 0, at)
                        n += 1
                    else:
                        far = table == 0 and (b == 0xA2 or b == 0xA3 or b >> 3 == 0xD8 >> 3) or table == 1 and b == 0xAE
                        if store and (far or vex and (table >= 2 or b == 0xF7) or plain == 0 or index >= 0):
                            put(ops, n, 9, 0, 0, 0, 0, at)
                            n += 1
                        elif store:
                            size = 1 if info & 0x20 else 8 if table == 0 else 64
                            put(ops, n, 8, size, base, -1, disp, at)
                            n += 1
                        if mask:
                            put(ops, n, 0, mask, 0, 0, 0, at)
                            n += 1
                pos = i
            if pos < end:
                break
            put(ops, n, 15, 0, 0, 0, 0, end - start)
            count = n + 1
            f += 1
            first_row[f] = count
        result[0] = f
    return 0


def put(ops, n, op, a, b, c, value, at):
    ops[n, 0] = op
    ops[n, 1] = a
    ops[n, 2] = b
    ops[n, 3] = c
    ops[n, 4] = value
    ops[n, 5] = at


def load(ops, n, register, base, index, scale, disp, at):
    """The rows of a load of eight bytes; gives the row after them."""
    if index < 0:
        put(ops, n, 5, register, base, 0, disp, at)
    elif base >= 0 and scale == 0:
        put(ops, n, 3, 16, base, index, 0, at)
        n += 1
        put(ops, n, 5, register, 16, 0, disp, at)
    elif scale == 3:
        put(ops, n, 6, register, base, 8, disp, at)
    else:
        put(ops, n, 0, 1 << register, 0, 0, 0, at)
    return n + 1


def signed(text, at, size):
    """The signed number of 1, 2 or 4 bytes at `at`, which the caller has checked."""
    value = text[at]
    if size >= 2:
        value |= text[at + 1] << 8
    if size == 4:
        value |= text[at + 2] << 16
        value |= text[at + 3] * SIGN >> 8
        return value - SIGN if value >> 31 else value
    if size == 2:
        return value - (1 << 16) if value >> 15 else value
    return value - 256 if value >> 7 else value
