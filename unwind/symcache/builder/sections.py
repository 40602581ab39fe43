"""The sections of a symcache: the payloads of each body, one after the other, and the columns that find them."""

from __future__ import annotations

from mmap import mmap
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U8, U32, U64, Mask
from icf.errors import IcfError
from unwind.symcache.builder._records import cut_bodies, put_records
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.encoded import NOWHERE, Encoded
from unwind.symcache.builder.names import Names
from unwind.symcache.format.container import SectionBytes
from unwind.symcache.format.records import ALL_KNOWN, META, REST, SIZED

_NUMBERS_BYTES = 24  # of a record for each entry and for each name: LEB128 of 32 bits, and of one address


class Members(NamedTuple):
    """One row for each member, by body; names are numbers."""

    first: I64  # of each body its first row; after the last the number of rows
    name: U32
    flags: U32
    first_alias: I64  # of each member its first row of `alias`; after the last the number of rows
    alias: U32


def number_members(claims: Claims, names: Names, body_count: int) -> Members:
    """Return the members of all bodies, with the numbers of their names."""
    first = np.searchsorted(claims.body, np.arange(body_count + 1))
    numbers = names.number(claims.name)
    rows = sorted(claims.aliases)
    aliases = names.number(np.array([text for row in rows for text in claims.aliases[row]], np.uint64))
    counts = np.zeros(len(numbers), np.int64)
    counts[rows] = [len(claims.aliases[row]) for row in rows]
    return Members(first, numbers, claims.flags, np.append(0, np.cumsum(counts)), aliases)


class _Entries(NamedTuple):
    """By start; none overlaps another."""

    start: U64
    size_bytes: U64
    body: I64  # -1: known to be in no function
    owner: I64  # the first entry of the body


def _entries(bodies: Bodies, nowhere: list[int]) -> _Entries:
    """Return the bodies cut where others lie in them."""
    count = len(bodies.start)
    found = np.empty((3, 2 * count), np.uint64)
    found = found[:, : cut_bodies(bodies.start.data, bodies.end.data, np.empty(count, np.uint64).data, found.data)]
    alone = np.array(nowhere, np.uint64)
    start, end = np.append(found[0], alone), np.append(found[1], alone + np.uint64(1))
    body = np.append(found[2].astype(np.int64), np.full(len(alone), -1))
    order = np.argsort(start, kind="stable")
    start, end, body = start[order], end[order], body[order]
    _, first, of = np.unique(body, return_index=True, return_inverse=True)
    return _Entries(start, end - start, body, first[of.reshape(-1)])


class _Records(NamedTuple):
    """The record of each entry, one after the other."""

    data: U8
    end: U64


def _put(bodies: Bodies, is_complete: Mask, members: Members, encoded: Encoded, entries: _Entries) -> _Records:
    """Return the records; the payloads are moved there."""
    count = len(entries.start)
    is_first = (entries.owner == np.arange(count)) & (entries.body >= 0)
    own, rest = np.flatnonzero(is_first), np.flatnonzero((entries.body >= 0) & ~is_first)
    of = entries.body[own]
    head, second, first, last = np.zeros((4, count), np.uint64)  # no members: known to be in no function
    first[own], last[own] = members.first[of], members.first[of + 1]
    whole_bytes = bodies.end[of] - bodies.start[of]
    is_cut = whole_bytes != entries.size_bytes[own]
    head[own] = (last - first)[own] << np.uint64(3) | np.where(is_cut, SIZED, 0).astype(np.uint64)
    head[own] |= np.where(is_complete[of], ALL_KNOWN, 0).astype(np.uint64)
    second[own] = np.where(is_cut, whole_bytes, np.uint64(0))
    head[rest], second[rest] = REST, rest - entries.owner[rest]

    limit_bytes = _NUMBERS_BYTES * (count + len(members.name) + len(members.alias)) + int(encoded.sizes.sum())
    room = np.frombuffer(mmap(-1, max(limit_bytes, 1)), np.uint8)  # what is not written takes no memory
    end, places = np.zeros(count, np.uint64), np.full(len(members.name), NOWHERE, np.uint64)
    first_alias = members.first_alias.astype(np.uint64)
    size_bytes = put_records(
        head.data, second.data, first.data, last.data,
        members.name.data, members.flags.data, first_alias.data, members.alias.data, encoded.sizes.data,
        room.data, end.data, places.data,
    )  # fmt: skip
    if size_bytes >= 1 << 32:
        raise IcfError("a symcache holds 4 GiB of records, the image needs more")
    encoded.move(places, room)
    return _Records(room[:size_bytes], end)


