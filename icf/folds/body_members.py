"""The members of a body: rows of columns as long as they are plain, objects as soon as one is looked at.

Bodies of visitors have thousands of members, and nearly all are plain (`icf.folds.plain`): one symbol, and DIEs of its
name. Of those the pass needs some columns. A member that is asked for becomes an object, which may then be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, overload

import numpy as np

from icf.columns import I8, I64, U64, Mask
from icf.folds.member import FoldMember

UNKNOWN, REMOVED, KEPT = -1, 0, 1  # as PlainRows.kept


class PlainRows(NamedTuple):
    """Columns of all plain members of an image."""

    name: list[str]
    symbol: I64  # row of the symbol table
    is_local: Mask
    kept: I8
    start: I64  # first row of `die` and `root` of each member; one more than there are members
    die: U64  # ascending for each member
    root: U64
    files_of: Callable[[int, list[int]], frozenset[str]]  # source files of a local member, by its symbol and DIEs

    def member(self, row: int) -> FoldMember:
        """Return one member as an object."""
        name, symbol, run = self.name[row], int(self.symbol[row]), slice(self.start[row], self.start[row + 1])
        dies, is_local, kept = self.die[run].tolist(), bool(self.is_local[row]), int(self.kept[row])
        files = self.files_of(symbol, dies) if is_local else frozenset[str]()
        roots = {*dies, *self.root[run].tolist()}
        is_kept = None if kept == UNKNOWN else kept == KEPT
        return FoldMember(name, [], [symbol], dies, roots, name, is_local, is_kept, files)


NO_ROWS = PlainRows(
    [],
    np.empty(0, np.int64),
    np.empty(0, np.bool_),
    np.empty(0, np.int8),
    np.zeros(1, np.int64),
    np.empty(0, np.uint64),
    np.empty(0, np.uint64),
    lambda _symbol, _dies: frozenset(),
)


class Members(Sequence[FoldMember]):
    """The members of one body, in order."""

    def __init__(self, entries: Iterable[int | FoldMember] = (), plain: PlainRows = NO_ROWS) -> None:
        """Take the members as objects, or as rows of `plain`."""
        self.plain, self.entries = plain, list(entries)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, idx: int) -> FoldMember: ...
    @overload
    def __getitem__(self, idx: slice) -> list[FoldMember]: ...
    def __getitem__(self, idx: int | slice) -> FoldMember | list[FoldMember]:
        if isinstance(idx, slice):
            return [self[at] for at in range(len(self))[idx]]
        entry = self.entries[idx]
        if isinstance(entry, int):
            entry = self.entries[idx] = self.plain.member(entry)
        return entry

    def append(self, member: FoldMember) -> None:
        """Add a member that has been found late."""
        self.entries.append(member)

    @property
    def names(self) -> list[list[str]]:
        """The names of the symbols of each member; none for one that has no linkage name."""
        known = self.plain.name
        return [[known[entry]] if isinstance(entry, int) else entry.names for entry in self.entries]

    def may_lack_dies(self) -> list[FoldMember]:
        """Return the members of which there may be more DIEs than those at the body: of each of their files."""
        return [
            member
            for idx, entry in enumerate(self.entries)
            if not isinstance(entry, int) or self.plain.is_local[entry]
            for member in (self[idx],)
            if not member.nameless and len(member.dies) < max(len(member.files), 1)
        ]

    def sort(self) -> None:
        """Sort the members by name; those of one name by source file and DIE."""
        known = self.plain.name
        names = [known[entry] if isinstance(entry, int) else entry.name for entry in self.entries]
        if len(set(names)) == len(names):
            order = sorted(range(len(names)), key=names.__getitem__)
        else:
            of_name = [(member.name, sorted(member.files), member.die) for member in self]
            order = sorted(range(len(names)), key=of_name.__getitem__)
        self.entries = [self.entries[at] for at in order]
