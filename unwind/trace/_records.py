# cython: language_level=3, boundscheck=True, wraparound=False
"""Reads records: joins instructions with their bytes and targets, checks them, counts them (`unwind.trace.columns`).

    records ──read──> rows

The bytes of an instruction are those that stand before it, or the latest that stood before one of the same address.
Records that tools do not see are taken out: bytes, targets, the copies at the start of a chunk.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import u64
    from cython.cimports.unwind.samples._table import place_of
    from cython.cimports.unwind.trace import columns as c
    from cython.cimports.unwind.trace import layout as k
else:
    from icf._types import u64
    from unwind.samples._table import place_of
    from unwind.trace import columns as c
    from unwind.trace import layout as k


@cython.ccall
def read(
    records: cython.const[cython.uint][::1],
    state: u64[::1],
    rows: u64[:, ::1],
    codes: u64[:, ::1],
    places: u64[:, ::1],
) -> cython.size_t:
    """Read the records from `state[AT]` on; return how many rows were stored, with `state[WHY]` why it stopped.

    At a record that breaks a rule `state[AT]` is its number in `records`.
    """
    at: cython.size_t = state[c.AT]
    end: cython.size_t = records.shape[0] // 3
    limit: cython.size_t = rows.shape[0]
    count: cython.size_t = 0
    head: u64
    kind: u64
    size: u64
    address: u64
    what: u64
    target: u64
    keep: u64 = state[c.WANTED]
    why: u64 = c.NEEDS_BYTES
    is_seen: cython.bint
    with cython.nogil:
        while at < end:
            if count == limit:
                why = c.NEEDS_ROWS
                break
            head = records[3 * at]
            address = records[3 * at + 2]
            address = address << 32 | records[3 * at + 1]
            kind = head & 0xFFFF
            size = head >> 16
            what = kind | size << c.SIZE_SHIFT
            target = 0
            is_seen = True
            if kind >= k.TYPE_COUNT or kind == k.BUNDLE:
                why = c.BAD_TYPE
                break
            if kind != k.HEADER and state[c.VERSION] == 0:
                why = c.NO_HEADER
                break
            if _is_instruction(kind):
                if state[c.INSTRUCTIONS] >= state[c.LIMIT] and kind != k.NO_FETCH:
                    why = c.AT_LIMIT
                    break
                if size != 0:
                    why = _find_code(kind, size, address, state, codes, places)
                    if why != c.NEEDS_BYTES:
                        break
                    what |= state[c.CODE] << c.CODE_SHIFT
                    if state[c.ENCODING_BYTES] != 0:
                        what |= c.IS_NEW
                        state[c.ENCODING_BYTES] = 0
                    state[c.INSTRUCTIONS] += kind != k.NO_FETCH
                    if address >> 63 != 0:
                        what |= c.IN_KERNEL
                if kind == k.INDIRECT_JUMP or kind == k.INDIRECT_CALL or kind == k.RETURN:
                    target = state[c.WAITING_TARGET]
                    state[c.TARGET_WAITS] = 0
                    state[c.WAITING_TARGET] = 0
                state[c.FOOTER] = 0
                state[c.COPIES] = 0
                is_seen = keep & c.KEEP_INSTRUCTIONS != 0
                state[c.VISIBLE] += 1
            elif kind == k.ENCODING:
                if state[c.INSTRUCTIONS] >= state[c.LIMIT]:
                    why = c.AT_LIMIT
                    break
                if size == 0 or size > 8 or (state[c.ENCODING_BYTES] != 0 and state[c.ENCODING_BYTES] != 8):
                    why = c.LONG_ENCODING
                    break
                if state[c.ENCODING_BYTES] == 0:
                    state[c.ENCODING_LOW] = address
                    state[c.ENCODING_HIGH] = 0
                else:
                    state[c.ENCODING_HIGH] = address
                state[c.ENCODING_BYTES] += size
                if state[c.ENCODING_BYTES] > k.LONGEST_BYTES:
                    why = c.LONG_ENCODING
                    break
                is_seen = False
            elif kind == k.MARKER:
                why = _mark(size, address, state)
                if why != c.NEEDS_BYTES:
                    break
                is_seen = state[c.IS_SEEN] != 0 and keep & c.KEEP_MARKERS != 0
            elif k.THREAD <= kind <= k.FOOTER:
                is_seen = keep & c.KEEP_MARKERS != 0
                if kind == k.THREAD:
                    state[c.TID] = address
                    is_seen = keep & (c.KEEP_MARKERS | c.KEEP_THREADS) != 0
                elif kind == k.PID:
                    state[c.PID] = address
                elif kind == k.HEADER:
                    if address == 0 or address > k.LAST_VERSION:
                        why = c.BAD_VERSION
                        break
                    state[c.VERSION] = address
                if kind == k.THREAD_EXIT:
                    state[c.VISIBLE] += 1
                state[c.FOOTER] = c.END_OF_TRACE if kind == k.FOOTER else 0
                state[c.COPIES] = 0
            else:
                state[c.FOOTER] = 0
                state[c.COPIES] = 0
                state[c.VISIBLE] += 1
                is_seen = keep & c.KEEP_DATA != 0
            at += 1
            if state[c.IN_KERNEL_NOW] != 0 and kind != k.THREAD:
                what |= c.IN_KERNEL
            if what & c.IN_KERNEL != 0:
                is_seen = is_seen and keep & c.KEEP_KERNEL != 0
            if is_seen:
                rows[count, c.WHAT] = what
                rows[count, c.ADDRESS] = address
                rows[count, c.TARGET] = target
                count += 1
    state[c.RECORDS] += at - state[c.AT]
    state[c.AT] = at
    state[c.WHY] = why
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_instruction(kind: u64) -> cython.bint:
    """Return whether a record is that of an instruction, or of a further round of one."""
    return (
        (k.INSTRUCTION <= kind <= k.RETURN)
        or kind == k.NO_FETCH
        or kind == k.SYSENTER
        or kind == k.TAKEN_JUMP
        or kind == k.UNTAKEN_JUMP
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_code(kind: u64, size: u64, address: u64, state: u64[::1], codes: u64[:, ::1], places: u64[:, ::1]) -> u64:
    """Store the number of an instruction's code in `state[CODE]`; return why not, or NEEDS_BYTES."""
    place: cython.size_t
    number: u64
    waiting: u64 = state[c.ENCODING_BYTES]
    is_filtered: cython.bint = state[c.FILETYPE] & (k.IS_FILTERED | k.IS_INSTRUCTION_FILTERED) != 0
    if address == c.LAST_ADDRESS:
        return c.BAD_ADDRESS
    if waiting != 0 and waiting != size and state[c.FILETYPE] & k.IS_REGDEPS == 0:
        return c.SIZE_OF_ENCODING
    if (
        (kind == k.INDIRECT_JUMP or kind == k.INDIRECT_CALL or kind == k.RETURN)
        and state[c.TARGET_WAITS] == 0
        and state[c.VERSION] >= 5
        and not is_filtered
    ):
        return c.NO_TARGET
    place = place_of(places, address)
    number = places[place, 1]
    if places[place, 0] != 0 and codes[number, c.CODE_SIZE] == size:
        if waiting == 0 or (
            codes[number, c.CODE_LOW] == state[c.ENCODING_LOW] and codes[number, c.CODE_HIGH] == state[c.ENCODING_HIGH]
        ):
            state[c.CODE] = number
            return c.NEEDS_BYTES
    if waiting == 0 and state[c.FILETYPE] & k.HAS_ENCODINGS and state[c.FILETYPE] & k.IS_CORE_SHARDED == 0:
        return c.NO_ENCODING
    number = state[c.CODE_COUNT]
    if number == codes.shape[0] or 2 * number >= places.shape[0]:
        return c.NEEDS_CODES
    codes[number, c.CODE_ADDRESS] = address
    codes[number, c.CODE_LOW] = state[c.ENCODING_LOW] if waiting != 0 else 0
    codes[number, c.CODE_HIGH] = state[c.ENCODING_HIGH] if waiting != 0 else 0
    codes[number, c.CODE_SIZE] = size
    places[place, 0] = address + 1
    places[place, 1] = number
    state[c.CODE] = number
    state[c.CODE_COUNT] = number + 1
    return c.NEEDS_BYTES


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _mark(kind: u64, value: u64, state: u64[::1]) -> u64:
    """Take note of a marker, in `state[IS_SEEN]` whether tools see it; return why not, or NEEDS_BYTES."""
    copies: u64 = state[c.COPIES]
    state[c.IS_SEEN] = 1
    if kind == k.BRANCH_TARGET:
        if state[c.INSTRUCTIONS] >= state[c.LIMIT]:
            return c.AT_LIMIT
        state[c.TARGET_WAITS] = 1
        state[c.WAITING_TARGET] = value
        state[c.IS_SEEN] = 0
    elif kind == k.RECORD_ORDINAL:
        if state[c.BASE] != 0:
            state[c.VISIBLE] = value
            state[c.BASE] = 0
        elif state[c.VISIBLE] != value:
            return c.BAD_ORDINAL
        state[c.IS_SEEN] = 0
    elif kind == k.TIMESTAMP:
        if value != c.NO_TIME:
            if copies == 0 and value >= state[c.TIME_LIMIT]:
                return c.AT_LIMIT
            state[c.TIME] = value
        state[c.IS_SEEN] = copies == 0
    elif kind == k.CPU_ID:
        state[c.CPU] = value
        state[c.IS_SEEN] = copies == 0
        copies = 0
    elif kind == k.FILETYPE:
        state[c.FILETYPE] = value
    elif kind == k.CHUNK_INSTR_COUNT:
        state[c.CHUNK_SIZE] = value
    elif kind == k.SYSCALL_TRACE_START or kind == k.CONTEXT_SWITCH_START:
        state[c.IN_KERNEL_NOW] = 1
    elif kind == k.SYSCALL_TRACE_END or kind == k.CONTEXT_SWITCH_END:
        state[c.IN_KERNEL_NOW] = 0
    if kind != k.RECORD_ORDINAL and kind != k.TIMESTAMP:
        copies = 0
    state[c.COPIES] = copies
    state[c.FOOTER] = (value & c.CHUNK_MASK) + 1 if kind == k.CHUNK_FOOTER else 0
    state[c.VISIBLE] += state[c.IS_SEEN]
    return c.NEEDS_BYTES
