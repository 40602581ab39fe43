# cython: language_level=3, boundscheck=True, wraparound=False
"""Walks a stack: from the registers of a frame to those of its caller, until it ends.

    registers, memory                      columns of `unwind.walk.columns`
    pc ──> table ──> step (a row of call frame information) ──> CFA, return address, callee-saved registers ──> pc

A pc that the table does not have pauses the walk; the caller adds its step, and calls again. Every loop is bounded: by
the room for frames, by OPERATION_LIMIT for an expression.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, leb, sign_extended, uleb, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf.cfi import rules as r
    from cython.cimports.unwind.walk import columns as c
else:
    from icf._bytes import MASK, leb, sign_extended, uleb, word
    from icf._types import Bytes, u64
    from icf.dwarf.cfi import rules as r
    from unwind.walk import columns as c


@cython.ccall
def walk(
    keys: cython.const[u64][::1],
    values: cython.const[u64][::1],
    steps: cython.const[u64][:, ::1],
    blocks: Bytes,
    memory: Bytes,
    ranges: cython.const[u64][:, ::1],
    state: u64[::1],
    room: u64[::1],
    frames: u64[:, ::1],
) -> u64:
    """Walk on from `state`, and write each frame to `frames`.

    keys, values  a hash table of 2 ** n places: the address that a frame is looked up at, plus one (0: a free place),
                  and the row of `steps`
    steps         as `icf.dwarf.cfi.rules` has rows; row 0 stands for code without call frame information
    blocks        the expressions that rules refer to
    memory        bytes; `ranges` u64[n, 3]: start, end, offset in `memory`, ascending
    room          u64[REGISTER_COUNT + STACK_LIMIT]: for the caller's registers and for an expression
    Returns why it stopped (`columns.NEEDS_STEP`, ...). Each frame that was reached is written.
    """
    mask: u64 = keys.shape[0] - 1
    limit: u64 = frames.shape[0]
    is_aarch64: cython.bint = state[c.MACHINE_IS_AARCH64] != 0
    sp: cython.size_t = 31 if is_aarch64 else 7
    fp: cython.size_t = 29 if is_aarch64 else 6
    pc_register: cython.size_t = 32 if is_aarch64 else 16
    one: u64 = 1
    pc: u64
    key: u64
    at: u64
    step: cython.size_t
    cfa: u64
    flags: u64
    known: u64
    caller_known: u64
    count: u64
    register: cython.size_t
    kind: u64
    value: u64
    address: u64
    base: u64
    is_good: cython.bint
    is_free: cython.bint
    reason: u64
    with cython.nogil:
        while True:
            count = state[c.COUNT]
            known = state[c.STATE_KNOWN]
            pc = state[c.STATE_REGISTERS + pc_register]
            flags = state[c.STATE_FLAGS] & c.IS_EXACT
            if count >= limit:
                reason = c.OUT_OF_FRAMES
                break
            # -- the step of this frame
            key = pc if flags != 0 else (pc - 1) & MASK
            if key == MASK:
                key -= 1  # neither is code, and its successor would be that of a free place
            at = (key ^ key >> 17) & mask
            while keys[at] != 0 and keys[at] != key + 1:
                at = (at + 1) & mask
            if keys[at] == 0:
                state[c.WANTED] = key
                reason = c.NEEDS_STEP
                break
            step = values[at]
            # -- the frame
            frames[count, c.PC] = pc
            frames[count, c.CFA] = 0
            frames[count, c.KNOWN] = known
            register = 0
            while register < r.REGISTER_COUNT:
                frames[count, c.REGISTERS + register] = state[c.STATE_REGISTERS + register]
                register += 1
            state[c.COUNT] = count + 1
            if flags != 0:
                state[c.EXACT_COUNT] += 1
            frames[count, c.FLAGS] = flags | c.LOSES_CALLER
            if step == 0:
                reason = c.NO_CALL_FRAMES
                break
            if steps[step, r.FLAGS] & r.IS_SIGNAL_FRAME:
                flags |= c.IS_SIGNAL
            if steps[step, r.CFA_REGISTER] != fp:
                flags |= c.LOSES_CALLER
            frames[count, c.FLAGS] = flags
            # -- the CFA
            base = steps[step, r.CFA_REGISTER]
            if base == r.CFA_EXPRESSION:
                cfa, is_good = evaluate(blocks, steps[step, r.CFA_OFFSET], memory, ranges, state, room, 0, False)
                if not is_good:
                    reason = c.BAD_EXPRESSION
                    break
            elif base < r.REGISTER_COUNT and known >> base & 1:
                cfa = (state[c.STATE_REGISTERS + base] + steps[step, r.CFA_OFFSET]) & MASK
            else:
                reason = c.NO_MEMORY
                break
            frames[count, c.CFA] = cfa
            if count != 0 and cfa <= state[c.LAST_CFA] and (flags & (c.IS_SIGNAL | c.IS_EXACT)) == 0:
                kind = steps[step, r.FIRST + 2 * steps[step, r.RETURN_ADDRESS]]
                reason = c.END_OF_STACK if kind == r.UNDEFINED else c.NOT_GROWING  # _start of AArch64 has no frame
                break
            state[c.LAST_CFA] = cfa
            # -- the caller's registers
            caller_known = 0
            register = 0
            while register < r.REGISTER_COUNT:
                kind = steps[step, r.FIRST + 2 * register]
                value = steps[step, r.FIRST + 2 * register + 1]
                is_good = False
                address = 0
                if kind == r.UNSPECIFIED:
                    if register == sp:
                        address = cfa
                        is_good = True
                    elif is_aarch64:
                        is_good = 19 <= register <= 30 and known >> register & 1
                    else:
                        is_good = (register == 3 or register == 6 or 12 <= register <= 15) and known >> register & 1
                    if register != sp:
                        address = state[c.STATE_REGISTERS + register]
                elif kind == r.SAME_VALUE:
                    address = state[c.STATE_REGISTERS + register]
                    is_good = known >> register & 1
                elif kind == r.VAL_OFFSET:
                    address = (cfa + value) & MASK
                    is_good = True
                elif kind == r.REGISTER:
                    if value < r.REGISTER_COUNT:
                        address = state[c.STATE_REGISTERS + value]
                        is_good = known >> value & 1
                elif kind == r.OFFSET or kind == r.EXPRESSION:
                    if kind == r.OFFSET:
                        address = (cfa + value) & MASK
                        is_good = True
                    else:
                        address, is_good = evaluate(blocks, value, memory, ranges, state, room, cfa, True)
                    if is_good:
                        # what lies below the stack pointer and was not copied has been restored: in an epilogue
                        is_free = known >> sp & 1 and address < state[c.STATE_REGISTERS + sp]
                        value, is_good = load(memory, ranges, address, 8)
                        address = value
                        if not is_good and is_free and register != steps[step, r.RETURN_ADDRESS]:
                            address = state[c.STATE_REGISTERS + register]
                            is_good = known >> register & 1
                elif kind == r.VAL_EXPRESSION:
                    address, is_good = evaluate(blocks, value, memory, ranges, state, room, cfa, True)
                if is_good:
                    room[register] = address
                    caller_known |= one << register
                else:
                    room[register] = 0
                register += 1
            # -- the caller's address
            base = steps[step, r.RETURN_ADDRESS]
            kind = steps[step, r.FIRST + 2 * base]
            if kind == r.UNDEFINED or (kind == r.UNSPECIFIED and not is_aarch64):
                reason = c.END_OF_STACK
                break
            if (kind == r.UNSPECIFIED or kind == r.SAME_VALUE) and flags & c.IS_EXACT == 0:
                reason = c.END_OF_STACK  # the register has held the return address of a call since
                break
            if not caller_known >> base & 1:
                reason = c.NO_MEMORY
                break
            pc = room[base]
            if steps[step, r.FLAGS] & r.IS_RETURN_ADDRESS_SIGNED:
                pc &= MASK >> 16  # the bits above the address are the signature
                room[base] = pc
            if pc == 0:
                reason = c.END_OF_STACK
                break
            room[pc_register] = pc
            caller_known |= one << pc_register
            register = 0
            while register < r.REGISTER_COUNT:
                state[c.STATE_REGISTERS + register] = room[register]
                register += 1
            state[c.STATE_KNOWN] = caller_known
            state[c.STATE_FLAGS] = c.IS_EXACT if flags & c.IS_SIGNAL else 0
    return reason


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def load(memory: Bytes, ranges: cython.const[u64][:, ::1], address: u64, size_bytes: u64) -> tuple[u64, cython.bint]:
    """Return the number at an address, and whether it is there."""
    low: cython.size_t = 0
    high: cython.size_t = ranges.shape[0]
    middle: cython.size_t
    limit: u64 = memory.shape[0]
    at: u64
    while low < high:
        middle = (low + high) >> 1
        if ranges[middle, 0] <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0 or address >= ranges[low - 1, 1] or ranges[low - 1, 1] - address < size_bytes:
        return 0, False
    at = ranges[low - 1, 2] + (address - ranges[low - 1, 0])
    if at > limit or limit - at < size_bytes:
        return 0, False
    return word(memory, at, size_bytes), True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def evaluate(
    blocks: Bytes,
    start: u64,
    memory: Bytes,
    ranges: cython.const[u64][:, ::1],
    state: u64[::1],
    room: u64[::1],
    first: u64,
    has_first: cython.bint,
) -> tuple[u64, cython.bint]:
    """Return what the expression at `start` of `blocks` yields (DWARF 5, 2.5), and whether it yields anything.

    `first` is on its stack when it begins: the CFA, for the rule of a register.
    """
    pos: cython.size_t = start
    begin: cython.size_t
    end: cython.size_t = blocks.shape[0]
    depth: cython.size_t = 0
    left: cython.size_t = c.OPERATION_LIMIT
    stack: cython.size_t = r.REGISTER_COUNT  # where it lies in `room`
    outcome: u64
    size: u64
    opcode: u64
    value: u64
    is_good: cython.bint
    if pos >= end:
        return 0, False
    size, pos = uleb(blocks, pos, end)
    if pos > end or size > end - pos:
        return 0, False
    begin = pos
    end = pos + size
    if has_first:
        room[stack] = first
        depth = 1
    while True:
        outcome, pos, depth, left = operate(
            blocks, begin, pos, end, state, c.STATE_REGISTERS, state[c.STATE_KNOWN], room, stack, depth, left
        )
        if outcome != c.OTHER_OPERATION:
            break
        opcode = blocks[pos - 1]
        if depth == 0 or (opcode != 0x06 and (opcode != 0x94 or pos >= end)):  # deref, deref_size
            return 0, False
        size = 8
        if opcode == 0x94:
            size = blocks[pos]
            pos += 1
            if size == 0 or size > 8:
                return 0, False
        value, is_good = load(memory, ranges, room[stack + depth - 1], size)
        if not is_good:
            return 0, False
        room[stack + depth - 1] = value
    if outcome != c.NO_OPERATION or depth == 0:
        return 0, False
    return room[stack + depth - 1], True


@cython.ccall
@cython.nogil
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
