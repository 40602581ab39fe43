"""What names the functions at a body: symbols of the image, and other evidence."""

from __future__ import annotations

from typing import NamedTuple

from icf.folds.member import FoldMember


class Named(NamedTuple):
    """A symbol at a body."""

    name: str
    row: int
    local: bool
    file: str  # source file of a local symbol, where known


class ReportedFunction(NamedTuple):
    """A function at a body that a linker's report or the objects name."""

    name: str
    file: str = ""  # source file of a local function, where known


def member_of(entries: list[Named]) -> FoldMember:
    """Return the member that some symbols name; its name is that of the first."""
    return FoldMember(
        entries[0].name,
        aliases=sorted({entry.name for entry in entries} - {entries[0].name}),
        symbols=[entry.row for entry in entries],
        local=entries[0].local,
        files=frozenset(entry.file for entry in entries if entry.file),
    )
