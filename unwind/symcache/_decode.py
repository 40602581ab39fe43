# cython: language_level=3, boundscheck=True, wraparound=False
"""The records of a symcache, read; `unwind.symcache.records` says what is in them.

    read_members    who is at an entry, and where the payload of each is
    decode          what a payload says at some addresses: a place in the tree of inlined calls, file, line, column

Neither calls back into Python; all that they need is in arrays that the caller made. Where something does not fit they
say so, and are called again with a larger one. Bytes that break a rule read as 0 from there on, which ends all loops.
"""

DEPTH_LIMIT = 1024
SELF = 0xFFFFFFFF  # instead of a name: that of the function itself
SIZED, REST = 2, 4  # as in records.py

# `state`: where they are, and 1 + where the bytes break a rule, or 0
PLACE, FAULT = 0, 1


def _number(data, state, end):
    """The LEB128 number at hand, of up to 63 bits; 0 if there is none."""
    at = state[PLACE]
    if at < end:
        value = data[at]
        at += 1
        if value < 0x80:
            state[PLACE] = at
            return value
        value &= 0x7F
        shift = 7
        while at < end and shift <= 56:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                state[PLACE] = at
                return value
    if state[FAULT] == 0:
        state[FAULT] = at + 1
    state[PLACE] = end
    return 0


def _fail(state):
    if state[FAULT] == 0:
        state[FAULT] = state[PLACE] + 1
    return -1


def as_signed(value):
    return value


def read_members(data, infos, entry, table, state):
    """Who is at an entry, or at the function that goes on there.

    table   u64[n]: the entry of the function, flags, its size if it is SIZED; then for each member name, flags, where
            its payload is, the size of that, number of aliases, aliases
    How many members, -1 where the bytes break a rule, -2 where `table` is too small.
    """
    state[FAULT] = 0
    head = REST
    turn = 0
    while head & REST:
        if turn == 2:  # the function that goes on here does not begin there
            return _fail(state)
        table[0] = entry
        state[PLACE] = infos[entry]
        end = infos[entry + 1]
        if infos[entry] > end or end > data.shape[0]:
            return _fail(state)
        head = _number(data, state, end)
        if head & REST:
            distance = _number(data, state, end)
            if distance == 0 or distance > entry:
                return _fail(state)
            entry -= distance
        turn += 1
    count = head >> 3
    if count > end - state[PLACE]:
        return _fail(state)
    table[1] = head & 7
    table[2] = _number(data, state, end) if head & SIZED else 0
    at = 3
    i = 0
    while i < count:
        if at + 5 > table.shape[0]:
            return -2
        table[at] = _number(data, state, end)
        if table[at] >= SELF:
            return _fail(state)
        bits = _number(data, state, end)
        table[at + 1] = bits >> 1
        aliases = 0
        if bits & 1:
            aliases = _number(data, state, end)
        table[at + 4] = aliases
        if aliases > end - state[PLACE]:
            return _fail(state)
        if at + 5 + aliases > table.shape[0]:
            return -2
        k = 0
        while k < aliases:
            table[at + 5 + k] = _number(data, state, end)
            k += 1
        size = _number(data, state, end) if i + 1 < count else end - state[PLACE]
        if size > end - state[PLACE] or state[FAULT] != 0:
            return _fail(state)
        table[at + 2] = state[PLACE]
        table[at + 3] = size
        state[PLACE] += size
        at += 5 + aliases
        i += 1
    if state[FAULT] != 0:
        return -1
    return as_signed(count)


def decode(data, at, size, base, offsets, first, last, nodes, found, state):
    """What is at each of `offsets[first:last]` (ascending; the function starts at `base`), from a payload of `size`.

    nodes   u32[8, n]: 0 parent, 1 name, 2 call file, 3 call line, 4 call column, 5 last file, 6 last line, 7 depth
    found   u32[4, last - first at least]: node, file, line, column
    The number of nodes, -1 where the bytes break a rule, or -2 - number where `nodes` is too small.
    """
    state[FAULT] = 0
    state[PLACE] = at
    end = at + size
    if end > data.shape[0]:
        return _fail(state)
    # -- nodes
    count = _number(data, state, end)
    if count > size >> 2:
        return _fail(state)
    if count >= nodes.shape[1]:
        return -2 - as_signed(count)
    i = 0
    while i <= count:
        nodes[5, i] = SELF
        nodes[6, i] = 0
        nodes[7, i] = 0
        i += 1
    i = 1
    while i <= count:
        value = _number(data, state, end)
        if value > i or value == 0:
            return _fail(state)
        nodes[0, i] = i - value
        nodes[7, i] = nodes[7, i - value] + 1
        if nodes[7, i] > DEPTH_LIMIT:
            return _fail(state)
        value = _number(data, state, end)
        file = _number(data, state, end)
        number = _number(data, state, end)
        if value >= SELF or file >= SELF or number > SELF:
            return _fail(state)
        nodes[1, i] = value
        nodes[2, i] = file
        nodes[3, i] = number
        i += 1
    # -- rows
    target = first
    now = base
    node = 0
    file = 0
    number = 0
    seen = 0
    while True:
        head = _number(data, state, end)
        if head == 0:
            break
        now += head >> 2
        while target < last and offsets[target] < now:
            found[0, target - first] = node
            found[1, target - first] = file
            found[2, target - first] = number
            target += 1
        if head & 1:
            value = _number(data, state, end)
            if value & 1:
                seen += (value >> 1) + 1
                if seen > count:
                    return _fail(state)
                node = seen
            elif value == 0:
                node = _number(data, state, end)
                if node > count:
                    return _fail(state)
            else:
                value >>= 1
                while value > 0:
                    if node == 0:
                        return _fail(state)
                    node = nodes[0, node]
                    value -= 1
        if head & 2:
            file = _number(data, state, end)
            number = _number(data, state, end)
        else:
            file = nodes[5, node]
            value = _number(data, state, end)
            number = nodes[6, node]
            if value & 1:
                if value >> 1 > number:
                    return _fail(state)
                number -= value >> 1
            else:
                number += value >> 1
        if file >= SELF or number > SELF:
            return _fail(state)
        nodes[5, node] = file
        nodes[6, node] = number
    while target < last:
        found[0, target - first] = node
        found[1, target - first] = file
        found[2, target - first] = number
        target += 1
    # -- columns
    i = 1
    while i <= count:
        value = _number(data, state, end)
        if value > SELF:
            return _fail(state)
        nodes[4, i] = value
        i += 1
    target = first
    now = base
    number = 0
    while state[PLACE] < end:
        now += _number(data, state, end)
        while target < last and offsets[target] < now:
            found[3, target - first] = number
            target += 1
        number = _number(data, state, end)
        if number > SELF:
            return _fail(state)
    while target < last:
        found[3, target - first] = number
        target += 1
    if state[FAULT] != 0:
        return -1
    return as_signed(count)
