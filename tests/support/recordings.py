"""Recordings from bytes."""

from __future__ import annotations

import io
import tempfile
from typing import BinaryIO, cast

from unwind.readers.formats import reader_of
from unwind.readers.source import Source
from unwind.samples.recording import Recording


def source_of(content: bytes, path: str = "f") -> Source:
    """Return bytes as what a reader reads; the file is closed with the last reference to it."""
    stream = tempfile.TemporaryFile()
    stream.write(content)
    stream.seek(0)
    return Source(cast(BinaryIO, stream), path)


def read(name: str, content: bytes) -> Recording:
    """Return what the reader of a format makes of bytes."""
    reader = reader_of(name)
    return reader.read(source_of(content))


def recognizes(name: str, head: bytes) -> bool:
    """Return whether the reader of a format takes such a file."""
    return reader_of(name).recognizes(io.BytesIO(head).read(1 << 16))
