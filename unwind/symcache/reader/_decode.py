# cython: language_level=3, boundscheck=True, wraparound=False
"""The records of a symcache, read for one address, and checked; `columns` names what is in the arrays.

Nothing calls back into Python; all that is needed is in arrays that the caller made. Where something does not fit these
functions say so, and are called again with a larger one.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import Bytes, i64, u64
    from cython.cimports.unwind.symcache.reader import columns as col
    from cython.cimports.unwind.symcache.reader._records import members_at, places_at
else:
    from icf._types import Bytes, i64, u64
    from unwind.symcache.reader import columns as col
    from unwind.symcache.reader._records import members_at, places_at


@cython.ccall
def read_members(
    data: Bytes, infos: cython.const[cython.uint][::1], entry: cython.size_t, table: u64[::1], state: u64[::1]
) -> i64:
    """Fill `table` with the members of an entry, or of the function that goes on there.

    Return how many members, -1 where the bytes break a rule, -2 where `table` is too small.
    """
    return members_at(data, infos, entry, table, state)


@cython.ccall
def decode(
    data: Bytes,
    at: cython.size_t,
    size: cython.size_t,
    base: u64,
    offsets: cython.const[u64][::1],
    numbers: u64[::1],
    nodes: cython.uint[:, ::1],
    found: cython.uint[:, ::1],
) -> i64:
    """Fill `found` with the place at each of `offsets`, ascending, from a payload of `size` bytes.

    `base` is where the function starts, as `offsets` count. `numbers` needs SPARE more than the payload has bytes, and
    `found` a column for each offset. Return the number of nodes, -1 where the bytes break a rule, or -2 - number where
    `nodes` is too small.
    """
    return places_at(data, at, size, base, offsets, 0, offsets.shape[0], numbers, nodes, found)


@cython.ccall
def check_records(
    data: Bytes,
    infos: cython.const[cython.uint][::1],
    entry: cython.size_t,
    name_count: u64,
    table: u64[::1],
    state: u64[::1],
    numbers: u64[::1],
    nodes: cython.uint[:, ::1],
) -> cython.size_t:
    """Return the first entry, from `entry` on, whose record its readers would refuse.

    It is the number of entries where they accept all. At that entry `state` says where the bytes break a rule, or how
    much room is lacking: in `table`, in `numbers` or in the columns of `nodes`.
    """
    last: cython.size_t = infos.shape[0] - 1
    room: cython.size_t = numbers.shape[0]
    place: cython.size_t
    members: i64
    i: i64
    count: i64
    while entry < last:
        state[col.NEED] = 0
        members = members_at(data, infos, entry, table, state)
        if members < 0:
            if members == -2:
                state[col.NEED] = col.TABLE_ROOM
            return entry
        place = col.BODY_WIDTH
        i = 0
        while i < members:
            if table[place + col.MEMBER_NAME] >= name_count:
                state[col.FAULT] = table[place + col.PAYLOAD] + 1
                return entry
            if table[place + col.PAYLOAD_SIZE] != 0 and table[col.BODY_ENTRY] == entry:
                if table[place + col.PAYLOAD_SIZE] + col.SPARE > room:
                    state[col.NEED] = col.NUMBER_ROOM
                    state[col.ROOM] = table[place + col.PAYLOAD_SIZE] + col.SPARE
                    return entry
                count = places_at(
                    data,
                    table[place + col.PAYLOAD],
                    table[place + col.PAYLOAD_SIZE],
                    0,
                    table,  # of no offset is the place asked
                    0,
                    0,
                    numbers,
                    nodes,
                    nodes,
                )
                if count < 0:
                    if count < -1:
                        state[col.NEED] = col.NODE_ROOM
                        state[col.ROOM] = -1 - count
                    state[col.FAULT] = table[place + col.PAYLOAD] + 1
                    return entry
            place += col.MEMBER_WIDTH + table[place + col.ALIAS_COUNT]
            i += 1
        entry += 1
    return entry
