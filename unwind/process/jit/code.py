"""A function that a compiler made while the process ran."""

from __future__ import annotations

from typing import NamedTuple


class JitCode(NamedTuple):
    """Where it lies, and where an address in it comes from, if that is known."""

    name: str
    start: int
    size_bytes: int
    path: str = ""
    line: int = 0
    column: int = 0
