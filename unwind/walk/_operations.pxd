# Written by tools/shared.py from _operations.py: change that.

from icf._bytes cimport MASK, leb, sign_extended, uleb, word

from icf._types cimport Bytes, u64

from icf.dwarf.cfi cimport rules as r

from unwind.walk cimport columns as c

cdef inline (u64, size_t, size_t, size_t) operate(Bytes blocks, size_t begin, size_t pos, size_t end, const u64[::1] registers, size_t first_register, u64 known, u64[::1] room, size_t stack, size_t depth, size_t left) noexcept nogil:
    cdef u64 sign
    cdef u64 size
    cdef u64 opcode
    cdef u64 a
    cdef u64 b
    sign = 1
    sign <<= 63
    while pos < end:
        if left == 0 or depth + 2 >= c.STACK_LIMIT:
            return (c.BAD_OPERATION, pos, depth, left)
        left -= 1
        opcode = blocks[pos]
        pos += 1
        a = 0
        b = 0
        if opcode == 20 or opcode == 22 or opcode == 26 or (opcode == 27) or (opcode == 28) or (opcode == 29) or (opcode == 30) or (opcode == 33) or (opcode == 34) or (36 <= opcode <= 39) or (41 <= opcode <= 46):
            if depth < 2:
                return (c.BAD_OPERATION, pos, depth, left)
            b = room[stack + depth - 1]
            a = room[stack + depth - 2]
        elif opcode == 18 or opcode == 19 or opcode == 25 or (opcode == 31) or (opcode == 32) or (opcode == 35) or (opcode == 40):
            if depth < 1:
                return (c.BAD_OPERATION, pos, depth, left)
            a = room[stack + depth - 1]
        if 48 <= opcode <= 79:
            room[stack + depth] = opcode - 48
            depth += 1
        elif 8 <= opcode <= 15:
            size = sign >> 63
            size <<= opcode - 8 >> 1
            if end - pos < size:
                return (c.BAD_OPERATION, pos, depth, left)
            a = word(blocks, pos, size)
            if opcode & 1 and size < 8 and a >> 8 * size - 1:
                a |= MASK - ((sign >> 63 << 8 * size) - 1)
            pos += size
            room[stack + depth] = a
            depth += 1
        elif opcode == 16:
            a, pos = uleb(blocks, pos, end)
            room[stack + depth] = a
            depth += 1
        elif opcode == 17:
            size = pos
            a, pos = leb(blocks, pos, end)
            if pos <= end:
                a = sign_extended(a, blocks[pos - 1], pos - size)
            room[stack + depth] = a
            depth += 1
        elif 112 <= opcode <= 143 or opcode == 146:
            b = opcode - 112
            if opcode == 146:
                b, pos = uleb(blocks, pos, end)
            if pos > end:
                return (c.BAD_OPERATION, pos, depth, left)
            size = pos
            a, pos = leb(blocks, pos, end)
            if pos > end:
                return (c.BAD_OPERATION, pos, depth, left)
            if b >= r.REGISTER_COUNT or not known >> b & 1:
                return (c.UNKNOWN_REGISTER, pos, depth, left)
            a = sign_extended(a, blocks[pos - 1], pos - size)
            room[stack + depth] = registers[first_register + b] + a & MASK
            depth += 1
        elif opcode == 18:
            room[stack + depth] = a
            depth += 1
        elif opcode == 19:
            depth -= 1
        elif opcode == 20:
            room[stack + depth] = a
            depth += 1
        elif opcode == 21:
            if pos >= end or blocks[pos] >= depth:
                return (c.BAD_OPERATION, pos, depth, left)
            room[stack + depth] = room[stack + depth - 1 - blocks[pos]]
            pos += 1
            depth += 1
        elif opcode == 22:
            room[stack + depth - 1] = a
            room[stack + depth - 2] = b
        elif opcode == 23:
            if depth < 3:
                return (c.BAD_OPERATION, pos, depth, left)
            a = room[stack + depth - 1]
            room[stack + depth - 1] = room[stack + depth - 2]
            room[stack + depth - 2] = room[stack + depth - 3]
            room[stack + depth - 3] = a
        elif opcode == 25:
            room[stack + depth - 1] = 0 - a & MASK if a & sign else a
        elif opcode == 31:
            room[stack + depth - 1] = 0 - a & MASK
        elif opcode == 32:
            room[stack + depth - 1] = a ^ MASK
        elif opcode == 35:
            b, pos = uleb(blocks, pos, end)
            room[stack + depth - 1] = a + b & MASK
        elif opcode == 47 or opcode == 40:
            if end - pos < 2:
                return (c.BAD_OPERATION, pos, depth, left)
            b = word(blocks, pos, 2)
            pos += 2
            if opcode == 40:
                depth -= 1
            if opcode == 47 or a != 0:
                if b < 32768:
                    if b > end - pos:
                        return (c.BAD_OPERATION, pos, depth, left)
                    pos += b
                else:
                    b = 65536 - b
                    if b > pos - begin:
                        return (c.BAD_OPERATION, pos, depth, left)
                    pos -= b
        elif opcode == 150:
            pass
        elif 26 <= opcode <= 46:
            depth -= 1
            if opcode == 26:
                a = a & b
            elif opcode == 27 or opcode == 29:
                if b == 0:
                    return (c.BAD_OPERATION, pos, depth, left)
                if opcode == 29:
                    a = a % b
                else:
                    size = (a ^ b) & sign
                    a = 0 - a & MASK if a & sign else a
                    b = 0 - b & MASK if b & sign else b
                    a = a // b
                    if size != 0:
                        a = 0 - a & MASK
            elif opcode == 28:
                a = a - b & MASK
            elif opcode == 30:
                a = a * b & MASK
            elif opcode == 33:
                a = a | b
            elif opcode == 34:
                a = a + b & MASK
            elif opcode == 36:
                a = a << b & MASK if b < 64 else 0
            elif opcode == 37:
                a = a >> b if b < 64 else 0
            elif opcode == 38:
                if b > 63:
                    b = 63
                size = a & sign
                a = a >> b
                if size != 0 and b != 0:
                    a |= MASK - (MASK >> b)
            elif opcode == 39:
                a = a ^ b
            else:
                a ^= sign
                b ^= sign
                if opcode == 41:
                    a = a == b
                elif opcode == 42:
                    a = a >= b
                elif opcode == 43:
                    a = a > b
                elif opcode == 44:
                    a = a <= b
                elif opcode == 45:
                    a = a < b
                else:
                    a = a != b
            room[stack + depth - 1] = a
        else:
            return (c.OTHER_OPERATION, pos, depth, left)
        if pos > end:
            return (c.BAD_OPERATION, pos, depth, left)
    return (c.NO_OPERATION, pos, depth, left)
