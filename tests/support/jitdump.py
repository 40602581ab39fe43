"""Jitdumps put together from records, in either byte order."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

MAGIC, VERSION, HEADER_BYTES, MACHINE = 0x4A695444, 1, 40, 62
LOAD, MOVE, LINES = 0, 1, 2


def header(pid: int = 77, order: str = "<", flags: int = 0) -> bytes:
    """Return the header of a process's file."""
    return pack(f"{order}6I2Q", MAGIC, VERSION, HEADER_BYTES, MACHINE, 0, pid, 5, flags)


def record(kind: int, content: bytes, time: int, order: str = "<") -> bytes:
    """Return a record."""
    return pack(f"{order}2IQ", kind, 16 + len(content), time) + content


def load(name: bytes, start: int, code: bytes, index: int, time: int, order: str = "<") -> bytes:
    """Return the record of a function that was made."""
    fields = pack(f"{order}2I4Q", 77, 78, start, start, len(code), index)
    return record(LOAD, fields + name + b"\0" + code, time, order)


def move(old: int, new: int, size_bytes: int, index: int, time: int, order: str = "<") -> bytes:
    """Return the record of a function that was moved."""
    return record(MOVE, pack(f"{order}2I5Q", 77, 78, new, old, new, size_bytes, index), time, order)


def lines(
    start: int, rows: Sequence[tuple[int, int, int, bytes]], time: int, order: str = "<", filling: bytes = b""
) -> bytes:
    """Return the record of the lines of the function that comes next: address, line, column, path each."""
    content = pack(f"{order}2Q", start, len(rows))
    for address, line, column, path in rows:
        content += pack(f"{order}Q2I", address, line, column) + path + b"\0"
    return record(LINES, content + filling, time, order)
