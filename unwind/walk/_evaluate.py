"""The expressions of call frame information, with the memory that was copied of a process, for kernels."""

from __future__ import annotations

from icf._bytes import uleb, word
from icf._types import Bytes, u64
from icf.dwarf.cfi import rules as r
from unwind.walk import columns as c
from unwind.walk._operations import operate

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
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


@cython.inline
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
