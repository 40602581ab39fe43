"""The records of a symcache, read; `unwind.symcache.format.records` says what is in them, `columns` names the arrays.

Bytes that break a rule read as 0 from there on, which ends all loops.
"""

from __future__ import annotations

from icf._types import Bytes, i64, u64
from unwind.symcache.format.records import DEPTH_LIMIT, REST, SELF, SIZED
from unwind.symcache.reader import columns as col

try:
    import cython
except ImportError:
    from icf import _nocython as cython


@cython.inline
def take_number(data: Bytes, state: u64[::1], end: cython.size_t) -> u64:
    """Return the LEB128 number at hand, of up to 63 bits, and go on after it; 0 if there is none."""
    at: cython.size_t = state[col.PLACE]
    value: u64
    byte: u64
    shift: u64 = 7
    if at < end:
        value = data[at]
        at += 1
        if value < 0x80:
            state[col.PLACE] = at
            return value
        value &= 0x7F
        while at < end and shift <= 56:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                state[col.PLACE] = at
                return value
    if state[col.FAULT] == 0:
        state[col.FAULT] = at + 1
    state[col.PLACE] = end
    return 0


@cython.inline
def refuse(state: u64[::1]) -> i64:
    """Keep that the bytes at hand break a rule, if none did before; return -1."""
    if state[col.FAULT] == 0:
        state[col.FAULT] = state[col.PLACE] + 1
    return -1


@cython.inline
def members_at(
    data: Bytes, infos: cython.const[cython.uint][::1], entry: cython.size_t, table: u64[::1], state: u64[::1]
) -> i64:
    """Fill `table` with the members of an entry, or of the function that goes on there.

    Return how many members, -1 where the bytes break a rule, -2 where `table` is too small.
    """
    head: u64 = REST
    turn: cython.int = 0
    end: cython.size_t = 0
    limit: cython.size_t = len(data)
    room: cython.size_t = table.shape[0]
    distance: u64
    count: u64
    at: cython.size_t = col.BODY_WIDTH
    i: u64 = 0
    bits: u64
    aliases: u64
    k: u64
    size: u64
    state[col.FAULT] = 0
    while head & REST:
        if turn == 2:  # the function that goes on here does not begin there
            return refuse(state)
        table[col.BODY_ENTRY] = entry
        state[col.PLACE] = infos[entry]
        end = infos[entry + 1]
        if infos[entry] > end or end > limit:
            return refuse(state)
        head = take_number(data, state, end)
        if head & REST:
            distance = take_number(data, state, end)
            if distance == 0 or distance > entry:
                return refuse(state)
            entry -= distance
        turn += 1
    count = head >> 3
    if count > end - state[col.PLACE]:
        return refuse(state)
    table[col.BODY_FLAGS] = head & 7
    table[col.BODY_SIZE] = take_number(data, state, end) if head & SIZED else 0
    while i < count:
        if at + col.MEMBER_WIDTH > room:
            return -2
        table[at + col.MEMBER_NAME] = take_number(data, state, end)
        if table[at + col.MEMBER_NAME] >= SELF:
            return refuse(state)
        bits = take_number(data, state, end)
        table[at + col.MEMBER_FLAGS] = bits >> 1
        aliases = 0
        if bits & 1:
            aliases = take_number(data, state, end)
        table[at + col.ALIAS_COUNT] = aliases
        if aliases > end - state[col.PLACE]:
            return refuse(state)
        if at + col.MEMBER_WIDTH + aliases > room:
            return -2
        k = 0
        while k < aliases:
            table[at + col.MEMBER_WIDTH + k] = take_number(data, state, end)
            k += 1
        size = take_number(data, state, end) if i + 1 < count else end - state[col.PLACE]
        if size > end - state[col.PLACE] or state[col.FAULT] != 0:
            return refuse(state)
        table[at + col.PAYLOAD] = state[col.PLACE]
        table[at + col.PAYLOAD_SIZE] = size
        state[col.PLACE] += size
        at += col.MEMBER_WIDTH + aliases
        i += 1
    if state[col.FAULT] != 0:
        return -1
    return count


@cython.inline
def numbers_of(data: Bytes, at: cython.size_t, size: cython.size_t, numbers: u64[::1]) -> i64:
    """Read all numbers of a payload, with SPARE zeros after them; return how many, -1 where the bytes break a rule."""
    end: cython.size_t = at + size
    limit: cython.size_t = len(data)
    total: cython.size_t = 0
    value: u64
    byte: u64
    shift: u64
    i: cython.size_t = 0
    if end > limit:
        return -1
    while at < end:
        value = data[at]
        at += 1
        if value >= 0x80:
            value &= 0x7F
            shift = 7
            while True:
                if at >= end or shift > 56:
                    return -1
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        numbers[total] = value
        total += 1
    while i < col.SPARE:  # no turn of a loop that reads them takes more
        numbers[total + i] = 0
        i += 1
    return total


