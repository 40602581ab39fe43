# cython: language_level=3, boundscheck=True, wraparound=False
"""Stacks in columns: finds those that are new, adds these to a tree of calls, and writes what all their frames mean.

    addresses, kinds, starts ──keep_stacks──> the number of each stack; new ones are kept
                                 new ones ──add_stacks──> nodes of the tree ──rows_along──> a row for each frame, kept
    numbers of stacks ──copy_rows──> a row for each frame of all stacks

No stack becomes an object on the way. A stack that was met before costs two random accesses to memory, and each of its
frames none: to walk the tree again would cost one or more for each.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK
    from cython.cimports.icf._types import u64
    from cython.cimports.unwind.samples import columns as c
    from cython.cimports.unwind.samples._table import FACTOR, hashed, node_after
else:
    from icf._bytes import MASK
    from icf._types import u64
    from unwind.samples import columns as c
    from unwind.samples._table import FACTOR, hashed, node_after


@cython.ccall
def refill_stacks(smaller: cython.const[u64][:, ::1], larger: u64[:, ::1]) -> cython.int:
    """Store all stacks of a table in a larger one, which is empty."""
    row: cython.size_t = 0
    count: cython.size_t = smaller.shape[0]
    mask: u64 = larger.shape[0] - 1
    place: u64
    with cython.nogil:
        while row < count:
            if smaller[row, 1] != 0:
                place = smaller[row, 0] & mask
                while larger[place, 1] != 0:
                    place = (place + 1) & mask
                larger[place, 0] = smaller[row, 0]
                larger[place, 1] = smaller[row, 1]
            row += 1
    return 0


@cython.ccall
def keep_stacks(
    addresses: cython.const[u64][::1],
    kinds: cython.const[cython.uint][::1],
    starts: cython.const[u64][::1],
    roots: cython.const[u64][::1],
    table: u64[:, ::1],
    kept_addresses: u64[::1],
    kept_kinds: cython.uint[::1],
    kept_starts: u64[::1],
    kept_roots: u64[::1],
    progress: u64[::1],
    found: cython.uint[::1],
) -> cython.bint:
    """Store the number of each stack, and keep what is new; return whether there was room for all.

    addresses, kinds   u64[m], u32[m]: of the frames; a kind is a number of the caller's own, with the address the frame
    starts             u64[n + 1]: stack i is `addresses[starts[i]:starts[i + 1]]`, innermost first
    roots              u64[n]: the caller of the outermost frame of each stack, a number of the caller's own
    table              u64[2 ** k, 2]: hash of a stack, its number + 1 (0: free)
    kept...            the stacks that have a number, in columns like those above
    progress           DONE: the stack to begin with, moved to the first that is not done; STACKS: how many are kept
    found              u32[n]: the numbers
    """
    at: cython.size_t = progress[c.DONE]
    count: cython.size_t = starts.shape[0] - 1
    mask: u64 = table.shape[0] - 1
    stacks: u64 = progress[c.STACKS]
    stack_limit: u64 = kept_roots.shape[0]
    frame_limit: u64 = kept_addresses.shape[0]
    factor: u64 = FACTOR
    first: u64
    size: u64
    idx: u64
    value: u64
    place: u64
    number: u64
    own: u64
    is_same: cython.bint
    has_room: cython.bint = True
    with cython.nogil:
        while at < count:
            first = starts[at]
            size = starts[at + 1] - first
            own = kept_starts[stacks]
            if stacks >= stack_limit or own + size > frame_limit:
                has_room = False
                break
            value = roots[at] ^ size
            idx = 0
            while idx < size:
                value = ((value ^ addresses[first + idx] ^ kinds[first + idx]) * factor) & MASK
                value ^= value >> 32
                idx += 1
            place = value & mask
            number = 0
            while table[place, 1] != 0:
                number = table[place, 1] - 1
                if table[place, 0] == value and kept_roots[number] == roots[at]:
                    own = kept_starts[number]
                    is_same = kept_starts[number + 1] - own == size
                    idx = 0
                    while is_same and idx < size:
                        is_same = (
                            kept_addresses[own + idx] == addresses[first + idx]
                            and kept_kinds[own + idx] == kinds[first + idx]
                        )
                        idx += 1
                    if is_same:
                        break
                place = (place + 1) & mask
            if table[place, 1] == 0:
                number = stacks
                table[place, 0] = value
                table[place, 1] = number + 1
                own = kept_starts[number]
                idx = 0
                while idx < size:
                    kept_addresses[own + idx] = addresses[first + idx]
                    kept_kinds[own + idx] = kinds[first + idx]
                    idx += 1
                kept_roots[number] = roots[at]
                kept_starts[number + 1] = own + size
                stacks += 1
            found[at] = number
            at += 1
    progress[c.DONE] = at
    progress[c.STACKS] = stacks
    return has_room


@cython.ccall
def refill_numbers(smaller: cython.const[u64][:, ::1], larger: u64[:, ::1]) -> cython.int:
    """Store all frames of a table in a larger one, which is empty."""
    row: cython.size_t = 0
    count: cython.size_t = smaller.shape[0]
    mask: u64 = larger.shape[0] - 1
    place: u64
    with cython.nogil:
        while row < count:
            if smaller[row, c.FRAME_KIND] != 0:
                place = hashed(smaller[row, c.FRAME_ADDRESS], smaller[row, c.FRAME_KIND]) & mask
                while larger[place, c.FRAME_KIND] != 0:
                    place = (place + 1) & mask
                larger[place, c.FRAME_ADDRESS] = smaller[row, c.FRAME_ADDRESS]
                larger[place, c.FRAME_KIND] = smaller[row, c.FRAME_KIND]
                larger[place, c.FRAME_NUMBER] = smaller[row, c.FRAME_NUMBER]
            row += 1
    return 0


@cython.ccall
def add_stacks(
    addresses: cython.const[u64][::1],
    kinds: cython.const[cython.uint][::1],
    starts: cython.const[u64][::1],
    roots: cython.const[u64][::1],
    numbers: u64[:, ::1],
    met: u64[:, ::1],
    tree: u64[:, ::1],
    nodes: u64[::1],
    state: u64[::1],
    progress: u64[::1],
    found: u64[::1],
) -> cython.bint:
    """Store the node of each stack, and add what the tree lacks; return whether there was room for all.

    addresses...       the stacks as above; `roots` are nodes
    numbers            u64[2 ** k, 3]: the number of each frame that was met: address, kind + 1 (0: free), number
    met                u64[x, 2]: address and kind of each new frame, by its number less that of the first new one
    tree, nodes, state the tree
    progress           DONE: the stack to begin with, moved to the first that is not done; FRAMES: how many frames
                       have a number; NEW: how many of them are in `met`
    found              u64[n]: the nodes
    """
    at: cython.size_t = progress[c.DONE]
    count: cython.size_t = starts.shape[0] - 1
    mask: u64 = numbers.shape[0] - 1
    node_limit: u64 = nodes.shape[0]
    met_limit: u64 = met.shape[0]
    new: u64 = progress[c.NEW]
    frames: u64 = progress[c.FRAMES]
    first: u64
    idx: u64
    node: u64
    place: u64
    kind: u64
    has_room: cython.bint = True
    with cython.nogil:
        while at < count:
            first = starts[at]
            idx = starts[at + 1]
            if state[c.NODE_COUNT] + (idx - first) > node_limit or new + (idx - first) > met_limit:
                has_room = False
                break
            node = roots[at]
            while idx > first:
                idx -= 1
                kind = kinds[idx]
                kind += 1
                place = hashed(addresses[idx], kind) & mask
                while numbers[place, c.FRAME_KIND] != 0 and (
                    numbers[place, c.FRAME_KIND] != kind or numbers[place, c.FRAME_ADDRESS] != addresses[idx]
                ):
                    place = (place + 1) & mask
                if numbers[place, c.FRAME_KIND] == 0:
                    numbers[place, c.FRAME_ADDRESS] = addresses[idx]
                    numbers[place, c.FRAME_KIND] = kind
                    numbers[place, c.FRAME_NUMBER] = frames
                    met[new, 0] = addresses[idx]
                    met[new, 1] = kind - 1
                    frames += 1
                    new += 1
                node = node_after(node, numbers[place, c.FRAME_NUMBER], tree, nodes, state)
            found[at] = node
            at += 1
    progress[c.DONE] = at
    progress[c.FRAMES] = frames
    progress[c.NEW] = new
    return has_room


@cython.ccall
def rows_along(
    wanted: cython.const[u64][::1],
    starts: cython.const[u64][::1],
    nodes: cython.const[u64][::1],
    states: cython.const[cython.uint][::1],
    rows: cython.const[cython.uint][::1],
    found: cython.uint[::1],
) -> cython.int:
    """Store the row of the state of each frame of stacks, innermost first.

    wanted       u64[n]: the nodes of the stacks
    starts       u64[n + 1]: stack i has `found[starts[i]:starts[i + 1]]`
    rows         u32[s]: by state
    """
    at: cython.size_t = 0
    count: cython.size_t = wanted.shape[0]
    idx: u64
    end: u64
    node: u64
    with cython.nogil:
        while at < count:
            idx = starts[at]
            end = starts[at + 1]
            node = wanted[at]
            while idx < end:
                found[idx] = rows[states[node] & c.STATE_MASK]
                node = nodes[node] >> c.NUMBER_BITS
                idx += 1
            at += 1
    return 0


@cython.ccall
def copy_rows(
    stacks: cython.const[cython.uint][::1],
    starts: cython.const[u64][::1],
    kept_starts: cython.const[u64][::1],
    kept_rows: cython.const[cython.uint][::1],
    found: cython.uint[::1],
) -> cython.int:
    """Store the kept rows of the frames of stacks, by their numbers."""
    at: cython.size_t = 0
    count: cython.size_t = stacks.shape[0]
    idx: u64
    end: u64
    own: u64
    with cython.nogil:
        while at < count:
            idx = starts[at]
            end = starts[at + 1]
            own = kept_starts[stacks[at]]
            while idx < end:
                found[idx] = kept_rows[own]
                own += 1
                idx += 1
            at += 1
    return 0
