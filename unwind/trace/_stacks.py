# cython: language_level=3, boundscheck=True, wraparound=False
"""Follows calls and returns, and counts each instruction with the calls that led to it.

    rows ──follow──> counts of (path of calls, instruction)

A return that leaves the latest call is the usual case. Others leave more than one, or none that is known: then the
frames are hidden (`unwind.trace.stack_columns`), as a wrong caller would be worse than none. The place of the return
address on the stack, where the trace has it, says which frames are alive when the next call stores its own.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import u64
    from cython.cimports.unwind.samples._table import hashed, place_of
    from cython.cimports.unwind.trace import columns as c
    from cython.cimports.unwind.trace import layout as k
    from cython.cimports.unwind.trace import stack_columns as s
else:
    from icf._types import u64
    from unwind.samples._table import hashed, place_of
    from unwind.trace import columns as c
    from unwind.trace import layout as k
    from unwind.trace import stack_columns as s


@cython.ccall
def follow(
    rows: cython.const[u64][:, ::1],
    ranges: cython.const[u64][:, ::1],
    state: u64[::1],
    frames: u64[:, ::1],
    sites: u64[:, ::1],
    site_places: u64[:, ::1],
    nodes: u64[::1],
    node_places: u64[:, ::1],
    counts: u64[:, ::1],
) -> cython.int:
    """Count the rows from `state[ROW]` on; `state[WHY]` says why it stopped.

    `ranges` are where modules lie: only a load from there can be that of a vtable's slot.
    """
    row: cython.size_t = state[s.ROW]
    end: cython.size_t = rows.shape[0]
    what: u64
    kind: u64
    size: u64
    address: u64
    target: u64
    key: u64
    place: cython.size_t
    depth: cython.size_t
    why: u64 = s.NEEDS_ROWS
    with cython.nogil:
        while row < end:
            what = rows[row, c.WHAT]
            kind = what & c.TYPE_MASK
            size = what >> c.SIZE_SHIFT & 0xFFFF
            address = rows[row, c.ADDRESS]
            if kind == k.READ:
                if state[s.WAITS_FOR] == s.WAIT_RETURN:
                    if state[s.WAITING_SLOT] != address:
                        _correct(address, state, frames)
                    state[s.WAITS_FOR] = s.NO_WAIT
                elif state[s.WAITS_FOR] == s.WAIT_CALL and size == 8 and state[s.WAITING_CODE] & s.IS_INDIRECT != 0:
                    if _is_inside(address, ranges):
                        if _is_full(state, sites, site_places, nodes, node_places, counts):
                            why = s.NEEDS_ROOM
                            break
                        _enter(address, state, frames, sites, site_places, nodes, node_places)
            elif kind == k.WRITE:
                if state[s.WAITS_FOR] == s.WAIT_CALL:
                    _store(address, state, frames)
                    if _is_full(state, sites, site_places, nodes, node_places, counts):
                        why = s.NEEDS_ROOM
                        break
                    _enter(state[s.WAITING_LOAD], state, frames, sites, site_places, nodes, node_places)
                    state[s.WAITS_FOR] = s.NO_WAIT
            elif kind == k.MARKER:
                if size == k.KERNEL_EVENT and state[s.WAS_ABORT] == 0:
                    if state[s.DEPTH] == frames.shape[0]:
                        why = s.NEEDS_FRAMES
                        break
                    if state[s.WAITS_FOR] == s.WAIT_TARGET_OF_RETURN:
                        _leave(address, state, frames)
                    state[s.WAITS_FOR] = s.NO_WAIT
                    depth = state[s.DEPTH]
                    frames[depth, s.FRAME_RETURN] = 0
                    frames[depth, s.FRAME_NODE] = state[s.NODE]
                    frames[depth, s.FRAME_HIDDEN] = state[s.HIDDEN]
                    frames[depth, s.FRAME_SLOT] = 0
                    frames[depth, s.FRAME_IS_SIGNAL] = 1
                    state[s.DEPTH] = depth + 1
                    state[s.HIDDEN] = depth + 1
                    state[s.NODE] = 0
                elif size == k.KERNEL_XFER:
                    depth = state[s.DEPTH]
                    while depth > 0 and frames[depth - 1, s.FRAME_IS_SIGNAL] == 0:
                        depth -= 1
                    if depth > 0:
                        _pop_to(depth - 1, state, frames)
                    else:
                        _hide(state)
                    state[s.WAITS_FOR] = s.NO_WAIT
                elif size == k.WINDOW_ID:
                    _hide(state)
                state[s.WAS_ABORT] = size == k.RSEQ_ABORT
            elif kind == k.THREAD:
                if address != state[s.TID]:
                    why = s.OTHER_THREAD
                    break
            elif size != 0 and (k.INSTRUCTION <= kind <= k.RETURN or kind == k.SYSENTER or kind >= k.TAKEN_JUMP):
                if state[s.WAITS_FOR] == s.WAIT_TARGET_OF_RETURN:
                    _leave(address, state, frames)
                elif state[s.WAITS_FOR] == s.WAIT_TARGET_OF_JUMP:
                    _jump(address, state, sites, site_places)
                state[s.WAITS_FOR] = s.NO_WAIT
                if _is_full(state, sites, site_places, nodes, node_places, counts):
                    why = s.NEEDS_ROOM
                    break
                key = state[s.NODE] << s.SITE_BITS | what >> c.CODE_SHIFT
                place = place_of(counts, key)
                if counts[place, 0] == 0:
                    counts[place, 0] = key + 1
                    counts[place, 1] = 0
                    state[s.COUNT_COUNT] += 1
                counts[place, 1] += 1
                target = rows[row, c.TARGET]
                if kind == k.DIRECT_CALL or kind == k.INDIRECT_CALL:
                    if state[s.DEPTH] == frames.shape[0]:
                        counts[place, 1] -= 1
                        why = s.NEEDS_FRAMES
                        break
                    depth = state[s.DEPTH]
                    frames[depth, s.FRAME_RETURN] = address + size
                    frames[depth, s.FRAME_NODE] = state[s.NODE]
                    frames[depth, s.FRAME_HIDDEN] = state[s.HIDDEN]
                    frames[depth, s.FRAME_SLOT] = 0
                    frames[depth, s.FRAME_IS_SIGNAL] = 0
                    state[s.DEPTH] = depth + 1
                    state[s.WAITING_CODE] = what >> c.CODE_SHIFT
                    if kind == k.INDIRECT_CALL:
                        state[s.WAITING_CODE] |= s.IS_INDIRECT
                    _enter(0, state, frames, sites, site_places, nodes, node_places)
                    state[s.WAITS_FOR] = s.WAIT_CALL
                elif kind == k.RETURN:
                    if target == 0:
                        state[s.WAITS_FOR] = s.WAIT_TARGET_OF_RETURN
                    else:
                        _leave(target, state, frames)
                elif kind == k.INDIRECT_JUMP:
                    if target == 0:
                        state[s.WAITS_FOR] = s.WAIT_TARGET_OF_JUMP
                    else:
                        _jump(target, state, sites, site_places)
            row += 1
    state[s.ROW] = row
    state[s.WHY] = why
    return 0


@cython.ccall
def refill_sites(sites: cython.const[u64][:, ::1], count: cython.size_t, places: u64[:, ::1]) -> cython.int:
    """Store the sites 1 to `count` in a larger table, which is empty."""
    site: cython.size_t = 1
    place: cython.size_t
    with cython.nogil:
        while site <= count:
            place = _site_place(places, sites[site, s.SITE_RETURN], sites[site, s.SITE_LOAD])
            places[place, 0] = sites[site, s.SITE_RETURN]
            places[place, 1] = sites[site, s.SITE_LOAD]
            places[place, 2] = site
            site += 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_inside(address: u64, ranges: cython.const[u64][:, ::1]) -> cython.bint:
    """Return whether an address lies in a module."""
    at: cython.size_t = 0
    while at < ranges.shape[0]:
        if ranges[at, 0] <= address < ranges[at, 1]:
            return True
        at += 1
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_full(
    state: u64[::1],
    sites: u64[:, ::1],
    site_places: u64[:, ::1],
    nodes: u64[::1],
    node_places: u64[:, ::1],
    counts: u64[:, ::1],
) -> cython.bint:
    """Return whether a table may lack room for what one row adds."""
    return (
        state[s.SITE_COUNT] + 2 >= sites.shape[0]
        or 2 * state[s.SITE_COUNT] + 4 >= site_places.shape[0]
        or state[s.NODE_COUNT] + 2 >= nodes.shape[0]
        or 2 * state[s.NODE_COUNT] + 4 >= node_places.shape[0]
        or 2 * state[s.COUNT_COUNT] + 4 >= counts.shape[0]
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _site_place(site_places: cython.const[u64][:, ::1], address: u64, load: u64) -> cython.size_t:
    """Return the row of a site, or the free one where it belongs."""
    mask: u64 = site_places.shape[0] - 1
    place: u64 = hashed(address, load) & mask
    while site_places[place, 2] != 0 and (site_places[place, 0] != address or site_places[place, 1] != load):
        place = (place + 1) & mask
    return place


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _enter(
    load: u64,
    state: u64[::1],
    frames: u64[:, ::1],
    sites: u64[:, ::1],
    site_places: u64[:, ::1],
    nodes: u64[::1],
    node_places: u64[:, ::1],
) -> cython.int:
    """Make the path of calls that of the innermost frame, called at its site by an address that `load` had."""
    frame: cython.size_t = state[s.DEPTH] - 1
    address: u64 = frames[frame, s.FRAME_RETURN]
    place: cython.size_t = _site_place(site_places, address, load)
    site: cython.size_t = site_places[place, 2]
    key: u64
    state[s.WAITING_LOAD] = load
    if site == 0:
        site = state[s.SITE_COUNT] + 1
        state[s.SITE_COUNT] = site
        site_places[place, 0] = address
        site_places[place, 1] = load
        site_places[place, 2] = site
        sites[site, s.SITE_RETURN] = address
        sites[site, s.SITE_LOAD] = load
        sites[site, s.SITE_CODE] = state[s.WAITING_CODE] & s.CODE_MASK
    sites[site, s.SITE_NODE] = frames[frame, s.FRAME_NODE]
    sites[site, s.SITE_DEPTH] = frame
    key = frames[frame, s.FRAME_NODE] << s.SITE_BITS | site
    place = place_of(node_places, key)
    if node_places[place, 0] == 0:
        state[s.NODE_COUNT] += 1
        node_places[place, 0] = key + 1
        node_places[place, 1] = state[s.NODE_COUNT]
        nodes[state[s.NODE_COUNT]] = key
    state[s.NODE] = node_places[place, 1]
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _store(slot: u64, state: u64[::1], frames: u64[:, ::1]) -> cython.int:
    """Take note of where the innermost frame's return address is; frames that would lie below it are dead."""
    top: cython.size_t = state[s.DEPTH] - 1
    alive: cython.size_t = top
    first: cython.size_t = frames[top, s.FRAME_HIDDEN]
    frames[top, s.FRAME_SLOT] = slot
    if first == top and top > 0:  # it is the first one since frames were hidden
        first = frames[top - 1, s.FRAME_HIDDEN]
    while (
        alive > first
        and frames[alive - 1, s.FRAME_IS_SIGNAL] == 0
        and frames[alive - 1, s.FRAME_SLOT] != 0
        and frames[alive - 1, s.FRAME_SLOT] <= slot
    ):
        alive -= 1
    if alive == top or (alive == first and frames[top, s.FRAME_HIDDEN] == top):
        return 0
    frames[alive, s.FRAME_RETURN] = frames[top, s.FRAME_RETURN]
    frames[alive, s.FRAME_SLOT] = slot
    state[s.DEPTH] = alive + 1
    state[s.HIDDEN] = frames[alive, s.FRAME_HIDDEN]
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hide(state: u64[::1]) -> cython.int:
    """Make the callers of what runs next unknown."""
    state[s.LOST] += state[s.HIDDEN] != state[s.DEPTH]
    state[s.HIDDEN] = state[s.DEPTH]
    state[s.NODE] = 0
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _pop_to(depth: cython.size_t, state: u64[::1], frames: u64[:, ::1]) -> cython.int:
    """Take frames off the stack."""
    state[s.NODE] = frames[depth, s.FRAME_NODE]
    state[s.HIDDEN] = frames[depth, s.FRAME_HIDDEN]
    state[s.DEPTH] = depth
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _leave(target: u64, state: u64[::1], frames: u64[:, ::1]) -> cython.int:
    """Return to an address: to the frame that has it; hide all if several have it, or none."""
    depth: cython.size_t = state[s.DEPTH]
    lowest: cython.size_t = depth - s.SEARCHED if depth > s.SEARCHED else 0
    found: cython.size_t = depth
    count: cython.size_t = 0
    state[s.WAITS_FOR] = s.WAIT_RETURN
    state[s.WAITING_RETURN] = target
    state[s.WAITING_SLOT] = 0
    if depth > state[s.HIDDEN] and frames[depth - 1, s.FRAME_RETURN] == target:
        found = depth - 1
        count = 1
    else:
        while depth > lowest:
            depth -= 1
            if frames[depth, s.FRAME_RETURN] == target and frames[depth, s.FRAME_IS_SIGNAL] == 0:
                found = depth
                count += 1
    if count != 1:
        _hide(state)
        return 0
    state[s.WAITING_SLOT] = frames[found, s.FRAME_SLOT]
    if state[s.WAITING_SLOT] == 0:
        state[s.WAITS_FOR] = s.NO_WAIT
    _pop_to(found, state, frames)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _correct(slot: u64, state: u64[::1], frames: u64[:, ::1]) -> cython.int:
    """Return to the frame of which the return address was read; hide all if none is known for it."""
    depth: cython.size_t = state[s.DEPTH]
    lowest: cython.size_t = depth - s.SEARCHED if depth > s.SEARCHED else 0
    while depth > lowest:
        depth -= 1
        if frames[depth, s.FRAME_SLOT] == slot and frames[depth, s.FRAME_RETURN] == state[s.WAITING_RETURN]:
            _pop_to(depth, state, frames)
            return 0
    _hide(state)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _jump(target: u64, state: u64[::1], sites: u64[:, ::1], site_places: u64[:, ::1]) -> cython.int:
    """Hide all if a jump leads to where a call returns, as longjmp's does; not within the function that called."""
    site: cython.size_t = site_places[_site_place(site_places, target, 0), 2]
    if site == 0:
        return 0
    if sites[site, s.SITE_NODE] != state[s.NODE] or sites[site, s.SITE_DEPTH] != state[s.DEPTH]:
        _hide(state)
    return 0
