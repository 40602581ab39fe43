"""A function that a compiler made while the process ran."""

from __future__ import annotations

from typing import NamedTuple


class JitCode(NamedTuple):
    """A function's place, and the source of each address in it, if that is known."""

    name: str
    start: int
    size_bytes: int
    path: str = ""
    line: int = 0
    column: int = 0
