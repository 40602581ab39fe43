# cython: language_level=3, boundscheck=True, wraparound=False
"""Trees of calls: adds stacks, and finds what their frames are after their callers (`unwind.samples.columns`).

    numbers of the frames of a stack ──add_path──> its node ──follow──> the state of each frame

A state is a number that stands for all that the resolver knows of a frame after its callers. The state of a node
follows from that of its caller and the number of its frame; `turns` has these steps. The kernel makes no states: at a
step that the table does not have it stops, and goes on from there.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import u64
    from cython.cimports.unwind.samples import columns as c
    from cython.cimports.unwind.samples._table import node_after, place_of
else:
    from icf._types import u64
    from unwind.samples import columns as c
    from unwind.samples._table import node_after, place_of


@cython.ccall
def refill(smaller: cython.const[u64][:, ::1], larger: u64[:, ::1]) -> cython.int:
    """Store all keys of a table in a larger one, which is empty."""
    row: cython.size_t = 0
    count: cython.size_t = smaller.shape[0]
    place: cython.size_t
    with cython.nogil:
        while row < count:
            if smaller[row, 0] != 0:
                place = place_of(larger, smaller[row, 0] - 1)
                larger[place, 0] = smaller[row, 0]
                larger[place, 1] = smaller[row, 1]
            row += 1
    return 0


@cython.ccall
def insert(table: u64[:, ::1], key: u64, value: u64) -> cython.int:
    """Store a key that is not there yet; the caller has left places free."""
    place: cython.size_t = place_of(table, key)
    table[place, 0] = key + 1
    table[place, 1] = value
    return 0


@cython.ccall
def add_path(numbers: cython.const[u64][::1], first: u64, tree: u64[:, ::1], nodes: u64[::1], state: u64[::1]) -> u64:
    """Return the node of the last of some numbers, which come one after the other after a node.

    The caller has left room for as many nodes.
    """
    node: u64 = first
    at: cython.size_t = 0
    count: cython.size_t = numbers.shape[0]
    with cython.nogil:
        while at < count:
            node = node_after(node, numbers[at], tree, nodes, state)
            at += 1
    return node


@cython.ccall
def add_along(
    wanted: cython.const[u64][::1],
    nodes: cython.const[u64][::1],
    rows: cython.const[cython.uint][::1],
    starts: cython.const[u64][::1],
    numbers: cython.const[u64][::1],
    known: u64[::1],
    path: u64[::1],
    tree: u64[:, ::1],
    added: u64[::1],
    state: u64[::1],
) -> cython.bint:
    """Add paths of one tree to another, with some numbers for each node; return whether there was room for all.

    rows     u32[m]: of each node the row of its numbers, in the low 31 bits
    starts   u64[rows + 1]: row i is `numbers[starts[i]:starts[i + 1]]`
    known    u64[m]: of each node its node in the other tree, + 1; 0: not known yet; the caller sets where paths begin
    path     room for the nodes of a path
    tree...  the other tree: AT of its state is the index of the node to begin with, moved to the first that is not done
    """
    at: cython.size_t = state[c.AT]
    count: cython.size_t = wanted.shape[0]
    limit: u64 = added.shape[0]
    node: u64
    depth: cython.size_t
    own: u64
    number: cython.size_t
    end: cython.size_t
    has_room: cython.bint = True
    with cython.nogil:
        while at < count and has_room:
            node = wanted[at]
            depth = 0
            while known[node] == 0:
                path[depth] = node
                depth += 1
                node = nodes[node] >> c.NUMBER_BITS
            own = known[node] - 1
            while depth > 0:
                depth -= 1
                node = path[depth]
                number = starts[rows[node] & c.STATE_MASK]
                end = starts[(rows[node] & c.STATE_MASK) + 1]
                if state[c.NODE_COUNT] + end - number > limit:
                    has_room = False
                    break
                while number < end:
                    own = node_after(own, numbers[number], tree, added, state)
                    number += 1
                known[node] = own + 1
            if has_room:
                at += 1
    state[c.AT] = at
    return has_room


@cython.ccall
def follow(
    wanted: cython.const[u64][::1],
    nodes: cython.const[u64][::1],
    states: cython.uint[::1],
    turns: u64[:, ::1],
    path: u64[::1],
    state: u64[::1],
) -> cython.bint:
    """Store the states of nodes and of all their callers; return whether all are known.

    The roots have theirs. The state of a tree has AT: the index of the node to begin with, moved to the first one that
    is not done; then WANTED_CALLER is a state, and WANTED_NUMBER the number of a frame after it, which `turns` lacks.
    `path` is room for the nodes of a stack.
    """
    at: cython.size_t = state[c.AT]
    count: cython.size_t = wanted.shape[0]
    node: u64
    depth: cython.size_t
    own: u64
    held: u64
    place: cython.size_t
    is_known: cython.bint = True
    with cython.nogil:
        while at < count and is_known:
            node = wanted[at]
            depth = 0
            while states[node] == 0:
                path[depth] = node
                depth += 1
                node = nodes[node] >> c.NUMBER_BITS
            own = states[node] & c.STATE_MASK
            held = states[node] & c.HELD
            while depth > 0:
                depth -= 1
                node = path[depth]
                place = place_of(turns, own << c.NUMBER_BITS | nodes[node] & c.NUMBER_MASK)
                if turns[place, 0] == 0:
                    state[c.WANTED_CALLER] = own
                    state[c.WANTED_NUMBER] = nodes[node] & c.NUMBER_MASK
                    is_known = False
                    break
                own = turns[place, 1] & c.STATE_MASK
                held |= turns[place, 1] & c.HELD
                states[node] = own | held
            if is_known:
                at += 1
    state[c.AT] = at
    return is_known


@cython.ccall
def frames_along(wanted: cython.const[u64][::1], nodes: cython.const[u64][::1], frames: list) -> list:
    """Return the frames of stacks, innermost first, by their numbers."""
    found: list = []
    stack: list
    at: cython.size_t = 0
    count: cython.size_t = wanted.shape[0]
    node: u64
    while at < count:
        stack = []
        node = nodes[wanted[at]]
        while node >> c.NUMBER_BITS != 0:
            stack.append(frames[node & c.NUMBER_MASK])
            node = nodes[node >> c.NUMBER_BITS]
        found.append(stack)
        at += 1
    return found


@cython.ccall
def answers_along(
    wanted: cython.const[u64][::1],
    nodes: cython.const[u64][::1],
    states: cython.const[cython.uint][::1],
    answers: list,
) -> list:
    """Return the answers for stacks, innermost first, by the states of their frames."""
    found: list = []
    stack: list
    at: cython.size_t = 0
    count: cython.size_t = wanted.shape[0]
    node: u64
    while at < count:
        stack = []
        node = wanted[at]
        while nodes[node] >> c.NUMBER_BITS != 0:
            stack.append(answers[states[node] & c.STATE_MASK])
            node = nodes[node] >> c.NUMBER_BITS
        found.append(stack)
        at += 1
    return found
