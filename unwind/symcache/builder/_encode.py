# cython: language_level=3, boundscheck=True, wraparound=False
"""Writes the streams of a symcache's records; `unwind.symcache.format.records` describes them.

It works on all functions of one unit, does not call back into Python, and keeps all it needs in arrays that the caller
made. `payload_columns` names the columns of these.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import put_uleb
    from cython.cimports.icf._types import u64
    from cython.cimports.unwind.symcache.builder import payload_columns as col
    from cython.cimports.unwind.symcache.format.records import DEPTH_LIMIT, SELF
else:
    from icf._bytes import put_uleb
    from icf._types import u64
    from unwind.symcache.builder import payload_columns as col
    from unwind.symcache.format.records import DEPTH_LIMIT, SELF


@cython.ccall
def encode(
    pieces: cython.const[u64][:, ::1],
    range_low: cython.const[u64][::1],
    range_high: cython.const[u64][::1],
    range_node: cython.const[cython.uint][::1],
    node_up: cython.const[cython.uint][::1],
    node_name: cython.const[cython.uint][::1],
    node_file: cython.const[cython.uint][::1],
    node_line: cython.const[cython.uint][::1],
    node_column: cython.const[cython.uint][::1],
    address: cython.const[u64][::1],
    file_idx: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    column: cython.const[cython.uint][::1],
    file_map: cython.const[cython.uint][::1],
    segments: u64[:, ::1],
    scratch: cython.uint[:, ::1],
    out: cython.uchar[::1],
    ends: u64[:, ::1],
) -> cython.size_t:
    """Write the payload of each of `pieces` to `out`, and fill `ends`; return how many bytes that are.

    pieces      u64[n, PIECE_WIDTH]
    range_*     ranges of inlined calls: low, high, node (from the first of the piece); a piece's by low, then node
    node_*      columns of nodes: what `icf.dwarf.inlines.Nodes` has; `node_name` instead of the origin
    address...  columns of line rows, those of a piece one sequence, the last its end
    file_map    what a file number of the unit is in the cache
    segments    u64[2, s] scratch, two more than a piece has ranges, twice
    scratch     u32[SCRATCH_HEIGHT, t], one more than a piece has nodes or ranges
    out         40 bytes for each range (twice), row and node, and 64 for a piece, are always enough
    ends        u64[n, 2]
    """
    count: cython.size_t = pieces.shape[0]
    at: cython.size_t = 0
    piece: cython.size_t = 0
    begin: cython.size_t
    segment_count: cython.size_t
    found: cython.size_t
    row: cython.size_t
    with cython.nogil:
        while piece < count:
            begin = at
            segment_count = paint(pieces, piece, range_low, range_high, range_node, segments, scratch)
            found = number_nodes(pieces, piece, node_up, segments, segment_count, scratch)
            row = first_row(pieces, piece, address)
            at = put_nodes(
                pieces, piece, node_up, node_name, node_file, node_line, file_map, found, scratch, out, begin
            )
            at = put_rows(
                pieces, piece, address, file_idx, line, file_map, row, segments, segment_count, found, scratch, out, at
            )
            ends[piece, col.COLUMNS_START] = at
            at = put_columns(pieces, piece, node_column, address, column, row, found, scratch, out, at)
            if is_too_deep(found, scratch):
                at = begin
                ends[piece, col.COLUMNS_START] = at
            ends[piece, col.PAYLOAD_END] = at
            piece += 1
    return at


@cython.cfunc
@cython.nogil
def paint(
    pieces: cython.const[u64][:, ::1],
    piece: cython.size_t,
    range_low: cython.const[u64][::1],
    range_high: cython.const[u64][::1],
    range_node: cython.const[cython.uint][::1],
    segments: u64[:, ::1],
    scratch: cython.uint[:, ::1],
) -> cython.size_t:
    """Find which node has each address: segments, ascending; return the number of them.

    Of the ranges over an address the one with the highest node wins. A heap has the ranges that have begun, the highest
    node on top; one that has ended leaves it when it comes to the top.
    """
    first: cython.size_t = pieces[piece, col.FIRST_RANGE]
    last: cython.size_t = pieces[piece, col.LAST_RANGE]
    end: u64 = pieces[piece, col.END]
    now: u64 = pieces[piece, col.START]
    count: cython.size_t = 0
    size: cython.size_t = 0
    current: u64 = 0
    i: cython.size_t = first
    at: cython.size_t
    child: cython.size_t
    moved: cython.size_t
    node: u64
    following: u64
    while now < end:
        while i < last and range_low[i] <= now:
            if range_high[i] > now:
                at = size
                size += 1
                while at > 0 and range_node[scratch[col.STACK, (at - 1) >> 1] + first] < range_node[i]:
                    scratch[col.STACK, at] = scratch[col.STACK, (at - 1) >> 1]
                    at = (at - 1) >> 1
                scratch[col.STACK, at] = i - first
            i += 1
        while size > 0 and range_high[scratch[col.STACK, 0] + first] <= now:
            size -= 1
            moved = scratch[col.STACK, size]
            at = 0
            while 2 * at + 1 < size:
                child = 2 * at + 1
                if (
                    child + 1 < size
                    and range_node[scratch[col.STACK, child + 1] + first]
                    > range_node[scratch[col.STACK, child] + first]
                ):
                    child += 1
                if range_node[scratch[col.STACK, child] + first] <= range_node[moved + first]:
                    break
                scratch[col.STACK, at] = scratch[col.STACK, child]
                at = child
            scratch[col.STACK, at] = moved
        node = 0
        following = end
        if size > 0:
            node = range_node[scratch[col.STACK, 0] + first] + 1
            if range_high[scratch[col.STACK, 0] + first] < following:
                following = range_high[scratch[col.STACK, 0] + first]
        if i < last and range_low[i] < following:
            following = range_low[i]
        if node != current:
            segments[col.SEGMENT_START, count] = now
            segments[col.SEGMENT_NODE, count] = node
            count += 1
            current = node
        now = following
    return count


@cython.cfunc
@cython.nogil
def number_nodes(
    pieces: cython.const[u64][:, ::1],
    piece: cython.size_t,
    node_up: cython.const[cython.uint][::1],
    segments: u64[:, ::1],
    segment_count: cython.size_t,
    scratch: cython.uint[:, ::1],
) -> cython.size_t:
    """Number the nodes that have code in the order in which it meets them, parents first; return how many these are."""
    base: cython.size_t = pieces[piece, col.FIRST_NODE]
    end: cython.size_t = pieces[piece, col.LAST_NODE]
    found: cython.size_t = 0
    segment: cython.size_t = 0
    node: cython.size_t = base
    depth: cython.size_t
    up: cython.size_t
    while node < end:
        scratch[col.NUMBER, node - base] = 0
        node += 1
    while segment < segment_count:
        node = segments[col.SEGMENT_NODE, segment]
        if node != 0 and scratch[col.NUMBER, node - 1] == 0:
            depth = 0
            while scratch[col.NUMBER, node - 1] == 0:  # outermost last
                scratch[col.STACK, depth] = node
                depth += 1
                up = node_up[base + node - 1]
                if up == 0 or up >= node:
                    break
                node -= up
            while depth > 0:
                depth -= 1
                found += 1
                node = scratch[col.STACK, depth] - 1
                up = node_up[base + node]
                scratch[col.NUMBER, node] = found
                scratch[col.NODE, found] = node
                scratch[col.PARENT, found] = scratch[col.NUMBER, node - up] if up != 0 and up <= node else 0
        segment += 1
    return found


@cython.cfunc
@cython.nogil
def first_row(
    pieces: cython.const[u64][:, ::1], piece: cython.size_t, address: cython.const[u64][::1]
) -> cython.size_t:
    """Return the first row of a piece that is above its start, one beyond its rows if there is none."""
    start: u64 = pieces[piece, col.START]
    row: cython.size_t = pieces[piece, col.FIRST_ROW]
    last: cython.size_t = pieces[piece, col.LAST_ROW]
    middle: cython.size_t
    while row < last:
        middle = (row + last) >> 1
        if address[middle] <= start:
            row = middle + 1
        else:
            last = middle
    return row


@cython.cfunc
@cython.nogil
def put_nodes(
    pieces: cython.const[u64][:, ::1],
    piece: cython.size_t,
    node_up: cython.const[cython.uint][::1],
    node_name: cython.const[cython.uint][::1],
    node_file: cython.const[cython.uint][::1],
    node_line: cython.const[cython.uint][::1],
    file_map: cython.const[cython.uint][::1],
    found: cython.size_t,
    scratch: cython.uint[:, ::1],
    out: cython.uchar[::1],
    at: cython.size_t,
) -> cython.size_t:
    """Write the nodes and find their depths; return where they end."""
    base: cython.size_t = pieces[piece, col.FIRST_NODE]
    i: cython.size_t = 1
    node: cython.size_t
    parent: cython.size_t
    at = put_uleb(out, at, found)
    scratch[col.DEPTH, 0] = 0
    while i <= found:
        node = base + scratch[col.NODE, i]
        parent = scratch[col.PARENT, i]
        scratch[col.DEPTH, i] = scratch[col.DEPTH, parent] + 1
        at = put_uleb(out, at, i - parent)
        at = put_uleb(out, at, node_name[node])
        at = put_uleb(out, at, file_map[node_file[node]] if node_file[node] < file_map.shape[0] else 0)
        at = put_uleb(out, at, node_line[node])
        i += 1
    return at


@cython.cfunc
@cython.nogil
def is_too_deep(found: cython.size_t, scratch: cython.uint[:, ::1]) -> cython.bint:
    """Tell whether a node lies deeper than a reader goes."""
    i: cython.size_t = 1
    while i <= found:
        if scratch[col.DEPTH, i] > DEPTH_LIMIT:
            return True
        i += 1
    return False


@cython.cfunc
@cython.nogil
def put_rows(
    pieces: cython.const[u64][:, ::1],
    piece: cython.size_t,
    address: cython.const[u64][::1],
    file_idx: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    file_map: cython.const[cython.uint][::1],
    row: cython.size_t,
    segments: u64[:, ::1],
    segment_count: cython.size_t,
    found: cython.size_t,
    scratch: cython.uint[:, ::1],
    out: cython.uchar[::1],
    at: cython.size_t,
) -> cython.size_t:
    """Write the rows, from the first one above the start of the piece on, and the 0 that ends them; return the end."""
    first: cython.size_t = pieces[piece, col.FIRST_ROW]
    last: cython.size_t = pieces[piece, col.LAST_ROW]
    end: u64 = pieces[piece, col.END]
    now: u64 = pieces[piece, col.START]
    written: u64 = now
    segment: cython.size_t = 0
    node: cython.size_t
    file: u64
    number: u64
    old_node: cython.size_t = 0
    old_file: u64 = SELF
    old_line: u64 = SELF
    seen: cython.size_t = 0
    head: u64
    i: cython.size_t = 0
    while i <= found:
        scratch[col.LAST_FILE, i] = SELF
        i += 1
    while now < end:
        while row < last and address[row] <= now:
            row += 1
        while segment < segment_count and segments[col.SEGMENT_START, segment] <= now:
            segment += 1
        node = 0
        if segment > 0 and segments[col.SEGMENT_NODE, segment - 1] != 0:
            node = scratch[col.NUMBER, segments[col.SEGMENT_NODE, segment - 1] - 1]
        file = 0
        number = 0
        if row > first and row < last:
            file = file_map[file_idx[row - 1]] if file_idx[row - 1] < file_map.shape[0] else 0
            number = line[row - 1]
        if node != old_node or file != old_file or number != old_line:
            head = (now - written) << 2
            written = now
            if node != old_node:
                head |= 1
            if file != scratch[col.LAST_FILE, node]:
                head |= 2
            at = put_uleb(out, at, head)
            if node > seen:
                at = put_uleb(out, at, (node - seen - 1) << 1 | 1)
                seen = node
            elif node != old_node:
                at = put_way(out, at, old_node, node, scratch)
            if file != scratch[col.LAST_FILE, node]:
                at = put_uleb(out, at, file)
                at = put_uleb(out, at, number)
            else:
                at = put_zigzag(out, at, scratch[col.LAST_LINE, node], number)
            scratch[col.LAST_FILE, node] = file
            scratch[col.LAST_LINE, node] = number
            old_node = node
            old_file = file
            old_line = number
        now = end
        if row < last and address[row] < now:
            now = address[row]
        if segment < segment_count and segments[col.SEGMENT_START, segment] < now:
            now = segments[col.SEGMENT_START, segment]
    out[at] = 0
    return at + 1


@cython.cfunc
@cython.nogil
@cython.inline
def put_way(
    out: cython.uchar[::1],
    at: cython.size_t,
    old: cython.size_t,
    new: cython.size_t,
    scratch: cython.uint[:, ::1],
) -> cython.size_t:
    """Write the way from a node to one that was met before: up by some steps, or its number; return where it ends."""
    steps: cython.size_t = 0
    node: cython.size_t = old
    while node != new and node != 0:
        node = scratch[col.PARENT, node]
        steps += 1
    if node == new:
        return put_uleb(out, at, steps << 1)
    at = put_uleb(out, at, 0)
    return put_uleb(out, at, new)


@cython.cfunc
@cython.nogil
@cython.inline
def put_zigzag(out: cython.uchar[::1], at: cython.size_t, old: u64, new: u64) -> cython.size_t:
    """Write the difference between two lines; return where it ends."""
    if new >= old:
        return put_uleb(out, at, (new - old) << 1)
    return put_uleb(out, at, (old - new) << 1 | 1)


@cython.cfunc
@cython.nogil
def put_columns(
    pieces: cython.const[u64][:, ::1],
    piece: cython.size_t,
    node_column: cython.const[cython.uint][::1],
    address: cython.const[u64][::1],
    column: cython.const[cython.uint][::1],
    row: cython.size_t,
    found: cython.size_t,
    scratch: cython.uint[:, ::1],
    out: cython.uchar[::1],
    at: cython.size_t,
) -> cython.size_t:
    """Write the columns of calls and rows; return where they end."""
    base: cython.size_t = pieces[piece, col.FIRST_NODE]
    first: cython.size_t = pieces[piece, col.FIRST_ROW]
    last: cython.size_t = pieces[piece, col.LAST_ROW]
    end: u64 = pieces[piece, col.END]
    now: u64 = pieces[piece, col.START]
    written: u64 = now
    number: u64
    old: u64 = 0
    i: cython.size_t = 1
    while i <= found:
        at = put_uleb(out, at, node_column[base + scratch[col.NODE, i]])
        i += 1
    while now < end:
        while row < last and address[row] <= now:
            row += 1
        number = 0
        if row > first and row < last:
            number = column[row - 1]
        if number != old:
            at = put_uleb(out, at, now - written)
            at = put_uleb(out, at, number)
            written = now
            old = number
        now = end
        if row < last and address[row] < now:
            now = address[row]
    return at
