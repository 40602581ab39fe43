# cython: language_level=3, boundscheck=True, wraparound=False
"""Reads the records of a symcache; `unwind.symcache.format.records` describes them.

    read_members    the members of an entry, and where the payload of each is
    decode          the frames at some addresses, from a payload: a place in the tree of inlined calls, file, line,
    column
    check_records   whether these two accept all records

None calls back into Python; all memory that they need is in arrays that the caller made. If something does not fit they
report it, and are called again with a larger array. Bytes that break a rule read as 0 from there on, which ends all
loops.
"""

DEPTH_LIMIT = 1024
SELF = 0xFFFFFFFF  # instead of a name: that of the function itself
SIZED, REST = 2, 4  # as in records.py

SPARE = 8  # numbers

# `state` of `read_members`: where it is, and 1 + where the bytes break a rule, or 0; of `check_records`: what is too
# small, or 0, and the size that it needs
PLACE, FAULT, NEED, ROOM = 0, 1, 2, 3


def _number(data, state, end):
    """Return the LEB128 number at hand, of up to 63 bits; 0 if there is none."""
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
    """Read the members of an entry, or of the function that goes on there."""
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


def decode(data, at, size, base, offsets, first, last, numbers, nodes, found):
    """Read the frames at each of `offsets[first:last]`, from a payload of `size` bytes.

    The offsets ascend, and the function starts at `base`.
    """
    end = at + size
    if end > data.shape[0]:
        return -1
    total = 0
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
    i = 0
    while i < SPARE:  # no turn of a loop below reads more
        numbers[total + i] = 0
        i += 1
    # -- nodes
    count = numbers[0]
    k = 1
    if count > total >> 2:
        return -1
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
        value = numbers[k]
        if value > i or value == 0:
            return -1
        nodes[0, i] = i - value
        nodes[7, i] = nodes[7, i - value] + 1
        if nodes[7, i] > DEPTH_LIMIT or numbers[k + 1] >= SELF or numbers[k + 2] >= SELF or numbers[k + 3] > SELF:
            return -1
        nodes[1, i] = numbers[k + 1]
        nodes[2, i] = numbers[k + 2]
        nodes[3, i] = numbers[k + 3]
        k += 4
        i += 1
    # -- rows
    target = first
    now = base
    node = 0
    file = 0
    number = 0
    seen = 0
    while k < total:
        head = numbers[k]
        k += 1
        if head == 0:
            break
        now += head >> 2
        while target < last and offsets[target] < now:
            found[0, target - first] = node
            found[1, target - first] = file
            found[2, target - first] = number
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
                    node = nodes[0, node]
                    value -= 1
        if head & 2:
            file = numbers[k]
            number = numbers[k + 1]
            k += 2
        else:
            file = nodes[5, node]
            number = nodes[6, node]
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
        nodes[5, node] = file
        nodes[6, node] = number
    if k > total or k < 2 or numbers[k - 1] != 0:
        return -1
    while target < last:
        found[0, target - first] = node
        found[1, target - first] = file
        found[2, target - first] = number
        target += 1
    # -- columns
    if count > total - k:
        return -1
    i = 1
    while i <= count:
        if numbers[k] > SELF:
            return -1
        nodes[4, i] = numbers[k]
        k += 1
        i += 1
    target = first
    now = base
    number = 0
    while k < total:
        now += numbers[k]
        while target < last and offsets[target] < now:
            found[3, target - first] = number
            target += 1
        number = numbers[k + 1]
        if number > SELF:
            return -1
        k += 2
    while target < last:
        found[3, target - first] = number
        target += 1
    if k > total:
        return -1
    return as_signed(count)


def check_records(data, infos, entry, name_count, offsets, table, state, numbers, nodes, found):
    """Find the first entry, from `entry` on, whose record its readers would refuse.

    Return the number of entries if they accept all. At that entry `state` has the place where the bytes break a rule,
    or
    the room that is lacking: in `table` (1), in `numbers` (2) or in the columns of `nodes` (3). `offsets` and `found`
    are
    those of `decode`, empty.
    """
    last = infos.shape[0] - 1
    while entry < last:
        state[NEED] = 0
        members = read_members(data, infos, entry, table, state)
        if members < 0:
            if members == -2:
                state[NEED] = 1
            return entry
        place = 3
        i = 0
        while i < members:
            if table[place] >= name_count:
                state[FAULT] = table[place + 2] + 1
                return entry
            if table[place + 3] != 0 and table[0] == entry:
                if table[place + 3] + SPARE > numbers.shape[0]:
                    state[NEED] = 2
                    state[ROOM] = table[place + 3] + SPARE
                    return entry
                count = decode(data, table[place + 2], table[place + 3], 0, offsets, 0, 0, numbers, nodes, found)
                if count < 0:
                    if count < -1:
                        state[NEED] = 3
                        state[ROOM] = -1 - count
                    state[FAULT] = table[place + 2] + 1
                    return entry
            place += 5 + table[place + 4]
            i += 1
        entry += 1
    return entry
