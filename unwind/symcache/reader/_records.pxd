# Written by tools/shared.py from _records.py: change that.

from icf._types cimport Bytes, i64, u64

from unwind.symcache.format.records cimport DEPTH_LIMIT, REST, SELF, SIZED

from unwind.symcache.reader cimport columns as col

cdef inline u64 take_number(Bytes data, u64[::1] state, size_t end) nogil:
    cdef size_t at
    cdef u64 value
    cdef u64 byte
    cdef u64 shift
    at = state[col.PLACE]
    shift = 7
    if at < end:
        value = data[at]
        at += 1
        if value < 128:
            state[col.PLACE] = at
            return value
        value &= 127
        while at < end and shift <= 56:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                state[col.PLACE] = at
                return value
    if state[col.FAULT] == 0:
        state[col.FAULT] = at + 1
    state[col.PLACE] = end
    return 0

cdef inline i64 refuse(u64[::1] state) nogil:
    if state[col.FAULT] == 0:
        state[col.FAULT] = state[col.PLACE] + 1
    return -1

cdef inline i64 members_at(Bytes data, const unsigned int[::1] infos, size_t entry, u64[::1] table, u64[::1] state) nogil:
    cdef u64 head
    cdef int turn
    cdef size_t end
    cdef size_t limit
    cdef size_t room
    cdef u64 distance
    cdef u64 count
    cdef size_t at
    cdef u64 i
    cdef u64 bits
    cdef u64 aliases
    cdef u64 k
    cdef u64 size
    head = REST
    turn = 0
    end = 0
    limit = len(data)
    room = table.shape[0]
    at = col.BODY_WIDTH
    i = 0
    state[col.FAULT] = 0
    while head & REST:
        if turn == 2:
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

cdef inline i64 numbers_of(Bytes data, size_t at, size_t size, u64[::1] numbers) nogil:
    cdef size_t end
    cdef size_t limit
    cdef size_t total
    cdef u64 value
    cdef u64 byte
    cdef u64 shift
    cdef size_t i
    end = at + size
    limit = len(data)
    total = 0
    i = 0
    if end > limit:
        return -1
    while at < end:
        value = data[at]
        at += 1
        if value >= 128:
            value &= 127
            shift = 7
            while True:
                if at >= end or shift > 56:
                    return -1
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
        numbers[total] = value
        total += 1
    while i < col.SPARE:
        numbers[total + i] = 0
        i += 1
    return total

cdef inline i64 read_nodes(u64[::1] numbers, u64 total, unsigned int[:, ::1] nodes) nogil:
    cdef u64 count
    cdef u64 width
    cdef size_t k
    cdef size_t i
    cdef u64 parent
    count = numbers[0]
    width = nodes.shape[1]
    k = 1
    i = 0
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

cdef inline i64 places_at(Bytes data, size_t at, size_t size, u64 base, const u64[::1] offsets, size_t first, size_t last, u64[::1] numbers, unsigned int[:, ::1] nodes, unsigned int[:, ::1] found) nogil:
    cdef i64 read
    cdef size_t total
    cdef u64 count
    cdef size_t k
    cdef u64 i
    cdef size_t target
    cdef u64 now
    cdef u64 node
    cdef u64 file
    cdef u64 number
    cdef u64 seen
    cdef u64 head
    cdef u64 value
    read = numbers_of(data, at, size, numbers)
    target = first
    now = base
    node = 0
    file = 0
    number = 0
    seen = 0
    if read < 0:
        return -1
    total = read
    read = read_nodes(numbers, total, nodes)
    if read < 0:
        return read
    count = read
    k = 1 + 4 * count
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
