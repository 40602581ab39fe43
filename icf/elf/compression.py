"""Compressed sections: inflates them with a bounded result, and compresses the same way again.

There are two formats. With SHF_COMPRESSED the section starts with a header that names the method (zlib or
zstd), the size and the alignment of the real contents; the older `.zdebug_*` sections start with
"ZLIB" and the size as eight big-endian bytes.

The reader does not trust the size in the header: the stored bytes must be able to reach it. Deflate
expands one byte to at most 1032; zstd four bytes to at most a 128 KiB block. Output is collected as it
comes, so a lying header costs no memory, and its size must be exactly the announced one.

That alone is not a bound: 133 KB of zstd can be 3 GB of zeros. Debug information gets some 3 to 20 times shorter, so
a section of more than 64 MiB and more than 100 times its stored size is refused (`ICF_INFLATE_RATIO` raises that).
"""

from __future__ import annotations

import os
import zlib
from enum import Enum
from typing import NamedTuple

from icf.elf.types import CHDR, ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD
from icf.errors import FormatError, IcfError, UnsupportedError
from icf.reader import Reader

_ZLIB_RATIO = 1032
_ZSTD_RATIO = 128 * 1024 // 4
_CHUNK_SIZE_BYTES = 4 << 20
_ALWAYS_BYTES, _USUAL_RATIO = 64 << 20, 100
_RATIO_VARIABLE = "ICF_INFLATE_RATIO"
_GNU_MAGIC = b"ZLIB"


class Method(Enum):
    """How a section is compressed."""

    ZLIB = "zlib"
    ZSTD = "zstd"
    ZLIB_GNU = "zlib-gnu"


class CompressionHeader(NamedTuple):
    """The header before the compressed bytes."""

    method: Method
    header_size_bytes: int
    size_bytes: int  # of the inflated contents
    align: int


def is_gnu_compressed(name: str, stored: memoryview) -> bool:
    """Return whether a section without SHF_COMPRESSED is compressed the old way."""
    return name.startswith(".zdebug_") and bytes(stored[:4]) == _GNU_MAGIC


def parse_header(stored: memoryview, path: str, section: str, *, gnu: bool) -> CompressionHeader:
    """Read the compression header at the start of `stored`."""
    reader = Reader(stored, path, section)
    if gnu:
        reader.take(len(_GNU_MAGIC))
        size_bytes = int.from_bytes(reader.take(8), "big")
        header = CompressionHeader(Method.ZLIB_GNU, reader.pos, size_bytes, 1)
    else:
        kind, _, size_bytes, align = CHDR.unpack(reader.take(CHDR.size))
        if kind not in (ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD):
            raise UnsupportedError(f"{path}: {section}: compression method {kind} is not handled, zlib and zstd are")
        method = Method.ZLIB if kind == ELFCOMPRESS_ZLIB else Method.ZSTD
        header = CompressionHeader(method, reader.pos, size_bytes, align)
    ratio = _ZSTD_RATIO if header.method is Method.ZSTD else _ZLIB_RATIO
    if header.size_bytes > reader.remaining * ratio:
        raise reader.error(
            f"{reader.remaining} compressed bytes cannot hold the announced {header.size_bytes} bytes", 0
        )
    return header


def inflate(stored: memoryview, path: str, section: str, *, gnu: bool) -> bytearray:
    """Return the contents of a compressed section."""
    header = parse_header(stored, path, section, gnu=gnu)
    check_inflated(header.size_bytes, len(stored), path, section)
    packed = stored[header.header_size_bytes :]
    unpack = _inflate_zstd if header.method is Method.ZSTD else _inflate_zlib
    contents = unpack(packed, header, path, section)
    if len(contents) != header.size_bytes:
        raise FormatError(
            path, section, 0, f"inflates to {len(contents)} bytes or more, its header says {header.size_bytes}"
        )
    return contents


def check_inflated(size_bytes: int, stored_size_bytes: int, path: str, section: str) -> None:
    """Raise `IcfError` if so many bytes are more than what is stored usually inflates to."""
    limit_bytes = max(_ALWAYS_BYTES, _ratio() * stored_size_bytes)
    if size_bytes > limit_bytes:
        raise IcfError(
            f"{path}: {section}: inflates to {size_bytes} bytes from {stored_size_bytes}, the limit is {limit_bytes}",
            hint=f"{_RATIO_VARIABLE}=N allows N bytes for each that is stored, now {_ratio()}",
        )


def _ratio() -> int:
    text = os.environ.get(_RATIO_VARIABLE, "")
    if not text:
        return _USUAL_RATIO
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise IcfError(f"{_RATIO_VARIABLE}: {text!r} is not a number")
    return int(text)


def compress(contents: bytes | bytearray | memoryview, header: CompressionHeader) -> bytes:
    """Return `contents` as a section compressed like the one that `header` was read from, header included."""
    header = header._replace(size_bytes=len(contents))
    if header.method is Method.ZSTD:
        import zstandard

        packed = zstandard.ZstdCompressor(level=3).compress(contents)
    else:
        packed = zlib.compress(contents, 6)
    if header.method is Method.ZLIB_GNU:
        return _GNU_MAGIC + header.size_bytes.to_bytes(8, "big") + packed
    kind = ELFCOMPRESS_ZSTD if header.method is Method.ZSTD else ELFCOMPRESS_ZLIB
    return CHDR.pack(kind, 0, header.size_bytes, header.align) + packed


def _inflate_zlib(packed: memoryview, header: CompressionHeader, path: str, section: str) -> bytearray:
    inflater = zlib.decompressobj()
    contents = bytearray()
    at = 0
    try:
        while len(contents) <= header.size_bytes and not inflater.eof and at < len(packed):
            contents += inflater.decompress(packed[at : at + _CHUNK_SIZE_BYTES], _CHUNK_SIZE_BYTES)
            while inflater.unconsumed_tail and len(contents) <= header.size_bytes:
                contents += inflater.decompress(inflater.unconsumed_tail, _CHUNK_SIZE_BYTES)
            at += _CHUNK_SIZE_BYTES
    except zlib.error as error:
        raise FormatError(path, section, header.header_size_bytes, f"zlib data is corrupt: {error}") from error
    if not inflater.eof and len(contents) <= header.size_bytes:
        raise FormatError(path, section, len(packed), "zlib data has no end")
    return contents


def _inflate_zstd(packed: memoryview, header: CompressionHeader, path: str, section: str) -> bytearray:
    try:
        import zstandard
    except ImportError as error:
        raise UnsupportedError(
            f"{path}: {section}: zstd compression needs the Python package zstandard",
            hint="pip install zstandard",
        ) from error
    contents = bytearray()
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            while len(contents) <= header.size_bytes:  # linkers write several frames, one for each thread
                wanted = min(header.size_bytes + 1 - len(contents), _CHUNK_SIZE_BYTES)
                chunk = stream.read(wanted)
                if not chunk:
                    break
                contents += chunk
    except zstandard.ZstdError as error:
        raise FormatError(path, section, header.header_size_bytes, f"zstd data is corrupt: {error}") from error
    return contents
