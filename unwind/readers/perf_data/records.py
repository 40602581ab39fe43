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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.columns import U64
from icf.errors import FormatError
from icf.filebytes import FileBytes
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data._samples import split
from unwind.readers.perf_data.layout import (
    PERF_RECORD_AUXTRACE,
    PERF_RECORD_COMPRESSED,
    PERF_RECORD_COMPRESSED2,
    PERF_RECORD_HEADER_TRACING_DATA,
    RECORD_HEADER,
)
from unwind.readers.perf_data.layout import (
    U64 as WORD,
)

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

_PIECE_BYTES = 1 << 22
_TOGETHER = 4096
_UNPACKED_FROM_BYTES = 256  # a block of 4 bytes can stand for 128 KiB
_WINDOW_BYTES = 1 << 27
COMPRESSED = (PERF_RECORD_COMPRESSED, PERF_RECORD_COMPRESSED2)
WITH_MORE = {PERF_RECORD_AUXTRACE: 8, PERF_RECORD_HEADER_TRACING_DATA: 4}  # size of the number that says how much

Record = tuple[int, int, bytes, int, int]
"""Kind, misc, the bytes that hold it, and where in them its contents start and end."""


class Layouts(NamedTuple):
    """How samples begin, as `_samples.split` has it."""

    events: U64  # u64[n, 2]: ids, ascending, and numbers of events; none: there is one event
    layouts: U64  # u64[events, LAYOUT_WIDTH]
    id_at: int  # where samples have the id; NONE: nowhere


class Batch(NamedTuple):
    """Records that lie in the same bytes."""

    buffer: bytes
    rows: U64  # u64[n, ROW_WIDTH] (`rows`); good until the next batch


_NO_SAMPLES = Layouts(np.zeros((0, 2), np.uint64), np.zeros((1, r.LAYOUT_WIDTH), np.uint64), r.NONE)


class Records:
    """The records between two offsets of a file, read once; not `is_compressed`: it is known that none of them is."""

    def __init__(self, content: FileBytes, start: int, end: int, *, is_compressed: bool = True) -> None:
        self._content, self._start, self._end, self._is_compressed = content, start, end, is_compressed
        self._outer, self._inner = _Splitter(content.path, "data"), _Splitter(content.path, "data, decompressed")
        self._current = self._outer
        self._stream: ZstdDecompressionObj | None = None

    def read(self, skipped: Container[int] = ()) -> Iterator[Record]:
        """Yield the records, without those of the kinds `skipped`; `FormatError` for one that cannot be."""
        for buffer, rows in self.batches(skipped):
            for kind, misc, start, end in rows[:, r.KIND : r.END + 1].tolist():
                yield kind, misc, buffer, start, end

    def batches(self, skipped: Container[int], layouts: Layouts = _NO_SAMPLES) -> Iterator[Batch]:
        """Yield the records, without those of the kinds `skipped`, some thousands at a time; errors as of `read`."""
        is_skipped = bytes(kind in skipped for kind in range(256))
        offset, fd = self._start, self._content.fileno()
        self._outer.base = offset
        while offset < self._end:
            piece = os.pread(fd, min(_PIECE_BYTES, self._end - offset), offset)
            if not piece:
                raise FormatError(self._content.path, "file", offset, "was truncated while being read")
            offset += len(piece)
            for batch in self._outer.split(piece, is_skipped, layouts):
                last_kind = int(batch.rows[-1, r.KIND])
                if not self._is_compressed or last_kind not in COMPRESSED:
                    yield batch
                    continue
                if len(batch.rows) > 1:
                    yield Batch(batch.buffer, batch.rows[:-1])
                kind, misc, start, end = batch.rows[-1, r.KIND : r.END + 1].tolist()
                self._current = self._inner
                for part in self._unpacked((kind, misc, batch.buffer, start, end)):
                    yield from self._inner.split(part, is_skipped, layouts)
                self._current = self._outer
            if offset < self._end and self._outer.left_bytes < len(piece):
                offset -= self._outer.give_back()

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
            if end - at < WORD.size:
                raise self._outer.error(at, "compressed record without its size")
            size_bytes = WORD.unpack_from(buffer, at)[0]
            at += WORD.size
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
        self._state = np.zeros(r.SPLIT_WIDTH, np.uint64).data
        self._rows = np.zeros((_TOGETHER, r.ROW_WIDTH), np.uint64)

    @property
    def left_bytes(self) -> int:
        return len(self._rest) or self._to_skip

    def error(self, at: int, problem: str) -> FormatError:
        return FormatError(self.path, self.section, self.base + at, problem)

    def give_back(self) -> int:
        """Forget the part of a record at the end of the last piece, which will be read again; return its size.

        To read it again costs less than to copy a piece after it.
        """
        size_bytes, self._rest = len(self._rest), b""
        return size_bytes

    def split(self, piece: bytes, is_skipped: bytes, layouts: Layouts) -> Iterator[Batch]:
        buffer = self._rest + piece if self._rest else piece
        at, end = min(self._to_skip, len(buffer)), len(buffer)
        self._to_skip -= at
        self._rest = b""
        state, why = self._state, r.NEEDS_ROWS
        state[r.ID_AT] = layouts.id_at
        layout = layouts.events.data, layouts.layouts.data
        while why != r.NEEDS_BYTES and at <= end:
            state[r.AT] = at
            count = split(memoryview(buffer), memoryview(is_skipped), *layout, state, self._rows.data)
            at, why = state[r.AT], state[r.WHY]
            if count:
                kind, _, start, following = self._rows[count - 1, r.KIND : r.END + 1].tolist()
                yield Batch(buffer, self._rows[:count])
                if why == r.HAS_MORE and kind in WITH_MORE:
                    at += self._more_bytes(buffer, kind, start, following)
            if why == r.TOO_SMALL:
                size_bytes = RECORD_HEADER.unpack_from(buffer, at)[2]
                raise self.error(at, f"record of {size_bytes} bytes, must have {RECORD_HEADER.size} or more")
        if at > end:
            self._to_skip = at - end
        self._rest = buffer[at:]
        self.base += min(at, end)

    def _more_bytes(self, buffer: bytes, kind: int, at: int, end: int) -> int:
        width = WITH_MORE[kind]
        if end - at < width:
            raise self.error(at, f"record of kind {kind} ends before the size of what follows it")
        more_bytes = int.from_bytes(buffer[at : at + width], "little")
        return more_bytes if kind == PERF_RECORD_AUXTRACE else -(-more_bytes // 8) * 8
