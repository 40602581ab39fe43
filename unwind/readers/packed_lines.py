"""The lines of a text that may be compressed with zstd or gzip, as it is unpacked: it need not fit into memory.

What it may inflate to is bounded as for other compressed files (`icf.elf.compression`). A file that was cut off, as
that of a process that was killed, ends there.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from icf.elf.compression import check_inflated
from icf.errors import FormatError
from icf.filebytes import FileBytes
from unwind.readers.source import LINE_LIMIT, LineError

_ZSTD_MAGIC, _GZIP_MAGIC = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_PLAIN_BYTES = 1 << 20
_STORED_BYTES = 512  # that are unpacked at once: a block of zstd has four, and unpacks to 128 KiB
_WINDOW_BYTES = 1 << 27


class _Stream(Protocol):
    """A stream of zlib or zstandard."""

    def decompress(self, data: bytes, /) -> bytes: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


def unpacked_head(head: bytes) -> bytes:
    """Return the first bytes of a text from those of its file; none if they are damaged."""
    opened = _compression(head)[1]
    if opened is None:
        return head
    stream, text, at = opened(), b"", 0
    try:
        while not text and at < len(head):
            text = stream.decompress(head[at : at + _STORED_BYTES])
            at += _STORED_BYTES
    except _errors():
        return b""
    return text


def unpacked_lines(content: FileBytes) -> Iterator[bytes]:
    """Yield each line with its newline; the last one may lack it.

    Raises `FormatError` for damage, `IcfError` for what inflates to more than is usual.
    """
    rest, number = b"", 0
    for piece in _pieces(content):
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        number += len(lines)
        for line in lines:
            yield line + b"\n"
        if len(rest) >= LINE_LIMIT:
            raise LineError(content.path, "line", number + 1, f"longer than {LINE_LIMIT - 1} bytes")
    if rest:
        yield rest


def _pieces(content: FileBytes) -> Iterator[bytes]:
    name, opened = _compression(bytes(content[:4]))
    if opened is None:
        for at in range(0, len(content), _PLAIN_BYTES):
            yield bytes(content[at : at + _PLAIN_BYTES])
        return
    stream, size_bytes = opened(), 0
    for at in range(0, len(content), _STORED_BYTES):
        stored = bytes(content[at : at + _STORED_BYTES])
        while stored:
            try:
                piece = stream.decompress(stored)
            except _errors() as error:
                raise FormatError(content.path, name, at, f"data is corrupt: {error}") from error
            stored = stream.unused_data if stream.eof else b""
            if stream.eof:
                stream = opened()
            size_bytes += len(piece)
            check_inflated(size_bytes, len(content), content.path, name)
            yield piece


def _compression(head: bytes) -> tuple[str, Callable[[], _Stream] | None]:
    """Return the name of a compression, and what opens a stream of it; None if there is none."""
    if head.startswith(_ZSTD_MAGIC):
        return "zstd", _zstd
    return ("gzip", _gzip) if head.startswith(_GZIP_MAGIC) else ("", None)


def _gzip() -> _Stream:
    return zlib.decompressobj(_GZIP)


def _zstd() -> _Stream:
    from zstandard import ZstdDecompressor

    return ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()


def _errors() -> tuple[type[Exception], ...]:
    from zstandard import ZstdError

    return zlib.error, ZstdError