@cython.inline
def read_nodes(numbers: u64[::1], total: u64, nodes: cython.uint[:, ::1]) -> i64:
    """Fill `nodes` but for the columns of calls; return how many, -1 for a broken rule, -2 - number if too many."""
    count: u64 = numbers[0]
    width: u64 = nodes.shape[1]
    k: cython.size_t = 1
    i: cython.size_t = 0
    parent: u64
    if count > total >> 2:
        return -1
    if count >= width:
        return -2 - count
    while i <= count:
        nodes[col.LAST_FILE, i] = SELF
        nodes[col.LAST_LINE, i] = 0
        nodes[col.DEPTH, i] = 0
        i += 1
    i = 1
    while i <= count:
        parent = numbers[k]
        if parent > i or parent == 0:
            return -1
        parent = i - parent
        nodes[col.PARENT, i] = parent
        nodes[col.DEPTH, i] = nodes[col.DEPTH, parent] + 1
        if nodes[col.DEPTH, i] > DEPTH_LIMIT:
            return -1
        if numbers[k + 1] >= SELF or numbers[k + 2] >= SELF or numbers[k + 3] > SELF:
            return -1
        nodes[col.NODE_NAME, i] = numbers[k + 1]
        nodes[col.CALL_FILE, i] = numbers[k + 2]
        nodes[col.CALL_LINE, i] = numbers[k + 3]
        k += 4
        i += 1
    return count


@cython.inline
def places_at(
    data: Bytes,
    at: cython.size_t,
    size: cython.size_t,
    base: u64,
    offsets: cython.const[u64][::1],
    first: cython.size_t,
    last: cython.size_t,
    numbers: u64[::1],
    nodes: cython.uint[:, ::1],
    found: cython.uint[:, ::1],
) -> i64:
    """Fill `found` with the place at each of `offsets[first:last]`, ascending, of a function that starts at `base`.

    Return the number of nodes, -1 where the bytes break a rule, or -2 - number where `nodes` is too small. All numbers
    of the payload are read first: helpers that read one at a time would take twice as long.
    """
    read: i64 = numbers_of(data, at, size, numbers)
    total: cython.size_t
    count: u64
    k: cython.size_t
    i: u64
    target: cython.size_t = first
    now: u64 = base
    node: u64 = 0
    file: u64 = 0
    number: u64 = 0
    seen: u64 = 0
    head: u64
    value: u64
    if read < 0:
        return -1
    total = read
    read = read_nodes(numbers, total, nodes)
    if read < 0:
        return read
    count = read
    k = 1 + 4 * count
    # -- rows
    while k < total:
        head = numbers[k]
        k += 1
        if head == 0:
            break
        now += head >> 2
        while target < last and offsets[target] < now:
            found[col.NODE, target - first] = node
            found[col.FILE, target - first] = file
            found[col.LINE, target - first] = number
            target += 1
        if head & 1:
            value = numbers[k]
            k += 1
            if value & 1:
                seen += (value >> 1) + 1
                if seen > count:
                    return -1
                node = seen
            elif value == 0:
                node = numbers[k]
                k += 1
                if node > count:
                    return -1
            else:
                value >>= 1
                while value > 0:
                    if node == 0:
                        return -1
                    node = nodes[col.PARENT, node]
                    value -= 1
        if head & 2:
            file = numbers[k]
            number = numbers[k + 1]
            k += 2
        else:
            file = nodes[col.LAST_FILE, node]
            number = nodes[col.LAST_LINE, node]
            value = numbers[k]
            k += 1
            if value & 1:
                if value >> 1 > number:
                    return -1
                number -= value >> 1
            else:
                number += value >> 1
        if file >= SELF or number > SELF:
            return -1
        nodes[col.LAST_FILE, node] = file
        nodes[col.LAST_LINE, node] = number
    if k > total or k < 2 or numbers[k - 1] != 0:
        return -1
    while target < last:
        found[col.NODE, target - first] = node
        found[col.FILE, target - first] = file
        found[col.LINE, target - first] = number
        target += 1
    # -- columns
    if count > total - k:
        return -1
    i = 1
    while i <= count:
        if numbers[k] > SELF:
            return -1
        nodes[col.CALL_COLUMN, i] = numbers[k]
        k += 1
        i += 1
    target = first
    now = base
    number = 0
    while k < total:
        now += numbers[k]
        while target < last and offsets[target] < now:
            found[col.COLUMN, target - first] = number
            target += 1
        number = numbers[k + 1]
        if number > SELF:
            return -1
        k += 2
    while target < last:
        found[col.COLUMN, target - first] = number
        target += 1
    if k > total:
        return -1
    return count
