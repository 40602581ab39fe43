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
    from cython.cimports.icf._bytes import MASK, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.dwarf.cfi import rules as r
    from cython.cimports.unwind.walk import columns as c
    from cython.cimports.unwind.walk._evaluate import evaluate, load
else:
    from icf._bytes import MASK, word
    from icf._types import Bytes, u64
    from icf.dwarf.cfi import rules as r
    from unwind.walk import columns as c
    from unwind.walk._evaluate import evaluate, load


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
    registers: cython.size_t = pc_register + 1  # the others of x86-64 are those of vectors, which hold no addresses
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
    # most of what is loaded is in the first range, which has a thread's own stack
    first_start: u64 = ranges[0, 0] if ranges.shape[0] != 0 else 0
    first_bytes: u64 = ranges[0, 1] - first_start if ranges.shape[0] != 0 else 0
    first_at: u64 = ranges[0, 2] if ranges.shape[0] != 0 else 0
    memory_bytes: u64 = memory.shape[0]
    if first_at > memory_bytes or memory_bytes - first_at < first_bytes:
        first_bytes = 0
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
            while register < registers:
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
            if (
                count != 0
                and cfa <= state[c.LAST_CFA]
                and ((flags & (c.IS_SIGNAL | c.IS_EXACT)) == 0 or steps[step, r.FLAGS] & r.HAS_ONE_STACK)
            ):
                kind = steps[step, r.FIRST + 2 * steps[step, r.RETURN_ADDRESS]]
                reason = c.END_OF_STACK if kind == r.UNDEFINED else c.NOT_GROWING  # _start of AArch64 has no frame
                break
            state[c.LAST_CFA] = cfa
            # -- the caller's registers
            caller_known = 0
            register = 0
            while register < registers:
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
                        if address >= first_start and address - first_start < first_bytes \
                                and first_bytes - (address - first_start) >= 8:  # fmt: skip
                            value = word(memory, first_at + (address - first_start), 8)
                            is_good = True
                        else:
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
            while register < registers:
                state[c.STATE_REGISTERS + register] = room[register]
                register += 1
            state[c.STATE_KNOWN] = caller_known
            state[c.STATE_FLAGS] = c.IS_EXACT if flags & c.IS_SIGNAL else 0
    return reason


@cython.ccall
def walk_copies(
    keys: cython.const[u64][::1],
    values: cython.const[u64][::1],
    steps: cython.const[u64][:, ::1],
    blocks: Bytes,
    buffer: Bytes,
    copies: u64[:, ::1],
    first: cython.size_t,
    order: cython.const[u64][:, ::1],
    known: u64,
    ranges: u64[:, ::1],
    state: u64[::1],
    room: u64[::1],
    frames: u64[:, ::1],
    out: u64[::1],
) -> tuple[cython.size_t, u64]:
    """Walk stacks that were copied with their registers, from number `first` on, and store their addresses.

    buffer  has registers, u64 each, and stacks; `copies` u64[n, COPY_WIDTH]: where
    order   u64[m, 2]: which of these registers is which by DWARF's numbers; bit k of `known` says whether k is there
    ranges  u64[1, 3], for a stack
    out     the addresses of all, one after the other; `copies` gets where those of a stack begin and end, and how many
            of them are program counters
    Returns the number of the stack that it stopped at, and why: NEEDS_STEP, or OUT_OF_FRAMES, if `out` is too small.
    """
    count: cython.size_t = copies.shape[0]
    limit: u64 = out.shape[0]
    used: u64 = copies[first - 1, c.COPY_END] if first != 0 else 0
    registers: cython.size_t = order.shape[0]
    sp: cython.size_t = 31 if state[c.MACHINE_IS_AARCH64] != 0 else 7
    at: cython.size_t
    i: cython.size_t
    start: u64
    reason: u64
    while first < count:
        i = 0
        while i < r.REGISTER_COUNT:
            state[c.STATE_REGISTERS + i] = 0
            i += 1
        at = copies[first, c.COPY_REGISTERS]
        i = 0
        while i < registers:
            state[c.STATE_REGISTERS + order[i, 1]] = word(buffer, at + 8 * order[i, 0], 8)
            i += 1
        state[c.COUNT] = 0
        state[c.LAST_CFA] = 0
        state[c.EXACT_COUNT] = 0
        state[c.STATE_KNOWN] = known
        state[c.STATE_FLAGS] = c.IS_EXACT
        start = state[c.STATE_REGISTERS + sp]
        ranges[0, 0] = start
        ranges[0, 1] = start + copies[first, c.COPY_BYTES] if MASK - start >= copies[first, c.COPY_BYTES] else MASK
        ranges[0, 2] = copies[first, c.COPY_STACK]
        reason = walk(keys, values, steps, blocks, buffer, ranges, state, room, frames)
        if reason == c.NEEDS_STEP:
            return first, reason
        if limit - used < state[c.COUNT]:
            return first, c.OUT_OF_FRAMES
        copies[first, c.COPY_START] = used
        i = 0
        while i < state[c.COUNT]:
            out[used] = frames[i, c.PC]
            used += 1
            i += 1
        copies[first, c.COPY_END] = used
        copies[first, c.COPY_EXACT] = state[c.EXACT_COUNT]
        first += 1
    return first, c.END_OF_STACK
