"""Columns of the members of several bodies: a row for each member, in the order of the bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from icf.columns import I8, I64, U64, Mask
from icf.folds.body_members import KEPT, NO_ROWS, REMOVED, UNKNOWN, Members, PlainRows
from icf.folds.member import FoldMember
from icf.sets import rows_of_runs

_KEPT = {None: UNKNOWN, False: REMOVED, True: KEPT}
Scalar = TypeVar("Scalar", bound=np.generic)
Pairs = tuple[I64, U64]  # a row, and a value of it


class MemberColumns:
    """Makes columns of members that may be rows of columns already."""

    def __init__(self, bodies: Sequence[Members | int], plain: PlainRows = NO_ROWS) -> None:
        """Take the members of bodies; of a body with one member, which is plain, its row of `plain` is enough."""
        of_bodies = [(body,) if isinstance(body, int) else body.entries for body in bodies]
        self.start: I64 = np.cumsum([0, *map(len, of_bodies)])  # first row of each body; one more than there are bodies
        others = (body.plain for body in bodies if not isinstance(body, int) and body.plain is not NO_ROWS)
        self._plain = plain if plain is not NO_ROWS else next(others, NO_ROWS)
        entries = list(chain.from_iterable(of_bodies))
        row_of = np.array([entry if isinstance(entry, int) else -1 for entry in entries], np.int64)
        self._rows = np.flatnonzero(row_of >= 0)
        self._plain_rows = row_of[self._rows]
        self._objects = {row: entry for row, entry in enumerate(entries) if not isinstance(entry, int)}

    def __len__(self) -> int:
        return int(self.start[-1])

    def member(self, row: int) -> FoldMember:
        """Return a member as an object, to be read only."""
        found = self._objects.get(row)
        return self._plain.member(int(self._plain_rows[np.searchsorted(self._rows, row)])) if found is None else found

    @property
    def names(self) -> list[str]:
        """The name of each member."""
        return self.names_at(np.arange(len(self)))

    def names_at(self, rows: I64) -> list[str]:
        """Return the names of some members. They are read again each time."""
        at = np.minimum(np.searchsorted(self._rows, rows), max(len(self._rows) - 1, 0))
        is_plain = self._rows[at] == rows if len(self._rows) else np.zeros(len(rows), np.bool_)
        known = iter(self._plain.names(self._plain_rows[at[is_plain]]))
        return [
            next(known) if plain else self._objects[row].name
            for row, plain in zip(rows.tolist(), is_plain.tolist(), strict=True)
        ]

    @property
    def str_offset(self) -> I64:
        """Where the name of each member is in .debug_str, or NOWHERE; it may be there all the same."""
        return self._column(self._plain.str_offset[self._plain_rows], lambda member: member.str_offset)

    @property
    def symbol_of_plain(self) -> Pairs:
        """The row of the symbol table that names each member without other names or symbols."""
        return self._rows, self._plain.symbol[self._plain_rows].astype(np.uint64)

    @property
    def names_of_others(self) -> list[tuple[int, str]]:
        """The linkage names of all other members, each with its row."""
        return [(row, name) for row, member in self._objects.items() for name in member.names]

    @property
    def linkage_of_others(self) -> list[tuple[int, str]]:
        """The linkage name that DWARF has of each of those others, with its row."""
        return [(row, member.linkage) for row, member in self._objects.items() if member.names and member.linkage]

    @property
    def aliases(self) -> list[tuple[int, str]]:
        """The other names of members, each with its row."""
        return [(row, alias) for row, member in self._objects.items() for alias in member.aliases]

    def files_at(self, rows: I64) -> dict[int, frozenset[str]]:
        """Return the source files of some members, by row; none for those without local symbols."""
        is_local = self._column(self._plain.is_local[self._plain_rows], lambda member: bool(member.files))
        return {row: self._files(row) for row in rows[is_local[rows]].tolist()}

    def _files(self, row: int) -> frozenset[str]:
        found = self._objects.get(row)
        return (
            self._plain.files(int(self._plain_rows[np.searchsorted(self._rows, row)])) if found is None else found.files
        )

    @property
    def die(self) -> U64:
        """The DIE that stands for each member, 0 for none."""
        return self._column(self._plain.first_dies(self._plain_rows), lambda member: member.die)

    @property
    def kept(self) -> I8:
        """What is known of each member: KEPT, REMOVED or UNKNOWN."""
        return self._column(self._plain.kept[self._plain_rows], lambda member: _KEPT[member.kept])

    @property
    def is_local(self) -> Mask:
        """Which members have internal linkage."""
        return self._column(self._plain.is_local[self._plain_rows], lambda member: member.local)

    @property
    def is_nameless(self) -> Mask:
        """Which members have no linkage name."""
        return self._column(np.zeros(len(self._rows), np.bool_), lambda member: member.nameless)

    @property
    def symbols(self) -> Pairs:
        """Rows of the symbol table."""
        ones = np.ones(len(self._rows), np.int64)
        return self._pairs(ones, self.symbol_of_plain[1], lambda member: member.symbols)

    @property
    def dies(self) -> Pairs:
        """Concrete DIEs."""
        count, at = self._runs()
        return self._pairs(count, self._plain.die[at], lambda member: member.dies)

    @property
    def roots(self) -> Pairs:
        """DIEs that declare a member, the concrete ones included; some come twice."""
        count, at = self._runs()
        of_plain = np.stack([self._plain.die[at], self._plain.root[at]], axis=1).reshape(-1)
        return self._pairs(2 * count, of_plain, lambda member: member.roots)

    def _runs(self) -> tuple[I64, I64]:
        """Return how many DIEs each plain member has, and their rows."""
        first = self._plain.start[self._plain_rows]
        count = self._plain.start[self._plain_rows + 1] - first
        return count, rows_of_runs(first, count)[1]

    def _column(self, of_plain: NDArray[Scalar], of_object: Callable[[FoldMember], int | None]) -> NDArray[Scalar]:
        column = np.empty(len(self), of_plain.dtype)
        column[self._rows] = of_plain
        column[list(self._objects)] = [of_object(member) for member in self._objects.values()]
        return column

    def _pairs(self, count: I64, of_plain: U64, of_object: Callable[[FoldMember], Iterable[int]]) -> Pairs:
        others = [(row, value) for row, member in self._objects.items() for value in of_object(member)]
        rows = np.concatenate([np.repeat(self._rows, count), np.array([row for row, _ in others], np.int64)])
        return rows, np.concatenate([of_plain, np.array([value for _, value in others], np.uint64)])
