# cython: language_level=3, boundscheck=True, wraparound=False
"""Looks up many addresses at once: the entries that hold them, and from their records the chains of frames.

A body is read once for all addresses in it. Nothing calls back into Python; all that is needed is in arrays that the
caller made, see `columns`. Where something does not fit, `look_up` says so and goes on with a larger one, from the body
it was at.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK
    from cython.cimports.icf._types import Bytes, i64, u64
    from cython.cimports.unwind.symcache.format.records import ALL_KNOWN, SELF, SIZED
    from cython.cimports.unwind.symcache.reader import columns as col
    from cython.cimports.unwind.symcache.reader._records import members_at, places_at
else:
    from icf._bytes import MASK
    from icf._types import Bytes, i64, u64
    from unwind.symcache.format.records import ALL_KNOWN, SELF, SIZED
    from unwind.symcache.reader import columns as col
    from unwind.symcache.reader._records import members_at, places_at


@cython.ccall
def make_index(starts: cython.const[u64][::1], shift: u64, index: cython.uint[::1]) -> cython.int:
    """Store, for each stretch of 2 ** shift bytes, the first of the ascending `starts` after its begin."""
    count: cython.size_t = starts.shape[0]
    slots: u64 = index.shape[0]
    entry: cython.size_t = 0
    slot: u64 = 0
    with cython.nogil:
        while slot < slots:
            while entry < count and starts[entry] <= slot << shift:
                entry += 1
            index[slot] = entry
            slot += 1
    return 0


@cython.ccall
def locate(
    starts: cython.const[u64][::1],
    sizes: cython.const[u64][::1],
    base: u64,
    shift: u64,
    index: cython.const[cython.uint][::1],
    vaddrs: cython.const[u64][::1],
    out: i64[::1],
) -> cython.int:
    """Store the entry that holds each of `vaddrs`, -1 for none."""
    count: cython.size_t = starts.shape[0]
    asked: cython.size_t = vaddrs.shape[0]
    slots: u64 = index.shape[0]
    i: cython.size_t = 0
    offset: u64
    entry: cython.size_t
    with cython.nogil:
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


@cython.ccall
def look_up(
    data: Bytes,
    starts: cython.const[u64][::1],
    sizes: cython.const[u64][::1],
    infos: cython.const[cython.uint][::1],
    offsets: cython.const[u64][::1],
    order: cython.const[cython.uint][::1],
    has_tables: cython.bint,
    compared: i64,
    wanted: u64,
    table: u64[::1],
    numbers: u64[::1],
    nodes: cython.uint[:, ::1],
    found: cython.uint[:, ::1],
    answers: u64[:, ::1],
    frames: cython.uint[:, ::1],
    chains: cython.uint[:, ::1],
    state: u64[::1],
) -> cython.int:
    """Find the chains of frames at `offsets` (ascending, from the base of the image), from number state[DONE] on.

    order     u32[n]: the row of `answers` that each is for
    wanted    of SEVERAL, the chain of the FIRST member; or AGREED: what all have in common, with SELF as its last name,
              which is only looked for if there are at most `compared`; or EACH: those of all; AGREED | EACH: it first
    answers   u64[n, ANSWER_WIDTH]: what is there, its chains, the entry of the function, its size, flags
    chains    u32[c, CHAIN_WIDTH]: first frame, last frame + 1
    frames    u32[f, FRAME_WIDTH]: innermost first
    found     u32[FOUND_HEIGHT, n]
    Return 0 if all is done; 1 where state[LACKING] needs room for state[NEEDED]; -1 where the bytes break a rule.
    """
    entries: cython.size_t = starts.shape[0]
    asked: cython.size_t = offsets.shape[0]
    number_room: cython.size_t = numbers.shape[0]
    frame_room: cython.size_t = frames.shape[0]
    chain_room: cython.size_t = chains.shape[0]
    i: cython.size_t = state[col.DONE]
    last: cython.size_t
    entry: cython.size_t
    members: i64
    kind: u64
    chain_count: u64
    chain: cython.size_t
    at: cython.size_t
    is_compared: cython.bint
    place: cython.size_t
    member: u64
    size: u64
    read: i64
    with cython.nogil:
        while i < asked:
            entry = entry_at(starts, sizes, offsets[i])
            last = i + 1
            if entry == entries:
                answers[order[i], col.KIND] = col.NOTHING
                answers[order[i], col.FIRST_CHAIN] = 0
                answers[order[i], col.CHAINS] = 0
                i = last
                continue
            while last < asked and offsets[last] - starts[entry] < sizes[entry]:
                last += 1
            members = members_at(data, infos, entry, table, state)
            if members == -1:
                return -1
            if members < 0:
                return lacks(state, col.TABLE_ROOM, 2 * table.shape[0])
            entry = table[col.BODY_ENTRY]
            kind = kind_of(members, table[col.BODY_FLAGS], has_tables)
            chain_count = 1
            if kind == col.NOTHING:
                chain_count = 0
            elif kind == col.SEVERAL:
                if wanted == col.FIRST:
                    members = 1
                chain_count = wanted & col.AGREED
                if wanted != col.AGREED:
                    chain_count += members
            chain = state[col.CHAIN_COUNT]
            if (last - i) * chain_count > chain_room - chain:
                return lacks(state, col.CHAIN_ROOM, chain + (last - i) * chain_count)
            put_answers(answers, order, i, last, kind, chain, chain_count, table, sizes[entry])
            at = state[col.FRAME_COUNT]
            is_compared = kind == col.SEVERAL and wanted & col.AGREED != 0
            if is_compared and (members > compared or not table[col.BODY_FLAGS] & ALL_KNOWN):
                if last - i > frame_room - at:
                    return lacks(state, col.FRAME_ROOM, 2 * frame_room)
                at = put_unknown(frames, at, chains, chain, chain_count, last - i)
                if not wanted & col.EACH:
                    members = 0
                is_compared = False
            place = col.BODY_WIDTH
            member = 0
            while members > 0:
                size = table[place + col.PAYLOAD_SIZE]
                if size != 0:
                    if number_room < size + col.SPARE:
                        return lacks(state, col.NUMBER_ROOM, 2 * size + col.SPARE)
                    read = places_at(
                        data, table[place + col.PAYLOAD], size, starts[entry], offsets, i, last, numbers, nodes, found
                    )
                    if read == -1:
                        state[col.FAULT] = table[place + col.PAYLOAD] + 1
                        return -1
                    if read < 0:
                        return lacks(state, col.NODE_ROOM, -1 - read)
                at = put_chains(
                    nodes, found, size, frames, at, table[place + col.MEMBER_NAME], chains, chain, chain_count,
                    last - i, member, wanted if kind == col.SEVERAL else col.FIRST, is_compared,
                )  # fmt: skip
                if at > frame_room:
                    return lacks(state, col.FRAME_ROOM, 2 * frame_room)
                place += col.MEMBER_WIDTH + table[place + col.ALIAS_COUNT]
                member += 1
                members -= 1
            state[col.FRAME_COUNT] = at
            state[col.CHAIN_COUNT] += (last - i) * chain_count
            i = last
            state[col.DONE] = i
        state[col.DONE] = asked
    return 0


@cython.cfunc
@cython.nogil
@cython.inline
def lacks(state: u64[::1], what: u64, needed: u64) -> cython.int:
    """Keep what is too small, and the size that it needs; return 1."""
    state[col.LACKING] = what
    state[col.NEEDED] = needed
    return 1


@cython.cfunc
@cython.nogil
@cython.inline
def entry_at(starts: cython.const[u64][::1], sizes: cython.const[u64][::1], offset: u64) -> cython.size_t:
    """Return the entry that holds an offset, the number of entries if none does; MASK is in none."""
    low: cython.size_t = 0
    high: cython.size_t = starts.shape[0]
    middle: cython.size_t
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] <= offset:
            low = middle + 1
        else:
            high = middle
    if offset == MASK or low == 0 or offset - starts[low - 1] >= sizes[low - 1]:
        return starts.shape[0]
    return low - 1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def kind_of(members: i64, flags: u64, has_tables: cython.bint) -> u64:
    """Return what a body with so many members is."""
    if members == 0:
        return col.NOTHING
    if members > 1:
        return col.SEVERAL
    if flags & ALL_KNOWN:
        return col.ONE
    return col.SEVERAL if has_tables else col.ONE_OR_MORE


@cython.cfunc
@cython.nogil
def put_answers(
    answers: u64[:, ::1],
    order: cython.const[cython.uint][::1],
    i: cython.size_t,
    last: cython.size_t,
    kind: u64,
    chain: u64,
    chain_count: u64,
    table: u64[::1],
    entry_size: u64,
) -> cython.int:
    """Store the answers of addresses that one body holds."""
    row: cython.size_t
    while i < last:
        row = order[i]
        answers[row, col.KIND] = kind
        answers[row, col.FIRST_CHAIN] = chain
        answers[row, col.CHAINS] = chain_count
        answers[row, col.ENTRY] = table[col.BODY_ENTRY]
        answers[row, col.SIZE] = table[col.BODY_SIZE] if table[col.BODY_FLAGS] & SIZED else entry_size
        answers[row, col.FLAGS] = table[col.BODY_FLAGS]
        chain += chain_count
        i += 1
    return 0


@cython.cfunc
@cython.nogil
def put_unknown(
    frames: cython.uint[:, ::1],
    at: cython.size_t,
    chains: cython.uint[:, ::1],
    chain: cython.size_t,
    chain_count: cython.size_t,
    count: cython.size_t,
) -> cython.size_t:
    """Store for each address of a body a chain of one frame that says nothing of its place; return where they end."""
    while count > 0:
        put_frame(frames, at, SELF, 0, 0, 0)
        chains[chain, col.FIRST_FRAME] = at
        at += 1
        chains[chain, col.LAST_FRAME] = at
        chain += chain_count
        count -= 1
    return at


@cython.cfunc
@cython.nogil
def put_chains(
    nodes: cython.uint[:, ::1],
    found: cython.uint[:, ::1],
    size: u64,
    frames: cython.uint[:, ::1],
    at: cython.size_t,
    name: u64,
    chains: cython.uint[:, ::1],
    chain: cython.size_t,
    chain_count: cython.size_t,
    count: cython.size_t,
    member: u64,
    wanted: u64,
    is_compared: cython.bint,
) -> cython.size_t:
    """Store the chain of one member at each address of a body; return where the frames end, beyond all if too few.

    `size` is that of its payload, which is in `nodes` and `found` if it is not 0.
    """
    room: cython.size_t = frames.shape[0]
    target: cython.size_t = 0
    depth: u64
    begin: cython.size_t
    own: cython.size_t
    while target < count:
        depth = nodes[col.DEPTH, found[col.NODE, target]] if size != 0 and found[col.NODE, target] != 0 else 0
        if room - at < 2 * depth + 2:
            return room + 1
        begin = at
        if size == 0:
            put_frame(frames, at, name, 0, 0, 0)
            at += 1
        else:
            at = put_chain(frames, at, name, nodes, found, target)
        if wanted != col.AGREED:
            own = chain + member + (wanted & col.AGREED)
            chains[own, col.FIRST_FRAME] = begin
            chains[own, col.LAST_FRAME] = at
        if is_compared:
            if member == 0:
                at = put_common(frames, chains, chain, begin, at, wanted & col.EACH != 0)
            else:
                keep_common(frames, chains, chain, begin, at)
                if not wanted & col.EACH:
                    at = begin
        chain += chain_count
        target += 1
    return at


@cython.cfunc
@cython.nogil
@cython.inline
def put_frame(
    frames: cython.uint[:, ::1], at: cython.size_t, name: u64, file: u64, line: u64, column: u64
) -> cython.int:
    """Store a frame."""
    frames[at, col.FRAME_NAME] = name
    frames[at, col.FRAME_FILE] = file
    frames[at, col.FRAME_LINE] = line
    frames[at, col.FRAME_COLUMN] = column
    return 0


@cython.cfunc
@cython.nogil
def put_chain(
    frames: cython.uint[:, ::1],
    at: cython.size_t,
    own_name: u64,
    nodes: cython.uint[:, ::1],
    found: cython.uint[:, ::1],
    target: cython.size_t,
) -> cython.size_t:
    """Store the frames of a place; return where they end."""
    node: u64 = found[col.NODE, target]
    file: u64 = found[col.FILE, target]
    line: u64 = found[col.LINE, target]
    column: u64 = found[col.COLUMN, target]
    while node != 0:
        put_frame(frames, at, nodes[col.NODE_NAME, node], file, line, column)
        at += 1
        file = nodes[col.CALL_FILE, node]
        line = nodes[col.CALL_LINE, node]
        column = nodes[col.CALL_COLUMN, node]
        node = nodes[col.PARENT, node]
    put_frame(frames, at, own_name, file, line, column)
    return at + 1


@cython.cfunc
@cython.nogil
def put_common(
    frames: cython.uint[:, ::1],
    chains: cython.uint[:, ::1],
    chain: cython.size_t,
    begin: cython.size_t,
    end: cython.size_t,
    is_copied: cython.bint,
) -> cython.size_t:
    """Make the chain of the first member, or a copy of it, the one that all have in common; return its end."""
    first: cython.size_t = begin
    at: cython.size_t = end
    if is_copied:
        first = end
        while begin < end:
            put_frame(
                frames,
                at,
                frames[begin, col.FRAME_NAME],
                frames[begin, col.FRAME_FILE],
                frames[begin, col.FRAME_LINE],
                frames[begin, col.FRAME_COLUMN],
            )
            begin += 1
            at += 1
    frames[at - 1, col.FRAME_NAME] = SELF
    chains[chain, col.FIRST_FRAME] = first
    chains[chain, col.LAST_FRAME] = at
    return at


@cython.cfunc
@cython.nogil
@cython.inline
def is_same_place(frames: cython.uint[:, ::1], one: cython.size_t, other: cython.size_t) -> cython.bint:
    """Tell whether two frames have the same file, line and column."""
    return (
        frames[one, col.FRAME_FILE] == frames[other, col.FRAME_FILE]
        and frames[one, col.FRAME_LINE] == frames[other, col.FRAME_LINE]
        and frames[one, col.FRAME_COLUMN] == frames[other, col.FRAME_COLUMN]
    )


@cython.cfunc
@cython.nogil
def keep_common(
    frames: cython.uint[:, ::1],
    chains: cython.uint[:, ::1],
    chain: cython.size_t,
    begin: cython.size_t,
    end: cython.size_t,
) -> cython.int:
    """Leave of a chain what the frames from `begin` to `end` say, too: the calls, if all are the same, the place."""
    first: cython.size_t = chains[chain, col.FIRST_FRAME]
    last: cython.size_t = chains[chain, col.LAST_FRAME]
    is_same: cython.bint = last - first == end - begin
    while is_same and first + 1 < last:
        is_same = frames[first, col.FRAME_NAME] == frames[begin, col.FRAME_NAME] and is_same_place(frames, first, begin)
        first += 1
        begin += 1
    if not is_same:
        first = chains[chain, col.FIRST_FRAME]
        chains[chain, col.LAST_FRAME] = first + 1
        put_frame(frames, first, SELF, 0, 0, 0)
    elif not is_same_place(frames, first, begin):
        put_frame(frames, first, SELF, 0, 0, 0)
    return 0
