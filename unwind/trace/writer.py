"""Writes traces: records of one thread, in chunks with all that a chunk repeats.

    with TraceWriter("app.1.trace.zip", chunk_size=100_000) as trace:
        trace.begin(tid=1, pid=1, time=T)
        trace.instruction(layout.DIRECT_CALL, 0x401136, bytes.fromhex("e8d80b0000"))
        trace.data(layout.WRITE, 0x7ffe7125d328, 8)

Bytes of instructions are written at their first use in a chunk and where they changed; RECORD_ORDINAL, the copies of
time and processor, and footers are the writer's. The same calls make the same file.
"""

from __future__ import annotations

import gzip
from struct import Struct
from types import TracebackType
from typing import BinaryIO, Self
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from unwind.trace import layout as k

_RECORD = Struct("<HHQ")
_UNCOUNTED_TYPES = (k.THREAD, k.PID, k.HEADER, k.FOOTER, k.ENCODING)
_UNCOUNTED_MARKERS = (k.BRANCH_TARGET, k.RECORD_ORDINAL)
_PART_BYTES = 1 << 16
_DATE = (1980, 1, 1, 0, 0, 0)


class TraceWriter:
    """A file of records that is written; its name ends with `.zip`, `.gz` or something else."""

    def __init__(
        self, path: str, *, version: int = k.LAST_VERSION, filetype: int = 0, chunk_size: int = 10_000_000
    ) -> None:
        self._version, self._filetype, self._chunk_size = version, filetype, chunk_size
        self._zip = ZipFile(path, "w", ZIP_DEFLATED) if path.endswith(".zip") else None
        self._file: BinaryIO | None = None
        if self._zip is None:
            self._file = open(path, "wb")
        self._packed: BinaryIO | None = None
        if path.endswith(".gz") and self._file is not None:
            self._packed = gzip.GzipFile("", "wb", 6, self._file, 0)  # type: ignore[assignment] # writes like one
        self._part = bytearray()
        self._chunk, self._in_chunk, self._visible = 0, 0, 0
        self._known: dict[int, bytes] = {}
        self._time = self._cpu = self._tid = 0
        self._out: BinaryIO | None = None
        self._open_chunk()

    def begin(self, tid: int, pid: int, time: int, cpu: int = 0) -> None:
        """Write what a file begins with."""
        self._tid = tid
        self.record(k.HEADER, 0, self._version)
        if self._version >= 2:
            self.marker(k.VERSION, self._version)
            self.marker(k.FILETYPE, self._filetype)
        self.thread(tid, pid)
        if self._zip is not None:
            self.marker(k.CHUNK_INSTR_COUNT, self._chunk_size)
        self.now(time, cpu)

    def thread(self, tid: int, pid: int) -> None:
        """Go on with another thread."""
        self.record(k.THREAD, 4, tid)
        self.record(k.PID, 4, pid)

    def now(self, time: int, cpu: int = 0) -> None:
        """Write the time, microseconds since 1601, and the processor."""
        self._time, self._cpu = time, cpu
        self.marker(k.TIMESTAMP, time)
        self.marker(k.CPU_ID, cpu)

    def instruction(self, kind: int, address: int, code: bytes, target: int | None = None) -> None:
        """Write an instruction; `target` is that of an indirect branch."""
        if self._in_chunk == self._chunk_size and self._zip is not None and kind != k.NO_FETCH:
            self._next_chunk()
        if self._filetype & k.HAS_ENCODINGS and self._known.get(address) != code:
            self._known[address] = code
            for start in range(0, len(code), 8):
                piece = code[start : start + 8]
                self.record(k.ENCODING, len(piece), int.from_bytes(piece, "little"))
        if target is not None:
            self.marker(k.BRANCH_TARGET, target)
        self.record(kind, len(code), address)
        self._in_chunk += kind != k.NO_FETCH

    def data(self, kind: int, address: int, size_bytes: int) -> None:
        """Write an access of the latest instruction."""
        self.record(kind, size_bytes, address)

    def marker(self, kind: int, value: int) -> None:
        """Write a marker."""
        self.record(k.MARKER, kind, value)

    def record(self, kind: int, size: int, address: int) -> None:
        """Write any record as it is."""
        self._part += _RECORD.pack(kind, size, address)
        if kind == k.MARKER:
            self._visible += size not in _UNCOUNTED_MARKERS
        else:
            self._visible += kind not in _UNCOUNTED_TYPES
        if len(self._part) >= _PART_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what a file ends with; in that of a core, threads end where they do."""
        if not self._filetype & k.IS_CORE_SHARDED:
            self.record(k.THREAD_EXIT, 4, self._tid)
        self.record(k.FOOTER, 0, 0)
        self._close_chunk()
        for each in (self._zip, self._packed, self._file):
            if each is not None:
                each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _next_chunk(self) -> None:
        self.marker(k.CHUNK_FOOTER, self._chunk)
        self._close_chunk()
        self._chunk, self._in_chunk = self._chunk + 1, 0
        self._known.clear()
        self._open_chunk()
        visible = self._visible
        self.marker(k.RECORD_ORDINAL, visible)
        self.now(self._time, self._cpu)
        self._visible = visible

    def _open_chunk(self) -> None:
        if self._zip is None:
            self._out = self._packed or self._file
            return
        member = ZipInfo(f"chunk.{self._chunk:08d}", _DATE)
        member.compress_type = ZIP_DEFLATED
        self._out = self._zip.open(member, "w")  # type: ignore[assignment] # writes like one

    def _close_chunk(self) -> None:
        self._flush()
        if self._zip is not None and self._out is not None:
            self._out.close()

    def _flush(self) -> None:
        if self._out is not None:
            self._out.write(self._part)
        self._part.clear()
