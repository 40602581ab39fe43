"""Headers of archive members."""

from __future__ import annotations


def header(name: str, size_bytes: int) -> bytes:
    return f"{name:16}{0:<12}{0:<6}{0:<6}{644:<8}{size_bytes:<10}`\n".encode()