def make_sections(
    bodies: Bodies, is_complete: Mask, members: Members, encoded: Encoded, names: Names, nowhere: list[int]
) -> dict[str, SectionBytes]:
    """Return the sections that `SymCache` reads; `nowhere` are addresses known to be in no function.

    `is_complete`: the bodies whose members are all known. Raises IcfError if the records have 4 GiB.
    """
    entries = _entries(bodies, nowhere)
    base = int(entries.start[0]) if len(entries.start) else 0
    is_wide = len(entries.start) > 0 and int(entries.start[-1]) + int(entries.size_bytes[-1]) - base >= 1 << 32
    width: type[np.unsignedinteger] = np.uint64 if is_wide else np.uint32
    records = _put(bodies, is_complete, members, encoded, entries)
    hashes, holders = _by_hash(names, _symbols(members, entries))
    files = _Files(encoded.files)
    blocks, block_starts = names.blocks()
    counts = width().itemsize, len(entries.start), names.count, len(encoded.files), encoded.column_bytes
    meta = META.pack(base, *counts, 0, 0, 0)
    return {
        "meta": meta,
        "starts": (entries.start - np.uint64(base)).astype(width).tobytes(),
        "sizes": entries.size_bytes.astype(width).tobytes(),
        "infos": np.append(np.uint32(0), records.end.astype(np.uint32)).tobytes(),
        "records": records.data.data.toreadonly(),
        "names": blocks,
        "nameoff": block_starts.astype(np.uint32).tobytes(),
        "hashes": hashes.tobytes(),
        "nameidx": holders.tobytes(),
        "files": files.text,
        "fileoff": files.offsets,
    }


def _symbols(members: Members, entries: _Entries) -> U64:
    """Return the names of all members and their aliases, as name << 32 | entry."""
    entry_of, is_of_body = np.full(len(members.first) - 1, -1), entries.body >= 0
    entry_of[entries.body[is_of_body]] = entries.owner[is_of_body]
    own = np.repeat(entry_of, np.diff(members.first))
    member = np.repeat(np.arange(len(members.name)), np.diff(members.first_alias))
    names, entry = np.append(members.name, members.alias).astype(np.int64), np.append(own, own[member])
    is_named = (names != 0) & (entry >= 0)
    found: U64 = (names[is_named] << 32 | entry[is_named]).astype(np.uint64)
    return found


def _by_hash(names: Names, symbols: U64) -> tuple[U32, U32]:
    """Return the CRC-32 of each name and the entry that it belongs to, ascending; `symbols` are name << 32 | entry."""
    symbols = np.unique(symbols)
    checksums = names.checksums()[(symbols >> np.uint64(32)).astype(np.intp)]
    found = np.sort(checksums.astype(np.uint64) << np.uint64(32) | symbols & np.uint64(0xFFFFFFFF))
    return (found >> np.uint64(32)).astype(np.uint32), found.astype(np.uint32)


class _Files:
    """Paths as directory and base, each string once."""

    def __init__(self, paths: list[str]) -> None:
        offset_of: dict[str, int] = {}
        text = bytearray()
        offsets = []
        for path in paths:
            cut = path.rfind("/") + 1
            for part in (path[:cut], path[cut:]):
                if part not in offset_of:
                    offset_of[part] = len(text)
                    text += part.encode("utf-8", "surrogateescape") + b"\0"
                offsets.append(offset_of[part])
        self.text = bytes(text)
        self.offsets = np.array(offsets, np.uint32).tobytes()
