"""Files that may be compressed with gzip (RFC 1952), with a bound on what they may inflate to.

The bound is that of compressed sections: 64 MiB, or 100 times the file if that is more (`icf.elf.compression`).
"""

from __future__ import annotations

import zlib

from icf.elf.compression import check_inflated
from icf.errors import FormatError
from icf.filebytes import FileBytes

_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 4 << 20


def inflate_head(head: bytes) -> bytes:
    """Return the first bytes of what a file holds, from its own first bytes; as they are if it is not compressed."""
    if not head.startswith(_MAGIC):
        return head
    try:
        return zlib.decompressobj(_GZIP).decompress(head, len(head))
    except zlib.error:
        return b""


def inflate_content(content: FileBytes) -> memoryview:
    """Return what a file holds; `FormatError` if it is damaged, `IcfError` if it inflates to more than is usual."""
    stored = content[:]
    if stored[:2] != _MAGIC:
        return stored
    inflated = bytearray()
    while len(stored):  # one member after the other
        inflater = zlib.decompressobj(_GZIP)
        start = len(content) - len(stored)
        rest: bytes | memoryview = stored
        while not inflater.eof:
            try:
                piece = inflater.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                raise FormatError(content.path, "gzip", start, f"data is corrupt: {error}") from error
            rest = inflater.unconsumed_tail
            if not piece and not rest and not inflater.eof:
                raise FormatError(content.path, "gzip", len(content), "data has no end")
            inflated += piece
            check_inflated(len(inflated), len(content), content.path, "gzip")
        stored = stored[len(stored) - len(inflater.unused_data) :]
        if stored[:2] != _MAGIC:  # padding
            break
    return memoryview(inflated).toreadonly()
