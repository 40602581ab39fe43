"""The file of a symcache: named sections, read and checked as far as queries need them.

    0     magic "ICFSYMC\0"                                        Little endian, offsets from the start of the file.
    8     version, byte-order mark, flags, machine   4 x u32
    24    size of the file                           u64
    32    sections, size of the origin               2 x u32
    40    content check                              16 bytes      what else must be as it was, see below
    56    identity: kind, size, value                u8, u8, 62 bytes
    120   checksum of the head                       u32           CRC-32 of all up to the first section, without this
    124   blocks                                     u32
    128   origin                                     JSON, padded with spaces to 8 bytes: for people and `icf cache`
          sections                                   n x (name 8 bytes, offset u64, size u64)
          checksums                                  one CRC-32 for each block of 16 KiB of the file after the head
          data                                       sections, each on a multiple of 8

A query reads a few KiB of a file of many MB, in a process that lives for milliseconds. So opening reads the head
alone. A block is read into the process's own memory (`icf.filebytes`) and checked when a query needs the first byte of
it: every answer rests on checked bytes, also when the file is cut short or overwritten later, and blocks that no query
needs cost nothing. Numbers in sections are little endian and aligned, so `memoryview.cast` reads them in place; on a
machine with the other byte order the mark does not fit and the file is refused.

The *identity* is the key by which a file is found (build id; a digest of the content without one). One build id may
belong to files that differ: stripped, or with other call-site tables. So everything that must not have changed goes
into the *content check*, a digest that is compared on opening (`unwind.symcache.store.store`).

A file that breaks a rule raises a `FormatError`; the store then makes a new one. Only the newest version is read
(docs/design/symcache.md has what changed with each).
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from icf.errors import FormatError
from icf.filebytes import FileBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Self

VERSION = 8
COMPLETE = 1  # a flag: the file covers all of the image, so the image lacks what the file lacks
STALE_TABLES = 2  # a flag: the image has call-site tables of other code, which are left out
BLOCK_BYTES = 1 << 14
SectionBytes = bytes | bytearray | memoryview
_MAGIC = b"ICFSYMC\0"
_HEAD = Struct("<8s4IQ2I16sBB62s2I")
_SECTION = Struct("<8s2Q")
_ORDER_MARK = 0x01020304
_SECTION_LIMIT, _ORIGIN_LIMIT = 256, 1 << 20
_CHECKSUM_AT = 120


class Identity(NamedTuple):
    """The name of an image: `kind` 1 a GNU build id, 2 a digest of its content, 3 a PE's GUID and age."""

    kind: int
    value: bytes

    def __str__(self) -> str:
        return f"{('?', 'build-id', 'content', 'pe')[self.kind & 3]}-{self.value.hex()}"


class Head(NamedTuple):
    """The head of a file."""

    identity: Identity
    content_check: bytes
    machine: int  # as in ELF
    flags: int


