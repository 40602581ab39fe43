"""The sections of a symcache: the payloads of each body, one after the other, and the columns that find them."""

from __future__ import annotations

from array import array
from mmap import mmap
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64, Mask
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.encoded import Encoded
from unwind.symcache.builder.names import Names
from unwind.symcache.format.container import SectionBytes
from unwind.symcache.format.records import ALL_KNOWN, META, REST, SIZED, put_uleb

_NUMBERS_BYTES = 24  # of a record for each entry and for each name: LEB128 of 32 bits, and of one address


class Members(NamedTuple):
    """One row for each member, by body; names are numbers. Python's own numbers would need ten times the memory."""

    first: I64  # of each body its first row; after the last the number of rows
    name: U32
    flags: U32
    aliases: dict[int, list[int]]  # by row


def number_members(claims: Claims, names: Names, body_count: int) -> Members:
    """Return the members of all bodies, with the numbers of their names."""
    first = np.searchsorted(claims.body, np.arange(body_count + 1))
    numbers = names.number(claims.name)
    texts = [text for row in claims.aliases for text in claims.aliases[row]]
    found = iter(names.number(np.array(texts, np.uint64)).tolist())
    aliases = {row: [next(found) for _ in of_row] for row, of_row in claims.aliases.items()}
    return Members(first, numbers, claims.flags, aliases)


class _Entries(NamedTuple):
    """By start; none overlaps another."""

    start: U64
    size_bytes: U64
    body: I64  # -1: known to be in no function
    is_first: Mask  # the first of its body


def _entries(bodies: Bodies, nowhere: list[int]) -> _Entries:
    """Return the bodies cut where others lie in them; the innermost has an address."""
    starts, ends = bodies.start.data, bodies.end.data
    found = array("Q"), array("Q"), array("q")
    around: list[int] = []  # bodies that go on after the one at hand

    def put(start: int, end: int, body: int) -> None:
        if start < end:
            for column, value in zip(found, (start, end - start, body), strict=True):
                column.append(value)

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
    for vaddr in nowhere:
        put(vaddr, vaddr + 1, -1)
    begins, sizes, owners = np.array(found[0], np.uint64), np.array(found[1], np.uint64), np.array(found[2], np.int64)
    order = np.argsort(begins, kind="stable")
    _, first = np.unique(owners[order], return_index=True)
    is_first = np.zeros(len(order), np.bool_)
    is_first[first] = True
    return _Entries(begins[order], sizes[order], owners[order], is_first)


class _Records:
    """Records, one after the other. A bytearray that grows is copied, and both copies take memory."""

    def __init__(self, limit_bytes: int) -> None:
        self._room = memoryview(mmap(-1, max(limit_bytes, 1)))  # what is not written takes no memory
        self.ends = array("I", [0])

    def add(self, record: bytearray) -> None:
        start = self.ends[-1]
        self._room[start : start + len(record)] = record
        self.ends.append(start + len(record))

    def all(self) -> memoryview:
        return self._room[: self.ends[-1]].toreadonly()


def make_sections(
    bodies: Bodies, is_complete: Mask, members: Members, encoded: Encoded, names: Names, nowhere: list[int]
) -> dict[str, SectionBytes]:
    """Return the sections that `SymCache` reads; `nowhere` are addresses known to be in no function.

    `is_complete`: the bodies whose members are all known.
    """
    entries = _entries(bodies, nowhere)
    base = int(entries.start[0]) if len(entries.start) else 0
    is_wide = len(entries.start) > 0 and int(entries.start[-1]) + int(entries.size_bytes[-1]) - base >= 1 << 32
    width: type[np.unsignedinteger] = np.uint64 if is_wide else np.uint32
    entry_of = np.full(len(bodies.start), -1, np.int64)
    rows = np.flatnonzero(entries.is_first & (entries.body >= 0))
    entry_of[entries.body[rows]] = rows
    name_count = len(members.name) + sum(map(len, members.aliases.values()))
    records = _Records(_NUMBERS_BYTES * (len(entries.start) + name_count) + encoded.size_bytes)
    first_claim, numbers, flags = members.first.data, members.name.data, members.flags.data
    columns = entries.size_bytes.data, entries.body.data, entries.is_first.data
    for number, (size_bytes, body, is_first) in enumerate(zip(*columns, strict=True)):
        record = bytearray()
        if body < 0:  # known to be in no function
            put_uleb(record, 0)
            records.add(record)
            continue
        if not is_first:
            put_uleb(record, REST)
            put_uleb(record, number - int(entry_of[body]))
            records.add(record)
            continue
        first, last = first_claim[body], first_claim[body + 1]
        whole_bytes = int(bodies.end[body]) - int(bodies.start[body])
        is_cut = whole_bytes != size_bytes
        put_uleb(record, (last - first) << 3 | (SIZED if is_cut else 0) | (ALL_KNOWN if is_complete[body] else 0))
        if is_cut:
            put_uleb(record, whole_bytes)
        for claim in range(first, last):
            put_uleb(record, numbers[claim])
            aliases = members.aliases.get(claim, [])
            put_uleb(record, flags[claim] << 1 | (1 if aliases else 0))
            if aliases:
                put_uleb(record, len(aliases))
            for alias in aliases:
                put_uleb(record, alias)
            payload = encoded.take(claim)
            if claim != last - 1:
                put_uleb(record, len(payload))
            record += payload
        records.add(record)
    hashes, holders = _by_hash(names, _symbols(members, entry_of))
    files = _Files(encoded.files)
    blocks, block_starts = names.blocks()
    counts = width().itemsize, len(entries.start), names.count, len(encoded.files), encoded.column_bytes
    meta = META.pack(base, *counts, 0, 0, 0)
    return {
        "meta": meta,
        "starts": (entries.start - np.uint64(base)).astype(width).tobytes(),
        "sizes": entries.size_bytes.astype(width).tobytes(),
        "infos": records.ends.tobytes(),
        "records": records.all(),
        "names": blocks,
        "nameoff": block_starts.astype(np.uint32).tobytes(),
        "hashes": hashes.tobytes(),
        "nameidx": holders.tobytes(),
        "files": files.text,
        "fileoff": files.offsets,
    }


def _symbols(members: Members, entry_of: I64) -> U64:
    """Return the names of all members and their aliases, as name << 32 | entry; `entry_of` is by body, -1 for none."""
    own = np.repeat(entry_of, np.diff(members.first))
    aliases = np.array([(name, row) for row in members.aliases for name in members.aliases[row]], np.int64)
    alias, row = aliases.reshape(-1, 2).T
    names, entries = np.append(members.name.astype(np.int64), alias), np.append(own, own[row])
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
