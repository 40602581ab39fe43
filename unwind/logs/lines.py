"""Read a text as it comes: many lines at once from a file, and from a pipe what is there, without waiting for more.

b"one\ntwo\nthr"  ──>  b"one\ntwo\n"       whole lines
(nothing comes)   ──>  QUIET                what was held back must go on
b"ee\nfour\n"     ──>  b"three\nfour\n"     `thr` is held back for a moment; a prompt goes on as it is
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from unwind.readers.source import poll_of

QUIET = b""
_CHUNK_BYTES = 1 << 20
_LINE_LIMIT = 1 << 18  # bytes of a line; what is longer shows no frame
_WAIT_MS = 50


def chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield what comes; QUIET where nothing more is there for a moment."""
    read = getattr(stream, "read1", stream.read)
    waiting = poll_of(stream)
    while chunk := read(_CHUNK_BYTES):
        yield chunk
        if waiting is not None and not waiting.poll(_WAIT_MS):
            yield QUIET


def whole_lines(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield text, and whether it is whole lines: else it goes on as it is. QUIET is yielded as it comes."""
    held: list[bytes] = []
    held_bytes = 0
    is_within = False  # a line whose beginning has gone on
    for chunk in chunks(stream):
        if chunk is QUIET:
            yield QUIET, True
            if held:
                yield b"".join(held), False
                held, held_bytes, is_within = [], 0, True
            continue
        if is_within:
            start = chunk.find(b"\n") + 1
            yield (chunk[:start] if start else chunk), False
            is_within = not start
            chunk = chunk[start:] if start else b""
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join([*held, chunk[:end]]), True
            held, held_bytes = [], 0
        if end < len(chunk):
            held.append(chunk[end:])
            held_bytes += len(chunk) - end
        if held_bytes > _LINE_LIMIT:
            yield b"".join(held), False
            held, held_bytes, is_within = [], 0, True
    if held:
        yield b"".join(held), True  # the last line has no newline
