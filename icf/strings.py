"""Hashes of names in bulk, to look many up in tables of hundreds of thousands without decoding those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from icf._strings import hash_references, text_bytes
from icf.columns import U32, U64
from icf.contents import Contents, string_at
from icf.string_kinds import IN_STR, STRING_KIND

_GAP_BYTES = 1 << 15  # between strings that are read together
_RUN_BYTES = 1 << 20
_TAIL_BYTES = 256  # of the last of them
_SHARED_FACTOR = 16  # see `share_too_much`
_STR = np.uint64(IN_STR << STRING_KIND)  # the kind of a reference into the table that is passed second


def hash_names(names: Sequence[str], *, of_kin: bool = False) -> U64:
    """Return the hash of each name, or of its kin (see `icf.aliases`)."""
    encoded = [name.encode("utf-8", "surrogateescape") + b"\0" for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.uint64)
    starts = np.concatenate([np.zeros(1, np.uint64), ends[:-1]]) if len(names) else ends
    return hash_table(memoryview(b"".join(encoded)), starts, of_kin=of_kin)


def string_parts(contents: Contents, offsets: U64) -> Iterator[tuple[slice, bytes | memoryview, U64]]:
    """Yield parts of ascending offsets, bytes that hold the strings there, and where in these each begins.

    Strings that are close are read together. A string after which the section ends, or that is not in it, ends with
    the bytes.
    """
    whole = contents.in_memory
    if whole is not None:
        yield slice(0, len(offsets)), whole, offsets
        return
    inside = int(np.searchsorted(offsets, len(contents)))
    cuts = np.flatnonzero((np.diff(offsets[:inside]) > _GAP_BYTES) | (np.diff(offsets[:inside] // _RUN_BYTES) != 0)) + 1
    edges = [0, *cuts.tolist(), inside] if inside else [0]
    begin, size_bytes = 0, 0
    pieces: list[memoryview] = []
    moved: list[int] = []
    for first, last in pairwise(edges):
        low = int(offsets[first])
        moved += [size_bytes - low] * (last - first)
        pieces.append(_to_nul(contents, low, int(offsets[last - 1])))
        size_bytes += len(pieces[-1])
        if size_bytes >= _RUN_BYTES or last == inside:
            starts = offsets[begin:last] + np.array(moved, np.int64).view(np.uint64)
            yield slice(begin, last), b"".join(pieces), starts
            begin, size_bytes, pieces, moved = last, 0, [], []
    if inside < len(offsets):
        yield slice(inside, len(offsets)), b"", offsets[inside:]


def texts(buffer: bytes | memoryview, starts: U64 | U32) -> list[bytes]:
    """Return the strings that begin there; empty where no NUL follows."""
    if not isinstance(buffer, bytes):
        return [string_at(buffer, start) or b"" for start in starts.tolist()]
    closed = buffer if buffer.endswith(b"\0") else buffer[: buffer.rfind(b"\0") + 1]
    find = closed.find
    return [closed[start : find(0, start)] for start in starts.tolist()]


def _to_nul(contents: Contents, low: int, high: int) -> memoryview:
    """Return the bytes from `low` to the end of the string at `high` or further."""
    more_bytes = _TAIL_BYTES
    while True:
        found = contents[low : high + more_bytes]
        if high + more_bytes >= len(contents) or bytes(found[high - low :]).find(0) >= 0:
            return found
        more_bytes *= 4


def hash_table(table: bytes | memoryview, offsets: U64 | U32, *, of_kin: bool = False) -> U64:
    """Return the hash of each string of a string table, or of its kin (see `icf.aliases`)."""
    references = np.ascontiguousarray(offsets, np.uint64) | _STR
    hashes = np.empty(len(references), np.uint64)
    hash_references(b"", table, b"", references.data, of_kin, hashes.data)
    return hashes


def share_too_much(table: bytes | memoryview | Contents, offsets: U64 | U32, entry_bytes: int) -> bool:
    """Return whether strings of a table are so long together that to read them all would take too long.

    Compilers and linkers write each string once, and a few as the ends of others. To read many strings that are one
    long one, or end like it, would take as long as the square of the size. So they may have 16 times the bytes of the
    table and of the entries that have the offsets. In the images of a Linux system they have less than those bytes.

    Args:
        table: the strings, each up to a NUL or to the end of the table.
        offsets: where strings begin, one for each entry.
        entry_bytes: the size of an entry. Thousands of symbols may share a short name: `$x` in code for AArch64.
    """
    limit = _SHARED_FACTOR * (len(table) + len(offsets) * entry_bytes)
    if len(offsets) * len(table) <= limit:
        return False
    contents = table if isinstance(table, Contents) else Contents(memoryview(table))
    asked = np.ascontiguousarray(offsets, np.uint64)
    size_bytes = 0
    for _, part, starts in string_parts(contents, asked if contents.in_memory is not None else np.sort(asked)):
        size_bytes += text_bytes(part, starts.data, limit - size_bytes)
        if size_bytes > limit:
            return True
    return False
