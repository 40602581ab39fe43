# cython: language_level=3, boundscheck=True, wraparound=False
"""Writes the records of a symcache, one for each entry; `unwind.symcache.format.records` describes them.

All that the records are made of comes in columns, and none of it grows: the caller makes room for the longest numbers.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import put_uleb
    from cython.cimports.icf._types import u64
else:
    from icf._bytes import put_uleb
    from icf._types import u64

LAST = cython.declare(u64, 0xFFFFFFFFFFFFFFFF)  # address; as the place of a payload: it has no record


@cython.ccall
def cut_bodies(
    start: cython.const[u64][::1], end: cython.const[u64][::1], around: u64[::1], found: u64[:, ::1]
) -> cython.size_t:
    """Cut bodies, ascending, where others lie in them: the innermost has an address. Return the number of entries.

    start, end  u64[n], of each body
    around      u64[n] scratch: the bodies that go on after the one at hand, the innermost last
    found       u64[3, 2 * n]: start, end and body of each entry, ascending
    """
    count: cython.size_t = start.shape[0]
    body: cython.size_t = 0
    depth: cython.size_t = 0
    entry: cython.size_t = 0
    inner: cython.size_t = 0
    at: u64 = 0
    following: u64
    with cython.nogil:
        while body <= count:
            following = start[body] if body < count else LAST
            while depth > 0 and at < following:
                inner = around[depth - 1]
                if at < end[inner]:
                    found[0, entry] = at
                    at = end[inner] if end[inner] < following else following
                    found[1, entry] = at
                    found[2, entry] = inner
                    entry += 1
                if end[inner] <= at:
                    depth -= 1
            at = following
            if body < count:
                around[depth] = body
                depth += 1
            body += 1
    return entry


@cython.ccall
def put_records(
    head: cython.const[u64][::1],
    second: cython.const[u64][::1],
    first: cython.const[u64][::1],
    last: cython.const[u64][::1],
    name: cython.const[cython.uint][::1],
    flags: cython.const[cython.uint][::1],
    first_alias: cython.const[u64][::1],
    alias: cython.const[cython.uint][::1],
    payload_bytes: cython.const[u64][::1],
    out: cython.uchar[::1],
    ends: u64[::1],
    places: u64[::1],
) -> cython.size_t:
    """Write all records but the payloads, for which room is left; return how many bytes these are.

    head, second    u64[n], the first numbers of each entry; a `second` of 0 is left out
    first, last     u64[n], its members, rows of the next columns
    name, flags     u32[m]
    first_alias     u64[m + 1], rows of `alias`
    payload_bytes   u64[m]
    out             20 bytes for each entry, 20 for each member, 5 for each alias, and the payloads, are always enough
    ends            u64[n], where each record ends
    places          u64[m], where each payload begins; what is there stays if no entry has the member
    """
    count: cython.size_t = head.shape[0]
    entry: cython.size_t = 0
    at: cython.size_t = 0
    member: cython.size_t
    end: cython.size_t
    row: cython.size_t
    end_row: cython.size_t
    mark: u64
    with cython.nogil:
        while entry < count:
            at = put_uleb(out, at, head[entry])
            if second[entry] != 0:
                at = put_uleb(out, at, second[entry])
            member = first[entry]
            end = last[entry]
            while member < end:
                row = first_alias[member]
                end_row = first_alias[member + 1]
                mark = flags[member]
                at = put_uleb(out, at, name[member])
                at = put_uleb(out, at, mark << 1 | (row < end_row))
                if row < end_row:
                    at = put_uleb(out, at, end_row - row)
                    while row < end_row:
                        at = put_uleb(out, at, alias[row])
                        row += 1
                if member + 1 < end:
                    at = put_uleb(out, at, payload_bytes[member])
                places[member] = at
                at += payload_bytes[member]
                member += 1
            ends[entry] = at
            entry += 1
    return at


@cython.ccall
def put_payloads(
    payloads: cython.const[cython.uchar][::1],
    sizes: cython.const[u64][::1],
    places: cython.const[u64][::1],
    out: cython.uchar[::1],
) -> cython.size_t:
    """Copy payloads, which lie one after the other, each to its place; return how many bytes that were."""
    count: cython.size_t = sizes.shape[0]
    payload: cython.size_t = 0
    at: cython.size_t = 0
    end: cython.size_t
    to: cython.size_t
    with cython.nogil:
        while payload < count:
            end = at + sizes[payload]
            to = places[payload]
            if to == LAST:
                at = end
            while at < end:
                out[to] = payloads[at]
                to += 1
                at += 1
            payload += 1
    return at
