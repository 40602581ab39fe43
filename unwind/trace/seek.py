"""Finds an instruction or a time without reading all that is before it: the nearest chunk, then record by record.

Every chunk of a zip has the same number of instructions, so instruction `n` is in chunk `n // CHUNK_INSTR_COUNT`; each
begins with a copy of the latest time. Other files are read from their beginning.
"""

from __future__ import annotations

from struct import unpack

from icf.errors import FormatError, IcfError
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.reader import TraceReader

_START_BYTES = 2 * k.RECORD_BYTES  # RECORD_ORDINAL, TIMESTAMP
_HEAD_BYTES = 64 * k.RECORD_BYTES


def seek_instruction(reader: TraceReader, number: int) -> None:
    """Let a new reader go on at an instruction, counted from 0; `IcfError` if the file has fewer."""
    read_head(reader)
    state, file = reader.state, reader.file
    chunk_size = state[c.CHUNK_SIZE] if file.is_zip else 0
    chunk = number // chunk_size if chunk_size else 0
    if chunk < file.chunk_count:
        if chunk:
            _go_to(reader, chunk)
        reader.skip(instruction=number)
        if reader.is_stopped:
            return
        count = state[c.INSTRUCTIONS]
        raise IcfError(f"{file.path}: has {count} instructions, numbers {number} and up are not there")
    raise IcfError(
        f"{file.path}: has {file.chunk_count} chunks of {chunk_size} instructions, number {number} is not there"
    )


def seek_time(reader: TraceReader, time: int) -> None:
    """Let a new reader go on at the first time marker of this time or later; `IcfError` if all are earlier."""
    read_head(reader, time)
    low, high = 0, reader.file.chunk_count  # chunks that begin earlier, from the first on; that do not
    if reader.file.is_zip and not reader.is_stopped:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _start_time(reader, middle) < time else (low, middle)
        if low:
            _go_to(reader, low)
    reader.skip(time=time)
    if not reader.is_stopped:
        raise IcfError(f"{reader.file.path}: ends at time {reader.state[c.TIME]}, before {time}")


def read_head(reader: TraceReader, time: int | None = None) -> None:
    """Read what a file begins with: version, kind, thread; not further than to a time."""
    reader.begin(0, size_bytes=_HEAD_BYTES)
    if time is None:
        reader.skip(instruction=0)
    else:
        reader.skip(instruction=0, time=time)


def _go_to(reader: TraceReader, chunk: int) -> None:
    state = reader.state
    reader.begin(chunk)
    state[c.INSTRUCTIONS] = chunk * state[c.CHUNK_SIZE]
    state[c.BASE] = 1


def _start_time(reader: TraceReader, chunk: int) -> int:
    """Return the time that a chunk begins with."""
    file = reader.file
    head = next(file.blocks(chunk, _START_BYTES), b"").ljust(_START_BYTES, b"\0")
    kind, marker, _, time_kind, time_marker, time = unpack("<HHQHHQ", head)
    if (kind, marker, time_kind, time_marker) != (k.MARKER, k.RECORD_ORDINAL, k.MARKER, k.TIMESTAMP):
        raise FormatError(file.path, file.section(chunk), 0, "does not begin with RECORD_ORDINAL and TIMESTAMP")
    return int(time)
