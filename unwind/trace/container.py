"""Files that hold a trace: a zip of chunks, gzip, or plain records; bytes come in blocks, however large a file is.

    .trace.zip    chunks, each compressed by itself, so that reading can begin at any of them
    .trace.gz     one stream; so are plain records

The content says which it is. In a directory of traces each file is one thread's, or one processor's.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile, GzipFile
from operator import attrgetter
from types import TracebackType
from typing import BinaryIO, Self
from zipfile import BadZipFile, ZipFile, ZipInfo

from icf.errors import FormatError, IcfError, UnsupportedError
from unwind.trace.layout import RECORD_BYTES

BLOCK_BYTES = 1 << 17
BLOCK_BYTES -= BLOCK_BYTES % RECORD_BYTES
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_LOCAL_HEADER_BYTES = 30
_WINDOW = re.compile(r"window\.\d+")  # what was traced between two gaps has a directory of its own
_NUMBER = re.compile(r"(\d+)$")
_OTHERS = (
    "serial_schedule.bin",
    "cpu_schedule.bin",
    "modules.log",
    "funclist.log",
    "encodings.bin",
    "v2p.textproto",
)
_BROKEN = (BadZipFile, BadGzipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, struct.error)


def trace_files(path: str) -> list[str]:
    """Return the files of a trace: the path itself, or those in the directory and its windows, sorted by name.

    Raises `IcfError` where there is none.
    """
    if not os.path.isdir(path):
        return [path]
    try:
        inner = os.path.join(path, "trace")
        folder = inner if os.path.isdir(inner) else path
        files = _names(folder)
        windows = [each for each in files if _WINDOW.fullmatch(os.path.basename(each)) and os.path.isdir(each)]
        files += [each for window in windows for each in _names(window)]
    except OSError as error:
        raise IcfError(f"{path}: {error.strerror}") from error
    found = [file for file in files if os.path.isfile(file)]
    if not found and os.path.isdir(os.path.join(path, "raw")):
        raise UnsupportedError(
            f"{path}: has raw files only", hint="make the trace of them with DynamoRIO's drraw2trace"
        )
    if not found:
        raise IcfError(f"{path}: has no trace in it")
    return found


def _names(folder: str) -> list[str]:
    """Return what may be a file of a trace in a directory."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if not name.startswith(_OTHERS)]


class TraceFile:
    """A file of records; to be closed.

    Attributes:
        path: the file.
        chunk_count: how many parts can be read by themselves; 1 if it is not a zip.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._zip: ZipFile | None = None
        self._chunks: list[ZipInfo] = []
        try:
            self._stream: BinaryIO = open(path, "rb")
        except OSError as error:
            raise IcfError(f"{path}: {error.strerror}") from error
        try:
            self._head = self._stream.read(RECORD_BYTES)
            if self._head.startswith(_ZIP):
                self._zip = ZipFile(self._stream)
                self._chunks = _in_order(self._zip, path)
        except _BROKEN as error:
            self._stream.close()
            raise FormatError(path, "zip directory", 0, f"is damaged: {error}") from error
        except BaseException:
            self._stream.close()
            raise
        self.chunk_count = max(len(self._chunks), 1)

    @property
    def is_zip(self) -> bool:
        return self._zip is not None

    def section(self, chunk: int) -> str:
        """Return what messages call a chunk."""
        return self._chunks[chunk].filename if self._zip is not None else "records"

    def blocks(self, chunk: int, size_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the bytes of a chunk, whole records each; `FormatError` if they are damaged."""
        section, offset = self.section(chunk), 0
        try:
            with self._open(chunk) as stream:
                while block := _read_all(stream, size_bytes):
                    if len(block) % RECORD_BYTES:
                        raise FormatError(self.path, section, offset + len(block), "ends within a record of 12 bytes")
                    yield block
                    offset += len(block)
        except _BROKEN as error:
            raise FormatError(self.path, section, offset, f"data is damaged: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self, chunk: int) -> BinaryIO:
        if self._zip is not None:
            return self._zip.open(self._chunks[chunk])  # type: ignore[return-value] # reads like one
        stream = open(self.path, "rb")
        return GzipFile(fileobj=stream) if self._head.startswith(_GZIP) else stream  # type: ignore[return-value]


def _read_all(stream: BinaryIO, size_bytes: int) -> bytes:
    """Return so many bytes, fewer only at the end: decompressors return what they have."""
    block = stream.read(size_bytes)
    if 0 < len(block) < size_bytes:
        parts = [block]
        while block and sum(map(len, parts)) < size_bytes:
            block = stream.read(size_bytes - sum(map(len, parts)))
            parts.append(block)
        return b"".join(parts)
    return block


def _in_order(archive: ZipFile, path: str) -> list[ZipInfo]:
    """Return the members by the numbers in their names; no two of them may share bytes of the file."""
    members = archive.infolist()
    if not members:
        raise FormatError(path, "zip directory", 0, "has no chunk")
    end = 0
    for member in sorted(members, key=attrgetter("header_offset")):
        if member.header_offset < end:
            raise FormatError(path, "zip directory", member.header_offset, f"{member.filename} overlaps another chunk")
        end = member.header_offset + _LOCAL_HEADER_BYTES + member.compress_size
    if end > archive.start_dir:
        raise FormatError(path, "zip directory", archive.start_dir, f"a chunk ends at {end:#x}, in the directory")
    numbers = [_NUMBER.search(member.filename) for member in members]
    if all(numbers):
        in_order = sorted((int(number[1]), idx) for idx, number in enumerate(numbers) if number is not None)
        for (number, _), (following, _) in zip(in_order, in_order[1:], strict=False):
            if following != number + 1:
                raise FormatError(path, "zip directory", 0, f"chunk {following} follows chunk {number}")
        return [members[idx] for _, idx in in_order]
    return members
