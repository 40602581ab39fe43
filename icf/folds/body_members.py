"""The members of a body: rows of columns as long as they are plain, objects as soon as one is looked at.

Bodies of visitors have thousands of members, and nearly all are plain (`icf.folds.plain`): one symbol, and DIEs of its
name or none. Of those the pass needs some columns. A member that is asked for becomes an object, which may then be
changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, overload

import numpy as np

from icf.columns import I8, I64, U64, Mask
from icf.folds.member import FoldMember

UNKNOWN, REMOVED, KEPT = -1, 0, 1  # as PlainRows.kept


class SymbolNames(Protocol):
    """The names of a symbol table (`icf.elf.symbols.Symbols`)."""

    def name(self, row: int) -> str:
        """Return the name of one symbol."""

    def names(self, rows: I64) -> list[str]:
        """Return the names of many symbols."""


@dataclass(slots=True)
class PlainRows:
    """Columns of all plain members of an image: first those at shared addresses, then those that have a body alone."""

    symbol: I64  # row of the symbol table; its name is the member's
    symbols: SymbolNames
    is_local: Mask
    alone: Mask  # no other function shares its body
    kept: I8
    str_offset: I64  # of the name in .debug_str, if that is known, or NOWHERE
    start: I64  # first row of `die` and `root` of each member; one more than there are members
    die: U64  # ascending for each member
    root: U64
    files_of: Callable[[int, list[int]], frozenset[str]]  # source files of a local symbol and of DIEs

    def member(self, row: int) -> FoldMember:
        """Return one member as an object."""
        name, symbol, dies, kept = self.name(row), int(self.symbol[row]), self.dies(row), int(self.kept[row])
        is_kept, linkage = None if kept == UNKNOWN else kept == KEPT, name if dies else ""
        is_local = bool(self.is_local[row])
        member = FoldMember(name, [], [symbol], dies, self.roots(row), linkage, is_local, is_kept, self.files(row))
        member.str_offset = int(self.str_offset[row])
        return member

    def names(self, rows: Sequence[int] | I64) -> list[str]:
        """Return the names of some members. They are read again each time: a large program has 100 MB of them."""
        return self.symbols.names(self.symbol[np.asarray(rows, np.int64)])

    def name(self, row: int) -> str:
        """Return the name of one member."""
        return self.symbols.name(int(self.symbol[row]))

    def dies(self, row: int) -> list[int]:
        """Return the DIEs of one member."""
        found: list[int] = self.die[self.start[row] : self.start[row + 1]].tolist()
        return found

    def roots(self, row: int) -> set[int]:
        """Return the DIEs that declare one member, its own included."""
        return {*self.dies(row), *self.root[self.start[row] : self.start[row + 1]].tolist()}

    def files(self, row: int) -> frozenset[str]:
        """Return the source files of one member, if it is local: also those of its DIEs, if others may share its body.

        The symbols of its copies in other units may be dropped.
        """
        if not self.is_local[row]:
            return frozenset()
        return self.files_of(int(self.symbol[row]), [] if self.alone[row] else self.dies(row))

    def append(self, others: PlainRows) -> int:
        """Add more rows; return the first of them."""
        first, run = len(self.symbol), len(self.die)
        self.symbol = np.concatenate([self.symbol, others.symbol])
        self.is_local = np.concatenate([self.is_local, others.is_local])
        self.alone = np.concatenate([self.alone, others.alone])
        self.kept = np.concatenate([self.kept, others.kept])
        self.str_offset = np.concatenate([self.str_offset, others.str_offset])
        self.start = np.concatenate([self.start, others.start[1:] + run])
        self.die = np.concatenate([self.die, others.die])
        self.root = np.concatenate([self.root, others.root])
        return first

    def has_die(self, row: int) -> bool:
        """Return whether a DIE describes a member."""
        return bool(self.start[row] < self.start[row + 1])

    def first_dies(self, rows: I64) -> U64:
        """Return the first DIE of each of these members, 0 for none."""
        first = self.start[rows]
        return np.where(first < self.start[rows + 1], np.append(self.die, np.uint64(0))[first], np.uint64(0))

    def add_dies(self, rows: I64, counts: I64, die: U64, root: U64) -> None:
        """Add so many DIEs, and their roots, to each of these members, which have none; rows ascend."""
        before = np.diff(self.start)
        after = before.copy()
        after[rows] += counts
        start = np.append(0, np.cumsum(after))
        old = np.repeat(start[:-1] - self.start[:-1], before) + np.arange(len(self.die))
        new = np.repeat(start[rows] - (np.cumsum(counts) - counts), counts) + np.arange(len(die))
        dies, roots = np.empty((2, int(start[-1])), np.uint64)
        dies[old], roots[old] = self.die, self.root
        dies[new], roots[new] = die, root
        self.start, self.die, self.root = start, dies, roots


class _NoNames:
    def name(self, row: int) -> str:
        raise IndexError(row)

    def names(self, _rows: I64) -> list[str]:
        return []


NO_ROWS = PlainRows(
    np.empty(0, np.int64),
    _NoNames(),
    np.empty(0, np.bool_),
    np.empty(0, np.bool_),
    np.empty(0, np.int8),
    np.empty(0, np.int64),
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

    def mark_kept(self, idx: int) -> None:
        """Mark one member as kept and all others as removed."""
        for at, entry in enumerate(self.entries):
            if isinstance(entry, int):
                self.plain.kept[entry] = KEPT if at == idx else REMOVED
            else:
                entry.kept = at == idx

    @property
    def names(self) -> list[list[str]]:
        """The names of the symbols of each member; none for one that has no linkage name."""
        known = self._names_of_rows()
        return [[next(known)] if isinstance(entry, int) else entry.names for entry in self.entries]

    @property
    def linkage_names(self) -> list[Collection[str]]:
        """The names of the symbols of each member and, where it differs, the linkage name that DWARF has."""
        known = self._names_of_rows()
        return [
            (next(known),) if isinstance(entry, int) else {*entry.names, entry.linkage} - {""} if entry.names else ()
            for entry in self.entries
        ]

    def _names_of_rows(self) -> Iterator[str]:
        """Return the names of the members that are rows, in order."""
        return iter(self.plain.names([entry for entry in self.entries if isinstance(entry, int)]))

    def by_name(self) -> dict[str, list[int]]:
        """Return the members by each of their `linkage_names`."""
        found: dict[str, list[int]] = {}
        for idx, names in enumerate(self.linkage_names):
            for name in names:
                found.setdefault(name, []).append(idx)
        return found

    def names_of(self, idx: int) -> Sequence[str]:
        """Return the names of the symbols of one member; none if it has no linkage name."""
        entry = self.entries[idx]
        return (self.plain.name(entry),) if isinstance(entry, int) else entry.names

    def is_local(self, idx: int) -> bool:
        """Return whether one member has local linkage."""
        entry = self.entries[idx]
        return bool(self.plain.is_local[entry]) if isinstance(entry, int) else entry.local

    def files_of(self, idx: int) -> frozenset[str]:
        """Return the source files of one member, if it is local."""
        entry = self.entries[idx]
        if not isinstance(entry, int):
            return entry.files
        return self.plain.files(entry)

    def dies_of(self, idx: int) -> list[int]:
        """Return the concrete DIEs of one member."""
        entry = self.entries[idx]
        return self.plain.dies(entry) if isinstance(entry, int) else entry.dies

    def roots_of(self, idx: int) -> set[int]:
        """Return the DIEs that declare one member, the concrete ones included."""
        entry = self.entries[idx]
        return self.plain.roots(entry) if isinstance(entry, int) else entry.roots

    @property
    def nameless(self) -> list[int]:
        """The members that have no linkage name, by index."""
        return [idx for idx, entry in enumerate(self.entries) if not isinstance(entry, int) and entry.nameless]

    def may_lack_dies(self) -> list[FoldMember]:
        """Return the members of which there may be more DIEs than those at the body: of each of their files.

        Not those with external linkage that are rows.
        """
        return [
            member
            for idx, entry in enumerate(self.entries)
            if not isinstance(entry, int) or self._may_lack_dies(entry)
            for member in (self[idx],)
            if not member.nameless and len(member.dies) < max(len(member.files), 1)
        ]

    def _may_lack_dies(self, row: int) -> bool:
        return bool(self.plain.is_local[row]) and len(self.plain.dies(row)) < len(self.plain.files(row))

    def rows_without_die(self) -> list[int]:
        """Return the rows that no DIE describes."""
        return [entry for entry in self.entries if isinstance(entry, int) and not self.plain.has_die(entry)]

    def sort(self) -> None:
        """Sort the members by name; those of one name by source file and DIE."""
        known = self._names_of_rows()
        names = [next(known) if isinstance(entry, int) else entry.name for entry in self.entries]
        counts = Counter(names)
        keys: list[tuple[object, ...]] = [
            (name,) if counts[name] == 1 else (name, sorted(self[at].files), self[at].die)
            for at, name in enumerate(names)
        ]
        self.entries = [self.entries[at] for at in sorted(range(len(names)), key=keys.__getitem__)]
