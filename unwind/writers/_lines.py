# cython: language_level=3, boundscheck=True, wraparound=False
"""A tree of names as lines, one for each node that counts: the names from the outermost, then what it counts.

    main;run 12
    main;run;grow 3

A node comes before those inwards of it, which follow in the order of `first` and `following`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.unwind.writers import line_columns as c
else:
    from icf._types import Bytes, u64
    from unwind.writers import line_columns as c


@cython.ccall
def write_lines(
    nodes: cython.const[u64][:, ::1],
    names: Bytes,
    name_ends: cython.const[u64][::1],
    counts: Bytes,
    ends: u64[::1],
    path: cython.uchar[::1],
    out: cython.uchar[::1],
    state: u64[::1],
) -> cython.size_t:
    """Write lines from that of `state[NODE]` on; return how many bytes.

    nodes      u64[m, WIDTH] (`line_columns`)
    name_ends  u64[names + 1]: of name i the bytes of `names` from name_ends[i] to name_ends[i + 1]
    counts     what follows the names on each line: a space, the number, a line feed
    ends       u64[m]: where in `path` each node's name ends, of those that the path has
    state      NODE: moved to the first that is not written, 0 if all are; then PATH_BYTES and OUT_BYTES: how large
               `path`, and `out`, must be for it
    """
    node: u64 = state[c.NODE]
    written: cython.size_t = 0
    room: cython.size_t = out.shape[0]
    start: cython.size_t
    size: cython.size_t
    end: cython.size_t
    name: cython.size_t
    with cython.nogil:
        while node != 0:
            start = ends[nodes[node, c.CALLER]]
            name = nodes[node, c.NAME]
            size = name_ends[name + 1] - name_ends[name]
            end = start + size + (start != 0)
            state[c.PATH_BYTES] = end
            if end > path.shape[0]:
                break
            if start != 0:
                path[start] = c.SEPARATOR
                start += 1
            path[start:end] = names[name_ends[name] : name_ends[name + 1]]
            ends[node] = end
            start = nodes[node, c.COUNT_START]
            size = nodes[node, c.COUNT_END] - start
            if size != 0:
                state[c.OUT_BYTES] = end + size
                if end + size > room - written:
                    break
                out[written : written + end] = path[:end]
                written += end
                out[written : written + size] = counts[start : start + size]
                written += size
            if nodes[node, c.FIRST] != 0:
                node = nodes[node, c.FIRST]
                continue
            while node != 0 and nodes[node, c.FOLLOWING] == 0:
                node = nodes[node, c.CALLER]
            node = nodes[node, c.FOLLOWING]
    state[c.NODE] = node
    return written
