# cython: language_level=3, boundscheck=True, wraparound=False
"""Cuts bytes into records, reads the fields of samples, and finds call chains in a tree.

    bytes ──split──> rows, one for each record ──find_nodes──> rows with the node of their call chain

Millions of samples have the outer part of their stacks in common. A tree has each of these once
(`unwind.samples.columns`). The frames of addresses are in another table:

    addresses   u64[2 ** n, 3]: address, 2 * space + is_exact + 1 (0: a free place), number of the frame

The kernel makes nodes but no frames: at an address that the table does not have it stops, and goes on from there.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.unwind.readers.perf_data import layout as k
    from cython.cimports.unwind.readers.perf_data import rows as r
    from cython.cimports.unwind.samples import columns as c
    from cython.cimports.unwind.samples._table import hashed, node_after
else:
    from icf._bytes import word
    from icf._types import Bytes, u64
    from unwind.readers.perf_data import layout as k
    from unwind.readers.perf_data import rows as r
    from unwind.samples import columns as c
    from unwind.samples._table import hashed, node_after


@cython.ccall
def split(
    buffer: Bytes,
    skipped: Bytes,
    events: cython.const[u64][:, ::1],
    layouts: cython.const[u64][:, ::1],
    state: u64[::1],
    rows: u64[:, ::1],
) -> cython.size_t:
    """Store the records from `state[AT]` on; return how many.

    skipped  a byte for each kind of record below 256: 1 if it is not wanted
    events   u64[n, 2]: the ids of events, ascending, and the number of each; none: all samples are of event 0
    state    AT: moved to what follows; ID_AT: where samples have the id; WHY: why it stopped
    A sample that is shorter than its fields has REST beyond END, and one with a longer chain has CHAIN_END there.
    """
    at: cython.size_t = state[r.AT]
    end: cython.size_t = buffer.shape[0]
    limit: cython.size_t = rows.shape[0]
    ids: cython.size_t = events.shape[0]
    count: cython.size_t = 0
    kind: u64
    size: u64
    start: cython.size_t
    following: cython.size_t
    reason: u64
    low: cython.size_t
    high: cython.size_t
    middle: cython.size_t
    event: u64
    key: u64
    with cython.nogil:
        while True:
            if end - at < 8:
                reason = r.NEEDS_BYTES
                break
            kind = word(buffer, at, 4)
            size = word(buffer, at + 6, 2)
            if size < 8:
                reason = r.TOO_SMALL
                break
            if size > end - at:
                reason = r.NEEDS_BYTES
                break
            following = at + size
            if kind < 256 and skipped[kind]:
                at = following
                continue
            if count == limit:
                reason = r.NEEDS_ROWS
                break
            start = at + 8
            rows[count, r.KIND] = kind
            rows[count, r.MISC] = word(buffer, at + 4, 2)
            rows[count, r.START] = start
            rows[count, r.END] = following
            at = following
            if kind == k.PERF_RECORD_SAMPLE:
                event = 0
                if ids != 0:
                    event = r.NONE
                    if state[r.ID_AT] != r.NONE and following - start >= state[r.ID_AT] + 8:
                        key = word(buffer, start + state[r.ID_AT], 8)
                        low = 0
                        high = ids
                        while low < high:
                            middle = (low + high) // 2
                            if events[middle, 0] < key:
                                low = middle + 1
                            else:
                                high = middle
                        if low < ids and events[low, 0] == key:
                            event = events[low, 1]
                rows[count, r.EVENT] = event
                if event != r.NONE:
                    _read(buffer, layouts, rows, count, event)
            count += 1
            if kind == k.PERF_RECORD_AUXTRACE or kind == k.PERF_RECORD_HEADER_TRACING_DATA:
                reason = r.HAS_MORE
                break
            if kind == k.PERF_RECORD_COMPRESSED or kind == k.PERF_RECORD_COMPRESSED2:
                reason = r.HAS_MORE
                break
    state[r.AT] = at
    state[r.WHY] = reason
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read(
    buffer: Bytes, layouts: cython.const[u64][:, ::1], rows: u64[:, ::1], row: cython.size_t, event: cython.size_t
) -> cython.int:
    """Store the fields of a sample."""
    start: cython.size_t = rows[row, r.START]
    end: cython.size_t = rows[row, r.END]
    rest: cython.size_t = start + layouts[event, r.FIXED_BYTES]
    size: u64
    rows[row, r.REST] = rest
    rows[row, r.CHAIN_END] = rest
    if rest > end:
        return 0
    rows[row, r.IP] = _field(buffer, layouts[event, r.IP_AT], start, 8, 0)
    rows[row, r.PID] = _field(buffer, layouts[event, r.TID_AT], start, 4, 0)
    rows[row, r.TID] = _field(buffer, layouts[event, r.TID_AT], start + 4, 4, 0)
    rows[row, r.TIME] = _field(buffer, layouts[event, r.TIME_AT], start, 8, 0)
    rows[row, r.CPU] = _field(buffer, layouts[event, r.CPU_AT], start, 4, 0xFFFFFFFF)
    rows[row, r.PERIOD] = _field(buffer, layouts[event, r.PERIOD_AT], start, 8, layouts[event, r.PERIOD_ELSE])
    if layouts[event, r.HAS_CHAIN]:
        size = word(buffer, rest - 8, 8)
        rows[row, r.CHAIN_END] = rest + 8 * size if size <= (end - rest) // 8 else end + 1
    return 0


@cython.inline
@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _field(buffer: Bytes, at: u64, start: cython.size_t, size_bytes: cython.size_t, otherwise: u64) -> u64:
    return otherwise if at == r.NONE else word(buffer, start + at, size_bytes)


@cython.ccall
def find_nodes(
    buffer: Bytes,
    rows: u64[:, ::1],
    first: cython.size_t,
    addresses: cython.const[u64][:, ::1],
    tree: u64[:, ::1],
    nodes: u64[::1],
    tree_state: u64[::1],
    state: u64[::1],
    numbers: u64[::1],
) -> u64:
    """Store the NODE of each row from `first` on; return DONE, or what it needs to go on at WANTED_ROW.

    A row with SPACE NONE is left as it is; one whose chain is to be completed by a later record gets NODE NONE.
    state    WANTED_ADDRESS and WANTED_KEY: of the frame that is needed, as `addresses` has them
    numbers  u64[CHAIN_LIMIT]: room for a chain
    """
    row: cython.size_t = first
    count: cython.size_t = rows.shape[0]
    reason: u64 = r.DONE
    with cython.nogil:
        while row < count:
            if rows[row, r.SPACE] != r.NONE:
                reason = _find_node(buffer, rows, row, addresses, tree, nodes, tree_state, state, numbers)
                if reason != r.DONE:
                    break
            row += 1
    state[r.WANTED_ROW] = row
    return reason


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_node(
    buffer: Bytes,
    rows: u64[:, ::1],
    row: cython.size_t,
    addresses: cython.const[u64][:, ::1],
    tree: u64[:, ::1],
    nodes: u64[::1],
    tree_state: u64[::1],
    state: u64[::1],
    numbers: u64[::1],
) -> u64:
    at: cython.size_t = rows[row, r.REST]
    end: cython.size_t = rows[row, r.CHAIN_END]
    user: u64 = rows[row, r.SPACE]
    default: u64 = _space_of_mode(rows[row, r.MISC] & k.CPUMODE_MASK, user)
    space: u64 = default
    is_first: u64 = 1
    count: cython.size_t = 0
    value: u64
    number: u64
    node: u64 = rows[row, r.NODE]
    limit: u64 = nodes.shape[0]
    while at < end:
        value = word(buffer, at, 8)
        at += 8
        if value >= k.CONTEXT_MAX:
            if value == k.CONTEXT_USER_DEFERRED:  # the rest comes later
                rows[row, r.NODE] = r.NONE
                return r.DONE
            space = _space_of_marker(value, user)
            is_first = 1
            continue
        number = _number(addresses, state, value, 2 * space + is_first + 1)
        if number == r.NONE:
            return r.NEEDS_FRAME
        numbers[count] = number
        count += 1
        is_first = 0
    if count == 0:
        number = _number(addresses, state, rows[row, r.IP], 2 * default + 2)
        if number == r.NONE:
            return r.NEEDS_FRAME
        numbers[0] = number
        count = 1
    if tree_state[c.NODE_COUNT] + count > limit:
        return r.NEEDS_NODES
    while count > 0:
        count -= 1
        node = node_after(node, numbers[count], tree, nodes, tree_state)
    rows[row, r.NODE] = node
    return r.DONE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _number(addresses: cython.const[u64][:, ::1], state: u64[::1], address: u64, key: u64) -> u64:
    """Return the number of the frame of an address; NONE, and what is wanted in `state`, if there is none yet."""
    mask: u64 = addresses.shape[0] - 1
    place: u64 = hashed(address, key) & mask
    while addresses[place, 1] != 0 and (addresses[place, 0] != address or addresses[place, 1] != key):
        place = (place + 1) & mask
    if addresses[place, 1] == 0:
        state[r.WANTED_ADDRESS] = address
        state[r.WANTED_KEY] = key
        return r.NONE
    return addresses[place, 2]


@cython.ccall
def add_frame(addresses: u64[:, ::1], address: u64, key: u64, number: u64) -> cython.int:
    """Store the number of the frame of an address, which is not there yet; the caller has left places free."""
    mask: u64 = addresses.shape[0] - 1
    place: u64 = hashed(address, key) & mask
    while addresses[place, 1] != 0:
        place = (place + 1) & mask
    addresses[place, 0] = address
    addresses[place, 1] = key
    addresses[place, 2] = number
    return 0


@cython.ccall
def move_frames(smaller: cython.const[u64][:, ::1], larger: u64[:, ::1]) -> cython.int:
    """Store the frames of one table of addresses in an empty one."""
    row: cython.size_t = 0
    count: cython.size_t = smaller.shape[0]
    while row < count:
        if smaller[row, 1] != 0:
            add_frame(larger, smaller[row, 0], smaller[row, 1], smaller[row, 2])
        row += 1
    return 0


@cython.inline
@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _space_of_mode(mode: u64, user: u64) -> u64:
    """Return whose code what stands before the first marker is, by the mode of the processor."""
    if mode == k.CPUMODE_KERNEL:
        return r.KERNEL_SPACE
    if mode == k.CPUMODE_HYPERVISOR:
        return r.HYPERVISOR_SPACE
    if mode == k.CPUMODE_GUEST_KERNEL:
        return r.GUEST_KERNEL_SPACE
    return r.GUEST_USER_SPACE if mode == k.CPUMODE_GUEST_USER else user


@cython.inline
@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _space_of_marker(marker: u64, user: u64) -> u64:
    if marker == k.CONTEXT_KERNEL:
        return r.KERNEL_SPACE
    if marker == k.CONTEXT_HYPERVISOR:
        return r.HYPERVISOR_SPACE
    if marker == k.CONTEXT_GUEST:
        return r.GUEST_SPACE
    if marker == k.CONTEXT_GUEST_KERNEL:
        return r.GUEST_KERNEL_SPACE
    return r.GUEST_USER_SPACE if marker == k.CONTEXT_GUEST_USER else user
