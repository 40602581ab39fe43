"""The records of a perf.data file, one after the other, from pieces of the file: memory stays flat.

    u32 kind, u16 misc, u16 size_bytes; contents                              everything but
    AUXTRACE, HEADER_TRACING_DATA                                             more bytes follow than the size says
    COMPRESSED, COMPRESSED2 (`perf record -z`)                                a part of one zstd stream of records

A record of the stream may be cut between two COMPRESSED ones. What a stream unpacks to is not known beforehand, so it
is unpacked from some hundred bytes at a time, which a block of zstd limits to megabytes.

A file that perf was killed at ends inside of a record: what comes before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from icf.errors import FormatError
from icf.filebytes import FileBytes
from unwind.readers.perf_data.layout import (
    PERF_RECORD_AUXTRACE,
    PERF_RECORD_COMPRESSED,
    PERF_RECORD_COMPRESSED2,
    PERF_RECORD_HEADER_TRACING_DATA,
    RECORD_HEADER,
    U64,
)

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

_PIECE_BYTES = 1 << 22
_UNPACKED_FROM_BYTES = 256  # a block of 4 bytes can stand for 128 KiB
_WINDOW_BYTES = 1 << 27
COMPRESSED = (PERF_RECORD_COMPRESSED, PERF_RECORD_COMPRESSED2)
_WITH_MORE = {PERF_RECORD_AUXTRACE: 8, PERF_RECORD_HEADER_TRACING_DATA: 4}  # size of the number that says how much

Record = tuple[int, int, bytes, int, int]
"""Kind, misc, the bytes that hold it, and where in them its contents start and end."""


class Records:
    """The records between two offsets of a file, read once; not `is_compressed`: it is known that none of them is."""

    def __init__(self, content: FileBytes, start: int, end: int, *, is_compressed: bool = True) -> None:
        self._content, self._start, self._end, self._is_compressed = content, start, end, is_compressed
        self._outer, self._inner = _Splitter(content.path, "data"), _Splitter(content.path, "data, decompressed")
        self._current = self._outer
        self._stream: ZstdDecompressionObj | None = None

    def read(self, skipped: Container[int] = ()) -> Iterator[Record]:
        """Yield the records, without those of the kinds `skipped`; `FormatError` for one that cannot be."""
        offset, fd = self._start, self._content.fileno()
        self._outer.base = offset
        while offset < self._end:
            piece = os.pread(fd, min(_PIECE_BYTES, self._end - offset), offset)
            if not piece:
                raise FormatError(self._content.path, "file", offset, "was truncated while being read")
            offset += len(piece)
            if not self._is_compressed:
                yield from self._outer.split(piece, skipped)
                continue
            for record in self._outer.split(piece, skipped):
                if record[0] in COMPRESSED:
                    self._current = self._inner
                    for part in self._unpacked(record):
                        yield from self._inner.split(part, skipped)
                    self._current = self._outer
                else:
                    yield record

    @property
    def has_compressed(self) -> bool:
        """Whether any record was compressed; asked when all were read."""
        return self._inner.base > 0 or self._inner.left_bytes > 0

    @property
    def cut_at(self) -> int | None:
        """Where a last record begins that is not all there; asked when all were read."""
        for splitter in (self._outer, self._inner):
            if splitter.left_bytes:
                return splitter.base
        return None

    def error(self, at: int, problem: str) -> FormatError:
        """Return the error for `problem` at this place in the bytes of the record that was yielded last."""
        return FormatError(self._content.path, self._current.section, self._current.base + at, problem)

    def _unpacked(self, record: Record) -> Iterator[bytes]:
        from zstandard import ZstdDecompressor, ZstdError

        kind, _, buffer, at, end = record
        if kind == PERF_RECORD_COMPRESSED2:
            if end - at < U64.size:
                raise self._outer.error(at, "compressed record without its size")
            size_bytes = U64.unpack_from(buffer, at)[0]
            at += U64.size
            if size_bytes > end - at:
                raise self._outer.error(at, f"{size_bytes} compressed bytes, the record has {end - at}")
            end = at + size_bytes
        for start in range(at, end, _UNPACKED_FROM_BYTES):
            part = buffer[start : min(start + _UNPACKED_FROM_BYTES, end)]
            while part:
                if self._stream is None:
                    self._stream = ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
                try:
                    unpacked = self._stream.decompress(part)
                except ZstdError as error:
                    raise self._outer.error(start, f"cannot be decompressed: {error}") from error
                part = b""
                if self._stream.eof:
                    part, self._stream = self._stream.unused_data, None
                if unpacked:
                    yield unpacked


class _Splitter:
    """Cuts a stream of bytes into records; one may begin in one piece and end in the next."""

    def __init__(self, path: str, section: str) -> None:
        self.path, self.section = path, section
        self.base = 0  # offset of the bytes at hand
        self._rest = b""
        self._to_skip = 0

    @property
    def left_bytes(self) -> int:
        return len(self._rest) or self._to_skip

    def error(self, at: int, problem: str) -> FormatError:
        return FormatError(self.path, self.section, self.base + at, problem)

    def split(self, piece: bytes, skipped: Container[int]) -> Iterator[Record]:
        buffer = self._rest + piece if self._rest else piece
        at, end = min(self._to_skip, len(buffer)), len(buffer)
        self._to_skip -= at
        self._rest = b""
        unpack, header_bytes = RECORD_HEADER.unpack_from, RECORD_HEADER.size
        while end - at >= header_bytes:
            kind, misc, size_bytes = unpack(buffer, at)
            if size_bytes < header_bytes:
                raise self.error(at, f"record of {size_bytes} bytes, must have {header_bytes} or more")
            following = at + size_bytes
            if following > end:
                break
            if kind not in skipped:
                yield kind, misc, buffer, at + header_bytes, following
                if kind in _WITH_MORE:
                    following += self._more_bytes(buffer, kind, at + header_bytes, following)
            at = following
        if at > end:
            self._to_skip = at - end
        self._rest = buffer[at:]
        self.base += min(at, end)

    def _more_bytes(self, buffer: bytes, kind: int, at: int, end: int) -> int:
        width = _WITH_MORE[kind]
        if end - at < width:
            raise self.error(at, f"record of kind {kind} ends before the size of what follows it")
        more_bytes = int.from_bytes(buffer[at : at + width], "little")
        return more_bytes if kind == PERF_RECORD_AUXTRACE else -(-more_bytes // 8) * 8