class Container:
    """An open file. `section` checks all of a section, `piece` the bytes it returns."""

    def __init__(self, data: memoryview | FileBytes, path: str) -> None:
        self.path = path
        self._data = data
        self._whole = data.having(()) if isinstance(data, FileBytes) else data
        self.head, self._sections, self._checksums, self._first, self._origin = self._read_head()
        self._checked = bytearray(len(self._checksums))
        self.repair: Callable[[], Container | None] | None = None  # makes the file anew when it turns out damaged

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, is_own: bool = False) -> Self:
        """Open a file and check its head. With `is_own`, raise OSError for a link and another user's file."""
        name = os.fspath(path)
        flags = os.O_NOFOLLOW if is_own else 0
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)  # a pipe is not waited for
        try:
            status = os.fstat(fd)
            if is_own and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
                raise PermissionError(errno.EPERM, "another user may write to it", name)
            if not stat.S_ISREG(status.st_mode) or status.st_size < _HEAD.size:
                raise FormatError(
                    name, "head", 0, f"file is too small to be a symcache ({status.st_size} bytes, needs {_HEAD.size})"
                )
        except BaseException:
            os.close(fd)
            raise
        return cls(FileBytes(fd, status.st_size, name), name)

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    @property
    def origin(self) -> dict[str, Any]:
        """Path of the image and the like: for people."""
        import json  # a query does not need it

        try:
            origin = json.loads(bytes(self._origin) or b"{}")
        except (ValueError, RecursionError):
            origin = None
        if not isinstance(origin, dict):
            raise FormatError(self.path, "head", _HEAD.size, "origin is not a JSON object")
        return origin

    @property
    def names(self) -> tuple[str, ...]:
        """The sections there are."""
        return tuple(self._sections)

    def __contains__(self, name: str) -> bool:
        return name in self._sections

    def section_size_bytes(self, name: str) -> int:
        """Return the size of a section; 0 for one that the file does not have."""
        return self._sections.get(name, (0, 0))[1]

    def section(self, name: str) -> memoryview:
        """Return all of a section; empty if the file does not have it."""
        return self.piece(name, 0, self.section_size_bytes(name))

    def piece(self, name: str, start: int, size_bytes: int) -> memoryview:
        """Return bytes of a section.

        Raise FormatError beyond its end, and for bytes that have changed since they were written.
        """
        offset, limit = self._sections.get(name, (0, 0))
        if start < 0 or size_bytes < 0 or size_bytes > limit - start:
            raise FormatError(self.path, name, start, f"needs {size_bytes} bytes, the section has {limit}")
        if not size_bytes:
            return self._data[:0]
        first, last = offset + start - self._first, offset + start + size_bytes - 1 - self._first
        blocks = range(first // BLOCK_BYTES, last // BLOCK_BYTES + 1)
        try:
            self._check_blocks(blocks, name)
        except FormatError:
            if not self._repaired():
                raise
            self._check_blocks(blocks, name)
            offset = self._sections[name][0]
        return self._whole[offset + start : offset + start + size_bytes]

    def unchecked(self, name: str) -> memoryview:
        """Return all of a section, for a caller that calls `piece` before it reads bytes of it."""
        offset, size_bytes = self._sections.get(name, (0, 0))
        return self._whole[offset : offset + size_bytes]

    def check_all(self) -> None:
        """Check every block."""
        self._checked = bytearray(len(self._checked))
        self._check_blocks(range(len(self._checked)), "data")

    def _check_blocks(self, blocks: range, name: str) -> None:
        for block in blocks:
            if self._checked[block]:
                continue
            at = self._first + block * BLOCK_BYTES
            if zlib.crc32(self._data[at : at + BLOCK_BYTES]) != self._checksums[block]:
                raise FormatError(self.path, name, at, "checksum of the block does not fit: the file is damaged")
            self._checked[block] = 1

    def _repaired(self) -> bool:
        """Go on with a new file, if it has what this one had."""
        repair, self.repair = self.repair, None
        other = repair() if repair is not None else None
        if other is None or other._content() != self._content():
            return False
        self._data, self._whole, self._sections, self._first = other._data, other._whole, other._sections, other._first
        self._checked = bytearray(len(self._checked))
        return True

    def _content(self) -> tuple[Identity, bytes, list[tuple[str, int, int]], bytes]:
        """Return the fields that are equal in two files with the same content."""
        places = [(name, offset - self._first, size) for name, (offset, size) in self._sections.items()]
        return self.head.identity, self.head.content_check, places, bytes(self._checksums)

    def _read_head(self) -> tuple[Head, dict[str, tuple[int, int]], memoryview, int, memoryview]:
        file_bytes = len(self._data)

        def fail(offset: int, problem: str, *, hint: str | None = None) -> FormatError:
            return FormatError(self.path, "head", offset, problem, hint=hint)

        data = self._data[: _HEAD.size]
        if len(data) < _HEAD.size:
            raise fail(0, f"file is too small to be a symcache ({len(data)} bytes, needs {_HEAD.size})")
        (
            magic, version, order, flags, machine, size_bytes, section_count, origin_bytes, content, kind, id_bytes,
            identity, checksum, block_count,
        ) = _HEAD.unpack_from(data)  # fmt: skip
        if magic != _MAGIC:
            raise fail(0, "is not a symcache")
        if version != VERSION:
            hint = "a newer icf has written it" if version > VERSION else "'icf cache build IMAGE' builds it again"
            raise fail(8, f"version is {version}, only {VERSION} is known", hint=hint)
        if order != _ORDER_MARK or data[:16].cast("I")[3] != _ORDER_MARK:
            raise fail(12, "byte order is not that of this machine")
        if size_bytes != file_bytes:
            raise fail(24, f"file was written with {size_bytes} bytes, it has {file_bytes}")
        if section_count > _SECTION_LIMIT or origin_bytes > _ORIGIN_LIMIT or origin_bytes % 8 or id_bytes > 62:
            raise fail(32, "counts are not those of a symcache")
        table = _HEAD.size + origin_bytes
        sums = table + section_count * _SECTION.size
        first = sums + _pad(4 * block_count)
        if first > file_bytes or block_count != -(-(file_bytes - first) // BLOCK_BYTES):
            raise fail(124, f"{block_count} blocks are not what is in the file")
        data = self._data[:first]
        if zlib.crc32(data[_CHECKSUM_AT + 4 : first], zlib.crc32(data[:_CHECKSUM_AT])) != checksum:
            raise fail(_CHECKSUM_AT, "checksum of the head does not fit: the file is damaged")
        sections = {}
        for at in range(table, sums, _SECTION.size):
            name, offset, section_bytes = _SECTION.unpack_from(data, at)
            if offset % 8 or offset < first or section_bytes > size_bytes or offset > size_bytes - section_bytes:
                raise fail(at, "section is not in the file")
            sections[name.rstrip(b"\0").decode("ascii", "replace")] = offset, section_bytes
        head = Head(Identity(kind, identity[:id_bytes]), content, machine, flags)
        return head, sections, data[sums : sums + 4 * block_count].cast("I"), first, data[_HEAD.size : table]


def pack(
    head: Head, sections: Mapping[str, SectionBytes], origin: Mapping[str, Any] | None = None
) -> Iterator[bytes | memoryview]:
    """Yield the pieces of a file, in order. Names are ASCII of 8 bytes at most, contents contiguous."""
    import json

    if len(head.identity.value) > 62 or len(head.content_check) != 16 or len(sections) > _SECTION_LIMIT:
        raise ValueError("identity, content check or number of sections do not fit the head")
    told = json.dumps(origin or {}, separators=(",", ":")).encode("ascii")
    told = told.ljust(_pad(len(told)))
    if len(told) > _ORIGIN_LIMIT:
        raise ValueError("origin is too long")
    views = {name: memoryview(content).cast("B") for name, content in sections.items()}
    sums = _HEAD.size + len(told) + len(views) * _SECTION.size
    block_count = -(-sum(_pad(len(view)) for view in views.values()) // BLOCK_BYTES)
    first = sums + _pad(4 * block_count)
    table: list[bytes] = []
    pieces: list[bytes | memoryview] = []
    at = first
    for name, view in views.items():
        if len(name.encode("ascii")) > 8:
            raise ValueError(f"{name}: name is longer than 8 bytes")
        table.append(_SECTION.pack(name.encode("ascii"), at, len(view)))
        pieces += [view, bytes(_pad(len(view)) - len(view))]
        at += _pad(len(view))
    checksums = b"".join(checksum.to_bytes(4, "little") for checksum in _checksums(pieces))
    rest = b"".join([block_count.to_bytes(4, "little"), told, *table, checksums.ljust(first - sums, b"\0")])
    kind, value = head.identity
    start = _HEAD.pack(
        _MAGIC, VERSION, _ORDER_MARK, head.flags, head.machine, at, len(views), len(told), head.content_check,
        kind, len(value), value, 0, block_count,
    )[:_CHECKSUM_AT]  # fmt: skip
    yield start
    yield zlib.crc32(rest, zlib.crc32(start)).to_bytes(4, "little")
    yield rest
    yield from pieces


def _pad(size_bytes: int) -> int:
    return -(-size_bytes // 8) * 8


def _checksums(pieces: list[bytes | memoryview]) -> Iterator[int]:
    """Yield the CRC-32 of each block of the joined pieces."""
    checksum, filled = 0, 0
    for piece in pieces:
        at = 0
        while at < len(piece):
            taken = min(BLOCK_BYTES - filled, len(piece) - at)
            checksum = zlib.crc32(piece[at : at + taken], checksum)
            at, filled = at + taken, filled + taken
            if filled == BLOCK_BYTES:
                yield checksum
                checksum, filled = 0, 0
    if filled:
        yield checksum
