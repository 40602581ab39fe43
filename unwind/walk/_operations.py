"""The operations of DWARF expressions that need only their stack and registers (DWARF 5, 2.5.1), for kernels."""

from __future__ import annotations

from icf._bytes import MASK, leb, sign_extended, uleb, word
from icf._types import Bytes, u64
from icf.dwarf.cfi import rules as r
from unwind.walk import columns as c

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
@cython.exceptval(check=False)
def operate(
    blocks: Bytes,
    begin: cython.size_t,
    pos: cython.size_t,
    end: cython.size_t,
    registers: cython.const[u64][::1],
    first_register: cython.size_t,
    known: u64,
    room: u64[::1],
    stack: cython.size_t,
    depth: cython.size_t,
    left: cython.size_t,
) -> tuple[u64, cython.size_t, cython.size_t, cython.size_t]:
    """Run an expression from `pos` on, up to an operation that needs more than its stack and the known registers.

    begin, end  of the expression in `blocks`
    registers   from `first_register` on, by DWARF number; bit n of `known` says whether register n is known
    room        from `stack` on the expression's stack, of which `depth` are used
    left        how many operations may still run
    Returns why it stopped, the position, the depth, and how many operations may still run. It stops at the end
    (`columns.NO_OPERATION`), after the opcode of what the caller has to do (OTHER_OPERATION), at a register that is not
    known, or at what breaks a rule.
    """
    sign: u64 = 1
    sign <<= 63
    size: u64
    opcode: u64
    a: u64
    b: u64
    while pos < end:
        if left == 0 or depth + 2 >= c.STACK_LIMIT:
            return c.BAD_OPERATION, pos, depth, left
        left -= 1
        opcode = blocks[pos]
        pos += 1
        a = 0
        b = 0
        # -- operations that take one or two values
        if opcode == 0x14 or opcode == 0x16 or opcode == 0x1A or opcode == 0x1B or opcode == 0x1C or opcode == 0x1D \
                or opcode == 0x1E or opcode == 0x21 or opcode == 0x22 or 0x24 <= opcode <= 0x27 \
                or 0x29 <= opcode <= 0x2E:  # fmt: skip
            if depth < 2:
                return c.BAD_OPERATION, pos, depth, left
            b = room[stack + depth - 1]
            a = room[stack + depth - 2]
        elif opcode == 0x12 or opcode == 0x13 or opcode == 0x19 or opcode == 0x1F or opcode == 0x20 \
                or opcode == 0x23 or opcode == 0x28:  # fmt: skip
            if depth < 1:
                return c.BAD_OPERATION, pos, depth, left
            a = room[stack + depth - 1]
        if 0x30 <= opcode <= 0x4F:  # lit
            room[stack + depth] = opcode - 0x30
            depth += 1
        elif 0x08 <= opcode <= 0x0F:  # const1u, const1s ... const8s
            size = sign >> 63
            size <<= (opcode - 8) >> 1
            if end - pos < size:
                return c.BAD_OPERATION, pos, depth, left
            a = word(blocks, pos, size)
            if opcode & 1 and size < 8 and a >> (8 * size - 1):
                a |= MASK - ((sign >> 63 << 8 * size) - 1)
            pos += size
            room[stack + depth] = a
            depth += 1
        elif opcode == 0x10:  # constu
            a, pos = uleb(blocks, pos, end)
            room[stack + depth] = a
            depth += 1
        elif opcode == 0x11:  # consts
            size = pos
            a, pos = leb(blocks, pos, end)
            if pos <= end:
                a = sign_extended(a, blocks[pos - 1], pos - size)
            room[stack + depth] = a
            depth += 1
        elif 0x70 <= opcode <= 0x8F or opcode == 0x92:  # breg, bregx
            b = opcode - 0x70
            if opcode == 0x92:
                b, pos = uleb(blocks, pos, end)
            if pos > end:
                return c.BAD_OPERATION, pos, depth, left
            size = pos
            a, pos = leb(blocks, pos, end)
            if pos > end:
                return c.BAD_OPERATION, pos, depth, left
            if b >= r.REGISTER_COUNT or not known >> b & 1:
                return c.UNKNOWN_REGISTER, pos, depth, left
            a = sign_extended(a, blocks[pos - 1], pos - size)
            room[stack + depth] = (registers[first_register + b] + a) & MASK
            depth += 1
        elif opcode == 0x12:  # dup
            room[stack + depth] = a
            depth += 1
        elif opcode == 0x13:  # drop
            depth -= 1
        elif opcode == 0x14:  # over
            room[stack + depth] = a
            depth += 1
        elif opcode == 0x15:  # pick
            if pos >= end or blocks[pos] >= depth:
                return c.BAD_OPERATION, pos, depth, left
            room[stack + depth] = room[stack + depth - 1 - blocks[pos]]
            pos += 1
            depth += 1
        elif opcode == 0x16:  # swap
            room[stack + depth - 1] = a
            room[stack + depth - 2] = b
        elif opcode == 0x17:  # rot
            if depth < 3:
                return c.BAD_OPERATION, pos, depth, left
            a = room[stack + depth - 1]
            room[stack + depth - 1] = room[stack + depth - 2]
            room[stack + depth - 2] = room[stack + depth - 3]
            room[stack + depth - 3] = a
        elif opcode == 0x19:  # abs
            room[stack + depth - 1] = (0 - a) & MASK if a & sign else a
        elif opcode == 0x1F:  # neg
            room[stack + depth - 1] = (0 - a) & MASK
        elif opcode == 0x20:  # not
            room[stack + depth - 1] = a ^ MASK
        elif opcode == 0x23:  # plus_uconst
            b, pos = uleb(blocks, pos, end)
            room[stack + depth - 1] = (a + b) & MASK
        elif opcode == 0x2F or opcode == 0x28:  # skip, bra
            if end - pos < 2:
                return c.BAD_OPERATION, pos, depth, left
            b = word(blocks, pos, 2)
            pos += 2
            if opcode == 0x28:
                depth -= 1
            if opcode == 0x2F or a != 0:
                if b < 0x8000:
                    if b > end - pos:
                        return c.BAD_OPERATION, pos, depth, left
                    pos += b
                else:
                    b = 0x10000 - b
                    if b > pos - begin:
                        return c.BAD_OPERATION, pos, depth, left
                    pos -= b
        elif opcode == 0x96:  # nop
            pass
        elif 0x1A <= opcode <= 0x2E:  # two values to one
            depth -= 1
            if opcode == 0x1A:
                a = a & b
            elif opcode == 0x1B or opcode == 0x1D:  # div is signed, mod is not
                if b == 0:
                    return c.BAD_OPERATION, pos, depth, left
                if opcode == 0x1D:
                    a = a % b
                else:
                    size = (a ^ b) & sign
                    a = (0 - a) & MASK if a & sign else a
                    b = (0 - b) & MASK if b & sign else b
                    a = a // b
                    if size != 0:
                        a = (0 - a) & MASK
            elif opcode == 0x1C:
                a = (a - b) & MASK
            elif opcode == 0x1E:
                a = (a * b) & MASK
            elif opcode == 0x21:
                a = a | b
            elif opcode == 0x22:
                a = (a + b) & MASK
            elif opcode == 0x24:
                a = (a << b) & MASK if b < 64 else 0
            elif opcode == 0x25:
                a = a >> b if b < 64 else 0
            elif opcode == 0x26:  # shra
                if b > 63:
                    b = 63
                size = a & sign
                a = a >> b
                if size != 0 and b != 0:
                    a |= MASK - (MASK >> b)
            elif opcode == 0x27:
                a = a ^ b
            else:
                a ^= sign  # signed numbers compare as unsigned ones do, with the sign bit changed
                b ^= sign
                if opcode == 0x29:
                    a = a == b
                elif opcode == 0x2A:
                    a = a >= b
                elif opcode == 0x2B:
                    a = a > b
                elif opcode == 0x2C:
                    a = a <= b
                elif opcode == 0x2D:
                    a = a < b
                else:
                    a = a != b
            room[stack + depth - 1] = a
        else:
            return c.OTHER_OPERATION, pos, depth, left
        if pos > end:
            return c.BAD_OPERATION, pos, depth, left
    return c.NO_OPERATION, pos, depth, left
