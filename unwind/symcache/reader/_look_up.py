# cython: language_level=3, boundscheck=True, wraparound=False
"""Looks up many addresses at once: the entries that hold them, and from their records the chains of frames.

A body is read once for all addresses in it. Nothing calls back into Python; all memory that is needed is in arrays that
the caller made. If something does not fit, `look_up` reports it and goes on with a larger array, from that body on.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

from unwind.symcache.reader._decode import decode, read_members

SELF = 0xFFFFFFFF  # instead of a name: that of the function itself
NOWHERE = 0xFFFFFFFFFFFFFFFF
ALL_KNOWN, SIZED = 1, 2  # as in records.py

# `state`: the first two as in _decode.py; how many addresses, frames, chains there are; what is too small, its new size
FAULT, DONE, FRAMES, CHAINS, LACKING, NEEDED = 1, 2, 3, 4, 5, 6
TABLE, NUMBERS, NODES, FRAME_ROOM, CHAIN_ROOM = 1, 2, 3, 4, 5
SPARE = 8  # as in _decode.py

# what is at an address
NOTHING, ONE, ONE_OR_MORE, SEVERAL = 0, 1, 2, 3
FIRST, AGREED, EACH = 0, 1, 2


def make_index(starts, shift, index):
    """Store, for each stretch of 2 ** shift bytes, the first of the ascending `starts` after its begin."""
    count = starts.shape[0]
    with cython.nogil:
        entry = 0
        slot = 0
        while slot < index.shape[0]:
            while entry < count and starts[entry] <= slot << shift:
                entry += 1
            index[slot] = entry
            slot += 1
    return 0


def locate(starts, sizes, base, shift, index, vaddrs, out):
    """Find the entry that holds each of `vaddrs`, -1 for none."""
    count = starts.shape[0]
    asked = vaddrs.shape[0]
    slots = index.shape[0]
    with cython.nogil:
        i = 0
        while i < asked:
            out[i] = -1
            offset = vaddrs[i] - base
            if vaddrs[i] >= base and offset >> shift < slots:
                entry = index[offset >> shift]
                while entry < count and starts[entry] <= offset:
                    entry += 1
                if entry > 0 and offset - starts[entry - 1] < sizes[entry - 1]:
                    out[i] = entry - 1
            i += 1
    return 0


def look_up(
    data, starts, sizes, infos, offsets, order, has_tables, compared, wanted, table, numbers, nodes, found, answers,
    frames, chains, state,
):  # fmt: skip
    """Read the chains of frames at `offsets` (ascending, from the base of the image), from number state[DONE] on."""
    count = starts.shape[0]
    asked = offsets.shape[0]
    with cython.nogil:
        i = state[DONE]
        while i < asked:
            offset = offsets[i]
            low = 0
            high = count
            while low < high:
                middle = (low + high) >> 1
                if starts[middle] <= offset:
                    low = middle + 1
                else:
                    high = middle
            last = i + 1
            entry = low - 1 if low > 0 else 0
            if offset == NOWHERE or low == 0 or offset - starts[entry] >= sizes[entry]:
                answers[order[i], 0] = NOTHING
                answers[order[i], 1] = 0
                answers[order[i], 2] = 0
                i = last
                continue
            while last < asked and offsets[last] - starts[entry] < sizes[entry]:
                last += 1
            members = read_members(data, infos, entry, table, state)
            if members < 0:
                if members == -1:
                    return -1
                state[LACKING] = TABLE
                state[NEEDED] = 2 * table.shape[0]
                return 1
            entry = table[0]
            flags = table[1]
            kind = NOTHING
            chain_count = 0
            if members == 1 and (flags & ALL_KNOWN or has_tables == 0):
                kind = ONE if flags & ALL_KNOWN else ONE_OR_MORE
                chain_count = 1
            elif members > 0:
                kind = SEVERAL
                if wanted == FIRST:
                    members = 1
                chain_count = (wanted & AGREED) + (0 if wanted == AGREED else as_u64(members))
            chain = state[CHAINS]
            if (last - i) * chain_count > chains.shape[0] - chain:
                state[LACKING] = CHAIN_ROOM
                state[NEEDED] = chain + (last - i) * chain_count
                return 1
            target = i
            while target < last:
                answers[order[target], 0] = kind
                answers[order[target], 1] = chain + (target - i) * chain_count
                answers[order[target], 2] = chain_count
                answers[order[target], 3] = entry
                answers[order[target], 4] = table[2] if flags & SIZED else sizes[entry]
                answers[order[target], 5] = flags
                target += 1
            at = state[FRAMES]
            if kind == SEVERAL and wanted & AGREED and (members > compared or not flags & ALL_KNOWN):
                target = i
                while target < last:
                    if at >= frames.shape[0]:
                        break
                    _put(frames, at, SELF, 0, 0, 0)
                    chains[chain + (target - i) * chain_count, 0] = at
                    at += 1
                    chains[chain + (target - i) * chain_count, 1] = at
                    target += 1
                if target < last:
                    return _lacks_frames(state, frames)
                if not wanted & EACH:
                    members = 0
                is_compared = 0
            else:
                is_compared = 1 if kind == SEVERAL and wanted & AGREED else 0
            column = 3
            member = 0
            while member < as_u64(members):
                size = table[column + 3]
                if size != 0:
                    if numbers.shape[0] < size + SPARE:
                        state[LACKING] = NUMBERS
                        state[NEEDED] = 2 * size + SPARE
                        return 1
                    nodes_read = decode(
                        data, table[column + 2], size, starts[entry], offsets, i, last, numbers, nodes, found
                    )
                    if nodes_read == -1:
                        state[FAULT] = table[column + 2] + 1
                        return -1
                    if nodes_read < 0:
                        state[LACKING] = NODES
                        state[NEEDED] = as_u64(-1 - nodes_read)
                        return 1
                target = i
                while target < last:
                    node = found[0, target - i] if size != 0 else 0
                    depth = nodes[7, node] if node != 0 else 0
                    if frames.shape[0] - at < 2 * depth + 2:
                        return _lacks_frames(state, frames)
                    begin = at
                    if size == 0:
                        _put(frames, at, table[column], 0, 0, 0)
                        at += 1
                    else:
                        at = _chain(frames, at, table[column], nodes, found, target - i)
                    chain = state[CHAINS] + (target - i) * chain_count
                    if wanted != AGREED or kind != SEVERAL:
                        k = chain + (member + (wanted & AGREED) if kind == SEVERAL else 0)
                        chains[k, 0] = begin
                        chains[k, 1] = at
                    if is_compared != 0:
                        if member == 0:
                            k = at if wanted & EACH else begin
                            while begin < k:  # its last name becomes another
                                _put(frames, at, frames[begin, 0], frames[begin, 1], frames[begin, 2], frames[begin, 3])
                                begin += 1
                                at += 1
                            frames[at - 1, 0] = SELF
                            chains[chain, 0] = k
                            chains[chain, 1] = at
                        else:
                            _agree(frames, chains, chain, begin, at)
                            if not wanted & EACH:
                                at = begin
                    target += 1
                column += 5 + table[column + 4]
                member += 1
            state[FRAMES] = at
            state[CHAINS] += (last - i) * chain_count
            i = last
            state[DONE] = i
        state[DONE] = asked
    return 0


def as_u64(value):
    return value


def _lacks_frames(state, frames):
    state[LACKING] = FRAME_ROOM
    state[NEEDED] = 2 * frames.shape[0]
    return 1


def _put(frames, at, name, file, line, column):
    frames[at, 0] = name
    frames[at, 1] = file
    frames[at, 2] = line
    frames[at, 3] = column


def _chain(frames, at, own_name, nodes, found, target):
    """Write the frames of a place; return where they end."""
    node = found[0, target]
    file = found[1, target]
    line = found[2, target]
    column = found[3, target]
    while node != 0:
        _put(frames, at, nodes[1, node], file, line, column)
        at += 1
        file = nodes[2, node]
        line = nodes[3, node]
        column = nodes[4, node]
        node = nodes[0, node]
    _put(frames, at, own_name, file, line, column)
    return at + 1


def _agree(frames, chains, chain, begin, end):
    """Reduce a chain to its common part with the frames from `begin` to `end`: the calls, if all are equal, the
    place.
    """
    first = chains[chain, 0]
    last = chains[chain, 1]
    is_same = 1 if last - first == end - begin else 0
    while is_same != 0 and first + 1 < last:
        if (
            frames[first, 0] != frames[begin, 0]
            or frames[first, 1] != frames[begin, 1]
            or frames[first, 2] != frames[begin, 2]
            or frames[first, 3] != frames[begin, 3]
        ):
            is_same = 0
        first += 1
        begin += 1
    if is_same == 0:
        first = chains[chain, 0]
        chains[chain, 1] = first + 1
        _put(frames, first, SELF, 0, 0, 0)
    elif (
        frames[first, 1] != frames[begin, 1]
        or frames[first, 2] != frames[begin, 2]
        or frames[first, 3] != frames[begin, 3]
    ):
        _put(frames, first, SELF, 0, 0, 0)
