# cython: language_level=3, boundscheck=True, wraparound=False
"""Writes the streams of a symcache's records; `unwind.symcache.format.records` describes them.

It works on all functions of one unit, does not call back into Python, and keeps all it needs in arrays that the caller
made.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

DEPTH_LIMIT = 1024
SELF = 0xFFFFFFFF


def encode(
    pieces, range_low, range_high, range_node, node_up, node_name, node_file, node_line, node_column,
    address, file_idx, line, column, file_map, segments, scratch, out, ends,
):  # fmt: skip
    """Write the payload of each of `pieces` to `out`; return their size in bytes. `ends`: payload, its columns' start.

    pieces      u64[n, 8]: start, end, first and last + 1 of its ranges, of its nodes, of its rows
    range_*     ranges of inlined calls: low, high, node (from the first of the piece); a piece's by low, then node
    node_*      columns of nodes: what `icf.dwarf.inlines.Nodes` has; `node_name` instead of the origin
    address...  columns of line rows, those of a piece one sequence, the last its end
    file_map    what a file number of the unit is in the cache
    segments    u64[2, s] scratch, two more than a piece has ranges, twice
    scratch     u32[4, t] scratch, one more than a piece has nodes or ranges
    out         40 bytes for each range (twice), row and node, and 64 for a piece, are always enough
    """
    count = pieces.shape[0]
    at = 0
    with cython.nogil:
        piece = 0
        while piece < count:
            start = pieces[piece, 0]
            end = pieces[piece, 1]
            base = pieces[piece, 4]
            segment_count = _paint(
                range_low, range_high, range_node, pieces[piece, 2], pieces[piece, 3], start, end, segments, scratch
            )
            # -- nodes, in the order in which the code meets them; scratch[0] numbers them
            node = base
            while node < pieces[piece, 5]:
                scratch[0, node - base] = 0
                node += 1
            begin = at
            found = 0
            segment = 0
            too_deep = 0
            while segment < segment_count:
                node = segments[1, segment]
                if node != 0 and scratch[0, node - 1] == 0:
                    depth = 0
                    while scratch[0, node - 1] == 0:  # outermost last
                        scratch[1, depth] = node
                        depth += 1
                        up = node_up[base + node - 1]
                        if up == 0 or up >= node:
                            break
                        node -= up
                    while depth > 0:
                        depth -= 1
                        found += 1
                        scratch[0, scratch[1, depth] - 1] = found
                        scratch[2, found] = scratch[1, depth] - 1
                segment += 1
            at = _uleb(out, at, found)
            i = 1
            scratch[3, 0] = 0
            while i <= found:
                node = base + scratch[2, i]
                up = node_up[node]
                parent = scratch[0, node - up - base] if up != 0 and up <= node - base else 0
                scratch[3, i] = scratch[3, parent] + 1
                if scratch[3, i] > DEPTH_LIMIT:
                    too_deep = 1
                at = _uleb(out, at, i - parent)
                at = _uleb(out, at, node_name[node])
                at = _uleb(out, at, file_map[node_file[node]] if node_file[node] < file_map.shape[0] else 0)
                at = _uleb(out, at, node_line[node])
                i += 1
            # -- rows; from here scratch[1] and scratch[3] hold the last file and line of each node
            row = pieces[piece, 6]
            last_row = pieces[piece, 7]
            if row < last_row:  # to the first row above `start`
                i = last_row
                while row < i:
                    middle = (row + i) >> 1
                    if address[middle] <= start:
                        row = middle + 1
                    else:
                        i = middle
            first_row = row
            i = 0
            while i <= found:
                scratch[1, i] = SELF
                i += 1
            i = 0
            while i < found:  # the parents, for the rows below; scratch[2] by the new number
                node = base + scratch[2, i + 1]
                up = node_up[node]
                scratch[2, i] = scratch[0, node - up - base] if up != 0 and up <= node - base else 0
                i += 1
            segment = 0
            now = start
            written = start
            old_node = 0
            old_file = SELF
            old_line = SELF
            seen = 0
            while now < end:
                while row < last_row and address[row] <= now:
                    row += 1
                while segment < segment_count and segments[0, segment] <= now:
                    segment += 1
                node = 0
                if segment > 0 and segments[1, segment - 1] != 0:
                    node = scratch[0, segments[1, segment - 1] - 1]
                file = 0
                number = 0
                if row > pieces[piece, 6] and row < last_row:
                    file = file_map[file_idx[row - 1]] if file_idx[row - 1] < file_map.shape[0] else 0
                    number = line[row - 1]
                if node != old_node or file != old_file or number != old_line:
                    head = (now - written) << 2
                    written = now
                    if node != old_node:
                        head |= 1
                    if file != scratch[1, node]:
                        head |= 2
                    at = _uleb(out, at, head)
                    if node != old_node:
                        if node > seen:
                            at = _uleb(out, at, (node - seen - 1) << 1 | 1)
                            seen = node
                        else:
                            steps = 0
                            i = old_node
                            while i != node and i != 0:
                                i = scratch[2, i - 1]
                                steps += 1
                            if i == node:
                                at = _uleb(out, at, steps << 1)
                            else:
                                at = _uleb(out, at, 0)
                                at = _uleb(out, at, node)
                    if file != scratch[1, node]:
                        at = _uleb(out, at, file)
                        at = _uleb(out, at, number)
                    else:
                        at = _zigzag(out, at, scratch[3, node], number)
                    scratch[1, node] = file
                    scratch[3, node] = number
                    old_node = node
                    old_file = file
                    old_line = number
                now = end
                if row < last_row and address[row] < now:
                    now = address[row]
                if segment < segment_count and segments[0, segment] < now:
                    now = segments[0, segment]
            out[at] = 0
            at += 1
            # -- columns
            ends[piece, 1] = at
            node = base
            i = 1
            while i <= found:
                scratch[1, i] = 0
                i += 1
            while node < pieces[piece, 5]:
                if scratch[0, node - base] != 0:
                    scratch[1, scratch[0, node - base]] = node_column[node]
                node += 1
            i = 1
            while i <= found:
                at = _uleb(out, at, scratch[1, i])
                i += 1
            row = first_row
            now = start
            written = start
            old_line = 0
            while now < end:
                while row < last_row and address[row] <= now:
                    row += 1
                number = 0
                if row > pieces[piece, 6] and row < last_row:
                    number = column[row - 1]
                if number != old_line:
                    at = _uleb(out, at, now - written)
                    at = _uleb(out, at, number)
                    written = now
                    old_line = number
                now = end
                if row < last_row and address[row] < now:
                    now = address[row]
            if too_deep != 0:
                at = begin
                ends[piece, 1] = at
            ends[piece, 0] = at
            piece += 1
    return at


def _paint(range_low, range_high, range_node, first, last, start, end, segments, heap):
    """Store which node has each address (segments of start and node + 1, ascending); return their number."""
    count = 0
    size = 0
    now = start
    current = 0
    i = first
    while now < end:
        while i < last and range_low[i] <= now:
            if range_high[i] > now:
                at = size
                size += 1
                while at > 0 and range_node[heap[1, (at - 1) >> 1] + first] < range_node[i]:
                    heap[1, at] = heap[1, (at - 1) >> 1]
                    at = (at - 1) >> 1
                heap[1, at] = i - first
            i += 1
        while size > 0 and range_high[heap[1, 0] + first] <= now:
            size -= 1
            moved = heap[1, size]
            at = 0
            while 2 * at + 1 < size:
                child = 2 * at + 1
                if child + 1 < size and range_node[heap[1, child + 1] + first] > range_node[heap[1, child] + first]:
                    child += 1
                if range_node[heap[1, child] + first] <= range_node[moved + first]:
                    break
                heap[1, at] = heap[1, child]
                at = child
            heap[1, at] = moved
        node = 0
        following = end
        if size > 0:
            node = range_node[heap[1, 0] + first] + 1
            if range_high[heap[1, 0] + first] < following:
                following = range_high[heap[1, 0] + first]
        if i < last and range_low[i] < following:
            following = range_low[i]
        if node != current:
            segments[0, count] = now
            segments[1, count] = node
            count += 1
            current = node
        now = following
    return count


def _uleb(out, at, value):
    """Write a ULEB128; return where it ends."""
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        at += 1
        value >>= 7
    out[at] = value
    return at + 1


def _zigzag(out, at, old, new):
    """Write the difference from `old` to `new`; return where it ends."""
    if new >= old:
        return _uleb(out, at, (new - old) << 1)
    return _uleb(out, at, (old - new) << 1 | 1)
