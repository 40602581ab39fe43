# cython: language_level=3, boundscheck=True, wraparound=False
"""Stacks of a tree of calls as text: of each its head, its frames from the innermost, and an empty line.

    stack 7, seen 42 times
    #0  0x0000000000401136  fir::taps(int)
    #1  0x00000000004011f0  main

What is written of a frame are two texts, and between them its place in the stack.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.unwind.samples import columns as c
    from cython.cimports.unwind.writers import stack_columns as s
else:
    from icf._types import Bytes, u64
    from unwind.samples import columns as c
    from unwind.writers import stack_columns as s


@cython.ccall
def deepest(wanted: cython.const[u64][::1], nodes: cython.const[u64][::1]) -> cython.size_t:
    """Return how many frames the deepest of some stacks has."""
    at: cython.size_t = 0
    most: cython.size_t = 0
    count: cython.size_t
    node: u64
    with cython.nogil:
        while at < wanted.shape[0]:
            node = nodes[wanted[at]]
            count = 0
            while node >> c.NUMBER_BITS != 0:
                count += 1
                node = nodes[node >> c.NUMBER_BITS]
            if count > most:
                most = count
            at += 1
    return most


@cython.ccall
def write_stacks(
    wanted: cython.const[u64][::1],
    nodes: cython.const[u64][::1],
    states: cython.const[cython.uint][::1],
    heads: Bytes,
    head_ends: cython.const[u64][::1],
    texts: Bytes,
    ends: cython.const[u64][::1],
    width: cython.size_t,
    out: cython.uchar[::1],
    state: u64[::1],
) -> cython.size_t:
    """Write stacks from that of index `state[AT]` on, which becomes the first that does not fit; return how many bytes.

    wanted, nodes, states   as `unwind.samples.columns` has them
    head_ends  u64[n + 1]: of stack i the bytes of `heads` from head_ends[i] to head_ends[i + 1]
    ends       u64[2 * states + 1]: of state i the first text is ends[2 * i] to ends[2 * i + 1] of `texts`, the second
               follows
    width      of a place with the `#` before it, which all must fit; 0: places are not written
    state      then OUT_BYTES: how large `out` must be for the stack that does not fit
    """
    at: cython.size_t = state[s.AT]
    count: cython.size_t = wanted.shape[0]
    room: cython.size_t = out.shape[0]
    written: cython.size_t = 0
    size: cython.size_t
    start: cython.size_t
    end: cython.size_t
    row: cython.size_t
    idx: cython.size_t
    digits: cython.size_t
    value: cython.size_t
    node: u64
    with cython.nogil:
        while at < count:
            size = head_ends[at + 1] - head_ends[at] + 1
            node = wanted[at]
            while nodes[node] >> c.NUMBER_BITS != 0:
                row = 2 * (states[node] & c.STATE_MASK)
                size += ends[row + 2] - ends[row] + width
                node = nodes[node] >> c.NUMBER_BITS
            if size > room - written:
                state[s.OUT_BYTES] = size
                break
            size = head_ends[at + 1] - head_ends[at]
            out[written : written + size] = heads[head_ends[at] : head_ends[at + 1]]
            written += size
            node = wanted[at]
            idx = 0
            while nodes[node] >> c.NUMBER_BITS != 0:
                row = 2 * (states[node] & c.STATE_MASK)
                start = ends[row]
                end = ends[row + 1]
                if end != start:
                    out[written : written + end - start] = texts[start:end]
                    written += end - start
                if width != 0:
                    out[written] = s.NUMBER_SIGN
                    digits = 1
                    value = idx
                    while value >= 10:
                        digits += 1
                        value //= 10
                    value = idx
                    size = digits
                    while size > 0:
                        out[written + size] = s.ZERO + value % 10
                        value //= 10
                        size -= 1
                    size = digits + 1
                    while size < width:
                        out[written + size] = s.SPACE
                        size += 1
                    written += width
                start = end
                end = ends[row + 2]
                out[written : written + end - start] = texts[start:end]
                written += end - start
                node = nodes[node] >> c.NUMBER_BITS
                idx += 1
            out[written] = s.LINE_FEED
            written += 1
            at += 1
    state[s.AT] = at
    return written
