# cython: language_level=3, boundscheck=True, wraparound=False
"""Finds where the file of a core goes on with another thread, and where each thread was then.

    rows ──next_stretch──> the row that the next stretch begins with

Most stretches leave the stack as it was: a thread that waits returns from where it waited, works, and waits again. Then
`IS_UNEVEN` is 0, and `OPEN` has the same return addresses as `LEFT`, in reverse, at the same places. The places, where
the trace has them, tell stacks apart between which the thread has changed.

A stretch begins with a THREAD record, or where the core begins to wait: the thread may run elsewhere before it goes on.
Not all versions of DynamoRIO write that a core waited; then the thread goes on at another place than where it was.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import u64
    from cython.cimports.unwind.trace import columns as c
    from cython.cimports.unwind.trace import layout as k
    from cython.cimports.unwind.trace import stretch_columns as t
else:
    from icf._types import u64
    from unwind.trace import columns as c
    from unwind.trace import layout as k
    from unwind.trace import stretch_columns as t


@cython.ccall
def next_stretch(rows: cython.const[u64][:, ::1], start: cython.size_t, state: u64[::1]) -> cython.size_t:
    """Return the row at which the stretch of row `start` ends; what it is made of is in `state`.

    If that is the number of rows, it goes on in the next ones.
    """
    row: cython.size_t = start
    end: cython.size_t = rows.shape[0]
    what: u64
    kind: u64
    size: u64
    address: u64
    with cython.nogil:
        while row < end:
            what = rows[row, c.WHAT]
            kind = what & c.TYPE_MASK
            size = what >> c.SIZE_SHIFT & 0xFFFF
            address = rows[row, c.ADDRESS]
            if kind == k.WRITE:
                if state[t.AFTER] == t.AFTER_CALL:
                    state[t.FIRST_OPEN_SLOT + state[t.OPEN] - 1] = address
                    state[t.AFTER] = t.NO_CALL
            elif kind == k.READ:
                if state[t.AFTER] == t.AFTER_LEAVING:
                    state[t.FIRST_LEFT_SLOT + state[t.LEFT] - 1] = address
                    state[t.AFTER] = t.NO_CALL
                elif state[t.AFTER] == t.AFTER_RETURN:
                    if state[t.EXPECTED] != 0 and state[t.EXPECTED] != address:
                        state[t.IS_UNEVEN] = 1
                    state[t.AFTER] = t.NO_CALL
            elif kind == k.THREAD:
                if state[t.HAS_BEGUN] != 0:
                    break
                state[t.TID] = address
            elif kind == k.PID:
                state[t.PID] = address
            elif kind == k.THREAD_EXIT:
                state[t.HAS_EXIT] = 1
            elif kind == k.MARKER:
                if size == k.CORE_WAIT or size == k.CORE_IDLE:
                    if state[t.IS_IDLE] == 0 and state[t.HAS_BEGUN] != 0:
                        break
                    state[t.IS_IDLE] = 1
                elif size == k.TIMESTAMP:
                    if state[t.FIRST_TIME] == 0:
                        state[t.FIRST_TIME] = address
                    state[t.LAST_TIME] = address
                elif size == k.SYSCALL:
                    state[t.WAS_CALL_OF_SYSTEM] = 1
                elif size == k.CPU_ID and address != c.NO_TIME:
                    if state[t.CPU] != 0 and state[t.CPU] != address + 1:
                        state[t.HAS_SEVERAL_CPUS] = 1
                    state[t.CPU] = address + 1
                elif size == k.KERNEL_EVENT or size == k.KERNEL_XFER or size == k.RSEQ_ABORT or size == k.WINDOW_ID:
                    if state[t.FIRST] == t.NO_PLACE:
                        state[t.FIRST] = t.SOME_PLACE
                    state[t.LAST] = t.SOME_PLACE
                    state[t.IS_UNEVEN] = 1
            elif kind == k.NO_FETCH:
                if state[t.FIRST] == t.NO_PLACE:
                    state[t.FIRST] = t.SOME_PLACE
                state[t.LAST] = t.KNOWN_PLACE
                state[t.LAST_WHAT] = what
                state[t.LAST_ADDRESS] = address
            elif k.INSTRUCTION <= kind <= k.RETURN or kind == k.SYSENTER or kind >= k.TAKEN_JUMP:
                if state[t.LAST] == t.KNOWN_PLACE and _is_gap(address, state):
                    break
                if state[t.FIRST] == t.NO_PLACE:
                    state[t.FIRST] = t.KNOWN_PLACE
                    state[t.FIRST_ADDRESS] = address
                state[t.LAST] = t.KNOWN_PLACE
                state[t.WAS_CALL_OF_SYSTEM] = 0
                state[t.LAST_WHAT] = what
                state[t.LAST_ADDRESS] = address
                state[t.LAST_TARGET] = rows[row, c.TARGET]
                state[t.IS_IDLE] = 0
                state[t.AFTER] = t.NO_CALL
                if kind == k.DIRECT_CALL or kind == k.INDIRECT_CALL:
                    _call(address + size, kind == k.INDIRECT_CALL, state)
                elif kind == k.RETURN:
                    _leave(rows[row, c.TARGET], state)
                elif kind == k.INDIRECT_JUMP and state[t.OPEN] == 0:  # it may be that of longjmp
                    state[t.IS_UNEVEN] = 1
            state[t.HAS_BEGUN] = 1
            row += 1
    return row


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_gap(address: u64, state: u64[::1]) -> cython.bint:
    """Return whether an instruction cannot be the next one."""
    what: u64 = state[t.LAST_WHAT]
    kind: u64 = what & c.TYPE_MASK
    if kind == k.INDIRECT_JUMP or kind == k.INDIRECT_CALL or kind == k.RETURN:
        return state[t.LAST_TARGET] != 0 and state[t.LAST_TARGET] != address
    if state[t.WAS_CALL_OF_SYSTEM] != 0 or (kind != k.INSTRUCTION and kind != k.UNTAKEN_JUMP):
        return False
    return address != state[t.LAST_ADDRESS] + (what >> c.SIZE_SHIFT & 0xFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _call(address: u64, is_indirect: cython.bint, state: u64[::1]) -> cython.int:
    """Take note of a call that returns to an address."""
    if state[t.OPEN] == t.MOST_CALLS:
        state[t.IS_UNEVEN] = 1
        return 0
    state[t.FIRST_OPEN + state[t.OPEN]] = address | t.INDIRECT if is_indirect else address
    state[t.FIRST_OPEN_SLOT + state[t.OPEN]] = 0
    state[t.OPEN] += 1
    state[t.AFTER] = t.AFTER_CALL
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _leave(target: u64, state: u64[::1]) -> cython.int:
    """Take note of a return to an address; 0: it is not known."""
    if state[t.OPEN] != 0:
        state[t.OPEN] -= 1
        if (state[t.FIRST_OPEN + state[t.OPEN]] | t.INDIRECT) != (target | t.INDIRECT):
            state[t.IS_UNEVEN] = 1
        state[t.EXPECTED] = state[t.FIRST_OPEN_SLOT + state[t.OPEN]]
        state[t.AFTER] = t.AFTER_RETURN
    elif state[t.LEFT] == t.MOST_CALLS or target == 0:
        state[t.IS_UNEVEN] = 1
    else:
        state[t.FIRST_LEFT + state[t.LEFT]] = target
        state[t.FIRST_LEFT_SLOT + state[t.LEFT]] = 0
        state[t.LEFT] += 1
        state[t.AFTER] = t.AFTER_LEAVING
    return 0
