"""The container of a minidump: streams, found by their type, with records that refer to parts of the file.

    header      32  "MDMP", version, number of streams, offset of the directory, checksum, time, flags
    directory   12  type, size, offset; for each stream

Strings are UTF-16 with their size in bytes before them. Offsets (RVA) count from the start of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.reader import Reader

MAGIC, _VERSION = b"MDMP", 0xA793
_HEADER_BYTES, _ENTRY_BYTES, _STREAM_LIMIT = 32, 12, 1 << 12
_STRING_LIMIT_BYTES = 1 << 16


class Stream(NamedTuple):
    """A type of stream."""

    kind: int
    name: str  # Microsoft's, without "Stream", or Breakpad's


class Place(NamedTuple):
    """A MINIDUMP_LOCATION_DESCRIPTOR."""

    size_bytes: int
    offset: int


class MinidumpFile:
    """A minidump whose directory was read."""

    def __init__(self, file: FileBytes) -> None:
        self._file, self.path = file, file.path
        header = Reader(file[:_HEADER_BYTES], self.path, "minidump header")
        magic = bytes(header.take(4))
        if magic != MAGIC:
            raise header.error(f"not a minidump: starts with {magic.hex()}, must start with {MAGIC.hex()}", 0)
        version = header.u32()
        if version & 0xFFFF != _VERSION:
            raise header.error(f"version is {version & 0xFFFF:#x}, must be {_VERSION:#x}", 4)
        count, offset = header.u32(), header.u32()
        if count > _STREAM_LIMIT:
            raise header.error(f"has {count} streams, must have {_STREAM_LIMIT} or fewer", 8)
        self._streams: dict[int, Place] = {}
        directory = self.part(Place(count * _ENTRY_BYTES, offset), "stream directory")
        for _ in range(count):
            kind, size_bytes, at = directory.u32(), directory.u32(), directory.u32()
            self._streams.setdefault(kind, Place(size_bytes, at))

    def part(self, place: Place, section: str) -> Reader:
        """Return a reader of a part of the file."""
        if place.offset > len(self._file) or place.size_bytes > len(self._file) - place.offset:
            problem = f"{place.size_bytes} bytes end outside of the file of {len(self._file)} bytes"
            raise FormatError(self.path, section, place.offset, problem)
        return Reader(self._file[place.offset : place.offset + place.size_bytes], self.path, section)

    def stream(self, stream: Stream) -> Reader:
        """Return a reader of a stream; an empty one if there is none."""
        return self.part(self._streams.get(stream.kind, Place(0, 0)), stream.name)

    def entries(
        self, stream: Stream, entry_bytes: int, *, count_bytes: int = 4, before_bytes: int = 0
    ) -> Iterator[Reader]:
        """Yield the reader of a list for each entry: it stands at its beginning."""
        reader = self.stream(stream)
        if not reader.remaining:
            return
        count = reader.uint(count_bytes)
        start = reader.pos + before_bytes
        if count > (reader.end - start) // entry_bytes:
            raise reader.error(f"{count} entries of {entry_bytes} bytes do not fit {reader.end} bytes", 0)
        if reader.end - start - count * entry_bytes == 4:
            start += 4  # Breakpad aligns entries to 8 bytes
        for number in range(count):
            reader.pos = start + number * entry_bytes
            yield reader

    def string(self, offset: int) -> str:
        """Return the string at an offset."""
        size_bytes = self.part(Place(4, offset), "string").u32()
        if size_bytes > _STRING_LIMIT_BYTES:
            raise FormatError(self.path, "string", offset, f"has {size_bytes} bytes, at most {_STRING_LIMIT_BYTES}")
        text = bytes(self.part(Place(size_bytes, offset + 4), "string").take(size_bytes))
        return text.decode("utf-16-le", "replace").replace("\0", "")
