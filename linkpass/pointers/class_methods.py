"""The members of bodies that are methods of classes, looked up by body and class for many slots at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from icf.columns import I64, U8, U64, Mask
from icf.folds.body_members import Members
from icf.folds.member_columns import MemberColumns
from icf.sets import rows_of_runs
from icf.vtables.methods import NO_DESTRUCTOR, keys_of_classes, read_methods

_PREFIX_BYTES = 2  # _Z


class ClassMethods:
    """The methods of some classes among the members of some bodies: rows, by body and class."""

    def __init__(self, bodies: Sequence[Members], classes: Sequence[str]) -> None:
        """Take the classes by their mangled types."""
        self.members = MemberColumns(bodies)
        self._class_count = len(classes)
        body_of_member = np.repeat(np.arange(len(bodies)), np.diff(self.members.start))
        names, member_of_name, is_nameless = _names(self.members)
        class_of_key, keys = keys_of_classes(classes)
        found, is_standard, is_any = read_methods(names, keys)

        order = np.argsort(keys, kind="stable")
        first, end = (np.searchsorted(keys[order], found.class_key, side=side) for side in ("left", "right"))
        row, at = rows_of_runs(first, end - first)
        name, class_idx = found.name[row], class_of_key[order[at]]
        member = member_of_name[name]
        number = self._numbers(body_of_member[member], class_idx)
        order = np.argsort(number, kind="stable")
        self._number, row = number[order], row[order]
        self.member: I64 = member[order]  # row of `members`
        self.function: I64 = self.member - self.members.start[body_of_member[self.member]]  # index in its body
        self.name: list[str] = [names[at] for at in name[order].tolist()]
        self.thunk_bytes: I64 = found.thunk_bytes[row]
        self.destructor: U8 = found.destructor[row]

        self.has_nameless: Mask = self._have(len(bodies), body_of_member[is_nameless])
        self.has_standard: Mask = self._have(len(bodies), body_of_member[member_of_name[is_standard]])
        self.has_any: Mask = self._have(len(bodies), body_of_member[member_of_name[is_any]])

    def find(self, bodies: I64, classes: I64) -> tuple[I64, I64]:
        """Return the methods that belong to one pair of a body and a class: the index of the pair, and the row."""
        wanted = self._numbers(bodies, classes)
        first, end = (np.searchsorted(self._number, wanted, side=side) for side in ("left", "right"))
        return rows_of_runs(first, end - first)

    def of_classes(self, are_wanted: Mask) -> I64:
        """Return the methods of some classes."""
        return np.flatnonzero(are_wanted[self._number % max(self._class_count, 1)])

    def counts(self, bodies: I64, classes: I64) -> I64:
        """Return how many methods belong to each pair of a body and a class."""
        wanted = self._numbers(bodies, classes)
        first, end = (np.searchsorted(self._number, wanted, side=side) for side in ("left", "right"))
        return np.asarray(end - first)

    def is_plain(self, rows: I64) -> Mask:
        """Return which methods are neither thunks nor destructors."""
        return np.asarray((self.thunk_bytes[rows] == 0) & (self.destructor[rows] == NO_DESTRUCTOR))

    def kind(self, row: int) -> tuple[str, int]:
        """Return the adjustment of `this` in the name of a method, and which destructor it is."""
        return self.name[row][_PREFIX_BYTES : _PREFIX_BYTES + int(self.thunk_bytes[row])], int(self.destructor[row])

    def roots_of(self, members: I64) -> tuple[I64, U64]:
        """Return the DIEs that declare some members, which are rows of `members`: the row, and the DIE."""
        rows, dies = self.members.roots
        is_wanted = np.zeros(len(self.members), np.bool_)
        is_wanted[members] = True
        return rows[is_wanted[rows]], dies[is_wanted[rows]]

    def _numbers(self, bodies: I64, classes: I64) -> I64:
        """Return a number for each pair: no more bodies and classes are asked for than the file has words."""
        return np.asarray(bodies * self._class_count + classes)

    @staticmethod
    def _have(body_count: int, bodies: I64) -> Mask:
        found = np.zeros(body_count, np.bool_)
        found[bodies] = True
        return found


def _names(members: MemberColumns) -> tuple[list[str], I64, Mask]:
    """Return the names of the symbols of all members, the member of each, and which members have none."""
    is_nameless = members.is_nameless
    names, member_of_name = members.names, np.arange(len(members))
    aliases = members.aliases
    if aliases or is_nameless.any():
        names = [*names, *(alias for _, alias in aliases)]
        member_of_name = np.append(member_of_name, np.array([row for row, _ in aliases], np.int64))
        named = np.flatnonzero(~is_nameless[member_of_name])
        names, member_of_name = [names[at] for at in named.tolist()], member_of_name[named]
    return names, member_of_name, is_nameless
