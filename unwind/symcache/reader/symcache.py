"""Look addresses and names up in a symcache; no numpy, no ELF, no DWARF.

    cache = SymCache.open(path)
    found = cache.find(0x401136)                # the body: start, size, members; None: there is no function
    for frame in cache.frames(0x401136):        # innermost inlined call first, the function itself last
        print(frame.linkage_name, frame.file, frame.line)
    cache.addresses("main")                     # where the functions of a linkage name start

Columns are read in place by `memoryview.cast` and `bisect`; `unwind.symcache.format.records` describes the file. Bytes
that break a rule raise a `FormatError` when they are read.
"""

from __future__ import annotations

import os
import zlib
from array import array
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING

from icf.errors import FormatError, IcfError
from unwind.program.frame import Frame, Frames
from unwind.symcache.format.container import COMPLETE, Container, Head, Identity
from unwind.symcache.format.records import ALL_KNOWN, META, SIZED
from unwind.symcache.reader._decode import decode, read_members
from unwind.symcache.reader.columns import FAULT, SPARE
from unwind.symcache.reader.found import CachedMember, Located, Record
from unwind.symcache.reader.strings import STRING_ERRORS, Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal, Self

    from icf.columns import I64, U64
    from icf.model import MemberFlag


_MIN_NODES = 64
_FEW, _KEPT_MEMBERS = 16, 1 << 18
MANY = 1000  # from this many addresses on it pays to check all records at once

_new: Callable[[type[Frame], tuple[str | int, ...]], Frame] = tuple.__new__  # twice as fast as the class


class NotCached(IcfError):
    """Raised by a partial symcache for a question that was not asked when it was made."""


class _Room:
    """Memory that the kernels need."""

    __slots__ = ("nodes", "numbers", "state", "table")

    def __init__(self) -> None:
        self.nodes, self.numbers, self.table = array("I"), array("Q"), array("Q", bytes(512))
        self.state = memoryview(array("Q", bytes(16)))


