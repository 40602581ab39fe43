"""The sections of a symcache: the payloads of each body, one after the other, and the columns that find them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U32, U64, Mask
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.encoded import Encoded
from unwind.symcache.builder.names import Names
from unwind.symcache.format.records import ALL_KNOWN, META, REST, SIZED, put_uleb


class Members(NamedTuple):
    """One row for each member, by body; names are numbers."""

    first: list[int]  # of each body its first row; after the last the number of rows
    name: list[int]
    flags: list[int]
    aliases: dict[int, list[int]]  # by row


def number_members(claims: Claims, names: Names, body_count: int) -> Members:
    """Return the members of all bodies, with the numbers of their names."""
    first = np.searchsorted(claims.body, np.arange(body_count + 1)).tolist()
    numbers = names.number(claims.name).tolist()
    texts = [text for row in claims.aliases for text in claims.aliases[row]]
    found = iter(names.number(np.array(texts, np.uint64)).tolist())
    aliases = {row: [next(found) for _ in of_row] for row, of_row in claims.aliases.items()}
    return Members(first, numbers, claims.flags.tolist(), aliases)


class _Entry(NamedTuple):
    start: int
    size_bytes: int
    body: int
    is_first: bool


def _entries(bodies: Bodies) -> list[_Entry]:
    """Return the bodies cut where others lie in them; the innermost has an address."""
    starts, ends = bodies.start.tolist(), bodies.end.tolist()
    entries: list[_Entry] = []
    around: list[int] = []  # bodies that go on after the one at hand
    seen: set[int] = set()

    def put(start: int, end: int, body: int) -> None:
        if start < end:
            entries.append(_Entry(start, end - start, body, body not in seen))
            seen.add(body)

    at = 0
    for body, start in enumerate(starts):
        while around and at < start:
            inner = around[-1]
            put(at, min(ends[inner], start), inner)
            at = max(at, min(ends[inner], start))
            if ends[inner] <= at:
                around.pop()
            elif at >= start:
                break
        at = start
        while around and ends[around[-1]] <= start:
            around.pop()
        around.append(body)
    while around:
        inner = around.pop()
        put(at, ends[inner], inner)
        at = max(at, ends[inner])
    return entries


def make_sections(
    bodies: Bodies, is_complete: Mask, members: Members, encoded: Encoded, names: Names, nowhere: list[int]
) -> dict[str, bytes | bytearray]:
    """Return the sections that `SymCache` reads; `nowhere` are addresses known to be in no function.

    `is_complete`: the bodies whose members are all known.
    """
    entries = sorted(_entries(bodies) + [_Entry(vaddr, 1, -1, False) for vaddr in nowhere])
    base = entries[0].start if entries else 0
    is_wide = bool(entries) and max(entry.start + entry.size_bytes for entry in entries) - base >= 1 << 32
    width: type[np.unsignedinteger] = np.uint64 if is_wide else np.uint32
    complete: list[bool] = is_complete.tolist()
    records = bytearray()
    infos = [0]
    entry_of: dict[int, int] = {}
    first_claim, numbers, flags, aliases_of = members
    for number, (_, size_bytes, body, is_first) in enumerate(entries):
        if body < 0:  # known to be in no function
            put_uleb(records, 0)
            infos.append(len(records))
            continue
        if not is_first:
            put_uleb(records, REST)
            put_uleb(records, number - entry_of[body])
            infos.append(len(records))
            continue
        entry_of[body] = number
        first, last = first_claim[body], first_claim[body + 1]
        whole_bytes = int(bodies.end[body]) - int(bodies.start[body])
        is_cut = whole_bytes != size_bytes
        put_uleb(records, (last - first) << 3 | (SIZED if is_cut else 0) | (ALL_KNOWN if complete[body] else 0))
        if is_cut:
            put_uleb(records, whole_bytes)
        for claim in range(first, last):
            put_uleb(records, numbers[claim])
            aliases = aliases_of.get(claim, [])
            put_uleb(records, flags[claim] << 1 | (1 if aliases else 0))
            if aliases:
                put_uleb(records, len(aliases))
            for alias in aliases:
                put_uleb(records, alias)
            payload = encoded.take(claim)
            if claim != last - 1:
                put_uleb(records, len(payload))
            records += payload
        infos.append(len(records))
    hashes, holders = _by_hash(names, _symbols(members, entry_of))
    del entry_of, members, numbers, flags
    files = _Files(encoded.files)
    blocks, block_starts = names.blocks()
    counts = width().itemsize, len(entries), names.count, len(encoded.files), encoded.column_bytes
    meta = META.pack(base, *counts, 0, 0, 0)
    return {
        "meta": meta,
        "starts": np.array([entry.start - base for entry in entries], width).tobytes(),
        "sizes": np.array([entry.size_bytes for entry in entries], width).tobytes(),
        "infos": np.array(infos, np.uint32).tobytes(),
        "records": records,
        "names": blocks,
        "nameoff": block_starts.astype(np.uint32).tobytes(),
        "hashes": hashes.tobytes(),
        "nameidx": holders.tobytes(),
        "files": files.text,
        "fileoff": files.offsets,
    }


def _symbols(members: Members, entry_of: dict[int, int]) -> U64:
    """Return the names of all members and their aliases, as name << 32 | entry; `entry_of` is by body."""
    entry = np.full(len(members.first) - 1, -1, np.int64)
    entry[np.fromiter(entry_of, np.int64)] = np.fromiter(entry_of.values(), np.int64)
    own = np.repeat(entry, np.diff(members.first))
    aliases = np.array([(name, row) for row in members.aliases for name in members.aliases[row]], np.int64)
    alias, row = aliases.reshape(-1, 2).T
    names, entries = np.append(np.array(members.name, np.int64), alias), np.append(own, own[row])
    is_named = (names != 0) & (entries >= 0)
    found: U64 = (names[is_named] << 32 | entries[is_named]).astype(np.uint64)
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
