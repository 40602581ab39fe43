"""Columns of the members of several bodies: a row for each member, in the order of the bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from icf.columns import I8, I64, U64, Mask
from icf.folds.body_members import KEPT, NO_ROWS, REMOVED, UNKNOWN, Members
from icf.folds.member import FoldMember
from icf.sets import rows_of_runs

_KEPT = {None: UNKNOWN, False: REMOVED, True: KEPT}
Scalar = TypeVar("Scalar", bound=np.generic)
Pairs = tuple[I64, U64]  # a row, and a value of it


class MemberColumns:
    """Makes columns of members that may be rows of columns already."""

    def __init__(self, bodies: Sequence[Members]) -> None:
        self._bodies = bodies
        self.start: I64 = np.cumsum([0, *map(len, bodies)])  # first row of each body; one more than there are bodies
        self._plain = next((members.plain for members in bodies if members.plain is not NO_ROWS), NO_ROWS)
        self._entries = list(chain.from_iterable(members.entries for members in bodies))
        self._objects = [(row, entry) for row, entry in enumerate(self._entries) if not isinstance(entry, int)]
        is_plain = np.ones(len(self._entries), np.bool_)
        is_plain[[row for row, _ in self._objects]] = False
        self._rows = np.flatnonzero(is_plain)
        self._plain_rows = np.array([entry for entry in self._entries if isinstance(entry, int)], np.int64)

    def __len__(self) -> int:
        return len(self._entries)

    def member(self, row: int) -> FoldMember:
        """Return a member as an object."""
        body = int(np.searchsorted(self.start, row, side="right")) - 1
        return self._bodies[body][row - int(self.start[body])]

    @property
    def names(self) -> list[str]:
        """The name of each member."""
        known = self._plain.name
        return [known[entry] if isinstance(entry, int) else entry.name for entry in self._entries]

    @property
    def symbol_of_plain(self) -> Pairs:
        """The row of the symbol table that names each member without other names or symbols."""
        return self._rows, self._plain.symbol[self._plain_rows].astype(np.uint64)

    @property
    def names_of_others(self) -> list[tuple[int, str]]:
        """The linkage names of all other members, each with its row."""
        return [(row, name) for row, member in self._objects for name in member.names]

    @property
    def aliases(self) -> list[tuple[int, str]]:
        """The other names of members, each with its row."""
        return [(row, alias) for row, member in self._objects for alias in member.aliases]

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
        column[[row for row, _ in self._objects]] = [of_object(member) for _, member in self._objects]
        return column

    def _pairs(self, count: I64, of_plain: U64, of_object: Callable[[FoldMember], Iterable[int]]) -> Pairs:
        others = [(row, value) for row, member in self._objects for value in of_object(member)]
        rows = np.concatenate([np.repeat(self._rows, count), np.array([row for row, _ in others], np.int64)])
        return rows, np.concatenate([of_plain, np.array([value for _, value in others], np.uint64)])