class SymCache:
    """An open symcache; any number of threads may use it at a time. All addresses are link-time ones.

    Args:
        container: the open file.
    """

    def __init__(self, container: Container) -> None:
        self.container = container
        self.path = container.path
        meta = container.piece("meta", 0, META.size)
        self._base, width, self._count, name_count, file_count, *_ = META.unpack(meta)
        if width not in (4, 8):
            raise self.error("meta", 8, f"addresses of {width} bytes")
        code: Literal["I", "Q"] = "I" if width == 4 else "Q"
        self._starts = self._column("starts", code, self._count)
        self._sizes = self._column("sizes", code, self._count)
        self._infos = self._column("infos", "I", self._count + 1)
        self.strings = Strings(container, name_count, file_count)
        self._idle: list[_Room] = []  # of each that reads, as several threads may do at a time
        self._index: tuple[Any, ...] | None = None
        self._wide: tuple[memoryview, memoryview] | None = None
        self._merged: dict[int, Record] = {}  # by entry: those that take long to read

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a file.

        Args:
            path: the file.

        Returns:
            The symcache; it stays open as long as the object lives.

        Raises:
            FormatError: the file is not a symcache, or its head is damaged.
            OSError: the file cannot be read.
        """
        return cls(Container.open(path))

    @classmethod
    def from_container(cls, container: Container) -> Self:
        """Return the symcache in an open container.

        Args:
            container: the open file.

        Returns:
            The symcache.

        Raises:
            FormatError: its columns do not fit each other.
        """
        return cls(container)

    @property
    def head(self) -> Head:
        return self.container.head

    @property
    def identity(self) -> Identity:
        return self.container.head.identity

    @property
    def is_complete(self) -> bool:
        """Whether it covers all of the image: then the image lacks what it lacks."""
        return bool(self.container.head.flags & COMPLETE)

    def find(self, vaddr: int) -> Located | None:
        """Return the body whose code holds an address.

        Args:
            vaddr: link-time address.

        Returns:
            The body and its members; None if no function has the address.

        Raises:
            NotCached: the symcache is partial and does not cover the address.
            FormatError: the record is damaged.
        """
        entry = self.entry_at(vaddr)
        return self.located(entry) if entry >= 0 else None

    def located(self, entry: int) -> Located | None:
        """Return the body of an entry.

        Args:
            entry: number of the entry, as `locate_many` returns it.

        Returns:
            The body and its members; None: known to be in no function.

        Raises:
            FormatError: the record is damaged.
        """
        record = self._record(entry)
        if not record.names:
            return None
        first = self.entry_at(record.start)
        if first != entry and (first < 0 or self._record(first) != record):
            raise self.error("starts", 0, f"the function that goes on at entry {entry} is not at its start")
        text = self.strings.text
        members = tuple(
            CachedMember(text(names[0]), _member_flags(flags), tuple(map(text, names[1:])) if len(names) > 1 else ())
            for names, flags in zip(record.names, record.flags, strict=True)
        )
        return Located(record.start, record.size_bytes, members, record.is_complete)

    def frames(self, vaddr: int, member_idx: int = 0) -> list[Frame]:
        """Return the frames at an address in one member of its body.

        Args:
            vaddr: link-time address.
            member_idx: index of the member in `Located.members`.

        Returns:
            Innermost inlined call first, the function itself last; empty where no function is.

        Raises:
            IndexError: the body does not have that member.
            NotCached: the symcache is partial and does not cover the address.
            FormatError: the record is damaged.
        """
        entry = self.entry_at(vaddr)
        if entry < 0:
            return []
        record = self._record(entry)
        if not record.names:
            return []
        return list(self.chains(record, [vaddr], member_idx)[0])

    def by_body(self, vaddrs: Sequence[int]) -> Iterator[tuple[Record, list[int]]]:
        """Yield each body that holds some of the addresses, by ascending address.

        Args:
            vaddrs: link-time addresses, in any order.

        Yields:
            The record of the body, and the indices in `vaddrs` of its addresses.

        Raises:
            FormatError: a record is damaged.
        """
        order = sorted(range(len(vaddrs)), key=vaddrs.__getitem__)
        at = 0
        while at < len(order):
            entry = self.entry_at(vaddrs[order[at]])
            if entry < 0:
                at += 1
                continue
            end = self._base + self._starts[entry] + self._sizes[entry]
            last = at
            while last < len(order) and vaddrs[order[last]] < end:
                last += 1
            record = self._record(entry)
            if record.names:
                yield record, order[at:last]
            at = last

    def linkage_names(self, record: Record) -> list[str]:
        """Return the linkage names of the members of a body.

        Args:
            record: of the body, as `by_body` yields it.

        Returns:
            One name for each member.
        """
        return [self.strings.text(names[0]) for names in record.names]

    def members(self, entry: int) -> tuple[list[str], bool]:
        """Return the linkage names of the members of a body.

        Args:
            entry: number of the entry, as `locate_many` returns it.

        Returns:
            One name for each member, and whether these are all members.

        Raises:
            FormatError: the record is damaged.
        """
        record = self._record(entry)
        return self.linkage_names(record), record.is_complete

    def shares_bodies(self) -> bool:
        """Return whether any body has several members.

        Returns:
            True if functions are merged in the image, as far as the symcache covers it.

        Raises:
            FormatError: a record is damaged.
        """
        return any(len(self._read_record(entry).names) > 1 for entry in range(self._count))

    def addresses(self, name: str) -> list[int]:
        """Return where the functions of a name begin.

        Args:
            name: linkage name, as in the symbol table.

        Returns:
            Link-time addresses, ascending; empty if the image has no such function.

        Raises:
            NotCached: the symcache is partial and does not cover the name.
            FormatError: the columns of names are damaged.
        """
        encoded = name.encode("utf-8", STRING_ERRORS)
        hashes = self._column("hashes", "I", self.container.section_size_bytes("hashes") // 4)
        entries = self._column("nameidx", "I", len(hashes))
        value = zlib.crc32(encoded)
        found = set()
        for i in range(bisect_left(hashes, value), bisect_right(hashes, value)):
            if entries[i] >= self._count:
                raise self.error("nameidx", 4 * i, f"entry {entries[i]} is none of {self._count}")
            record = self._record(entries[i])
            if any(self.strings.text(number) == name for names in record.names for number in names):
                found.add(record.start)
        if not self.is_complete:
            raise NotCached(f"{self.path}: partial symcache without an answer for {name}")
        return sorted(found)

    def locate_many(self, vaddrs: U64) -> I64:
        """Return the entries that hold many addresses, for bulk work.

        Args:
            vaddrs: u64[n], link-time addresses, in any order.

        Returns:
            i64[n]: the number of the entry that holds each address, -1 for none; `located` describes an entry.

        Raises:
            FormatError: the columns of addresses are damaged.
        """
        import numpy as np

        from unwind.symcache.reader._look_up import locate, make_index

        if self._index is None:
            starts, sizes = (np.asarray(column) for column in self.wide_columns()[1:3])
            span = int(starts[-1] + sizes[-1]) if len(starts) else 0
            shift = max((span // max(2 * len(starts), 1)).bit_length() - 1, 0)
            index = np.empty((span >> shift) + 1, np.uint32)
            make_index(starts.data, shift, index.data)
            self._index = starts.data, sizes.data, shift, index.data
        starts, sizes, shift, index = self._index
        asked = np.ascontiguousarray(vaddrs, np.uint64)
        found = np.empty(len(asked), np.int64)
        locate(starts, sizes, self._base, shift, index, asked.data, found.data)
        return found

    def wide_columns(self) -> tuple[int, memoryview, memoryview, memoryview]:
        """Return the columns of all entries, for kernels.

        Returns:
            The base of the addresses; for each entry its start (from the base), its size in bytes, and where its record
            is in
            `records`.

        Raises:
            FormatError: the columns are damaged.
        """
        if self._wide is None:
            self._wide = memoryview(array("Q", self._starts)), memoryview(array("Q", self._sizes))
        return self._base, *self._wide, self._infos

    def error(self, section: str, offset: int, problem: str) -> FormatError:
        """Return the error for a place in this file.

        Args:
            section: name of the section.
            offset: bytes from its start.
            problem: the value and the rule that it breaks.

        Returns:
            The error, to be raised.
        """
        return FormatError(self.path, section, offset, problem)

    def _column(self, section: str, code: Literal["I", "Q"], count: int) -> memoryview[int]:
        size_bytes = count * (8 if code == "Q" else 4)
        if self.container.section_size_bytes(section) < size_bytes:
            raise self.error(section, 0, f"is shorter than {count} numbers")
        return self.container.piece(section, 0, size_bytes).cast(code)

    def entry_at(self, vaddr: int) -> int:
        """Return the entry that holds an address.

        Args:
            vaddr: link-time address.

        Returns:
            The number of the entry, -1 for none; `located` describes an entry.

        Raises:
            NotCached: the symcache is partial and does not cover the address.
            FormatError: the columns of addresses are damaged.
        """
        offset = vaddr - self._base
        entry = bisect_right(self._starts, offset) - 1
        if entry >= 0 and offset < self._starts[entry] + self._sizes[entry]:
            return entry
        if not self.is_complete:
            raise NotCached(f"{self.path}: partial symcache without an answer for {vaddr:#x}")
        return -1

    def _record(self, entry: int) -> Record:
        """Return the members of an entry, or of the function that goes on there."""
        known = self._merged.get(entry)
        if known is not None:
            return known
        record = self._read_record(entry)
        if len(record.names) > _FEW:
            if sum(len(each.names) for each in self._merged.values()) > _KEPT_MEMBERS:
                self._merged.clear()
            self._merged[entry] = record
        return record

    def _read_record(self, entry: int) -> Record:
        room = self._take_room()
        try:
            return self._read_record_in(room, entry)
        finally:
            self._idle.append(room)

    def _take_room(self) -> _Room:
        try:
            return self._idle.pop()
        except IndexError:
            return _Room()

    def _read_record_in(self, room: _Room, entry: int) -> Record:
        checked = -1
        while True:
            if checked != entry:  # else this is the function that goes on at the entry
                self.container.piece("records", self._infos[entry], self._infos[entry + 1] - self._infos[entry])
                checked = entry
            table = memoryview(room.table)
            count = read_members(self.container.unchecked("records"), self._infos, entry, table, room.state)
            if table[0] != entry:
                entry = table[0]
            elif count == -1:
                raise self.error("records", room.state[FAULT] - 1, "malformed member record")
            elif count >= 0:
                break
            else:
                room.table = array("Q", bytes(16 * len(table)))
        head = table[1]
        names, flags, payloads = [], [], []
        at = 3
        for _ in range(count):
            name, bits, start, size_bytes, alias_count = table[at : at + 5]
            at += 5 + alias_count
            names.append((name, *table[at - alias_count : at]))
            flags.append(bits)
            payloads.append((start, size_bytes))
        size_bytes = table[2] if head & SIZED else self._sizes[entry]
        start = self._base + self._starts[entry]
        if start + size_bytes > 1 << 64:
            raise self.error("sizes", 0, f"function of {size_bytes} bytes at {start:#x} ends beyond the address space")
        return Record(start, size_bytes, bool(head & ALL_KNOWN), tuple(names), tuple(flags), tuple(payloads))

    def chains(self, record: Record, vaddrs: list[int], member_idx: int = 0) -> list[Frames]:
        """Return the frames at many addresses of one body.

        Args:
            record: of the body, as `by_body` yields it.
            vaddrs: link-time addresses in the body, ascending.
            member_idx: index of the member.

        Returns:
            For each address its frames: innermost inlined call first, the function itself last.

        Raises:
            FormatError: the record is damaged.
        """
        if not 0 <= member_idx < len(record.names):
            raise IndexError(f"member {member_idx} of {len(record.names)}")
        at, size_bytes = record.payloads[member_idx]
        own_name = self.strings.text(record.names[member_idx][0])
        if not size_bytes:
            return [(Frame(own_name, "", 0, 0, False),)] * len(vaddrs)
        self.container.piece("records", at, size_bytes)
        room = self._take_room()
        try:
            return self._chains_in(room, own_name, record.start, at, size_bytes, vaddrs)
        finally:
            self._idle.append(room)

    def _chains_in(
        self, room: _Room, own_name: str, base: int, at: int, size_bytes: int, vaddrs: list[int]
    ) -> list[Frames]:
        data = self.container.unchecked("records")
        asked = memoryview(array("Q", vaddrs))
        found = memoryview(bytearray(16 * len(vaddrs))).cast("I", (4, len(vaddrs)))
        width = _MIN_NODES
        if len(room.numbers) < size_bytes + SPARE:
            room.numbers = array("Q", bytes(8 * (size_bytes + SPARE)))
        numbers = memoryview(room.numbers)
        while True:
            if len(room.nodes) < 8 * width:
                room.nodes = array("I", bytes(32 * width))
            width = len(room.nodes) // 8
            nodes = memoryview(room.nodes).cast("B").cast("I", (8, width))
            count = decode(data, at, size_bytes, base, asked, numbers, nodes, found)
            if count >= -1:
                break
            width = -2 - count + 1
        if count < 0:
            raise self.error("records", at, "lines and inlined calls break a rule")
        return [self._chain(room.nodes, own_name, width, *place) for place in zip(*found.tolist(), strict=True)]

    def _chain(
        self, nodes: array[int], own_name: str, width: int, node: int, file: int, line: int, column: int
    ) -> Frames:
        """Return the frames of a place that `decode` found, from its nodes; a column of nodes has `width` numbers."""
        frames, text, path_of = [], self.strings.text, self.strings.path_of
        while node:
            frames.append(_new(Frame, (text(nodes[width + node]), path_of(file), line, column, True)))
            file, line, column = nodes[2 * width + node], nodes[3 * width + node], nodes[4 * width + node]
            node = nodes[node]
        frames.append(_new(Frame, (own_name, path_of(file), line, column, False)))
        return tuple(frames)


@lru_cache(maxsize=64)
def _member_flags(bits: int) -> MemberFlag:
    """Return what a number in a record means; the enumeration itself takes longer than all else of a member."""
    from icf.model import MemberFlag  # few queries need it

    return MemberFlag(bits)
