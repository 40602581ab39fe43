"""The units of the methods of local classes: two units may have a class of one name.

    a.cpp   (anonymous namespace)::V::b()   its symbol stands after the STT_FILE symbol `a.cpp`
    b.cpp   (anonymous namespace)::V::b()   another method; its symbol stands after `b.cpp`

A unit is known by its source file, which is certain if no other unit has a file of that name. A vtable of a local class
holds no method of a local class of another file.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from icf.columns import I64, Mask
from icf.elf.symbols import Symbols
from icf.elf.types import STB_LOCAL, STT_FILE, STT_FUNC, STT_OBJECT, source_name
from icf.sets import distinct, is_in
from linkpass.pointers.class_methods import ClassMethods

SHARED, UNCERTAIN = 0, 1  # the method is of a class that all units share; its unit is not certain
_FIRST = 2  # number of a unit


class MethodUnits:
    """The units of the members of some bodies, as far as they are methods of local classes."""

    def __init__(self, symbols: Symbols, vtables: I64, methods: ClassMethods, rows: I64) -> None:
        """Take the symbols of vtables, ascending, and the methods of local classes, rows of `methods`."""
        members = self._members = methods.members
        self._local = distinct(methods.member[rows])
        owner, own = members.symbols
        named = np.concatenate([vtables, own[is_in(owner, self._local)].astype(np.int64)])
        of_one_unit = _files_of_one_unit(symbols, distinct(named)) if len(self._local) else []
        self._number = {name: number for number, name in enumerate(of_one_unit, _FIRST)}
        self.count = _FIRST + len(of_one_unit)  # numbers
        self._files = members.files_at(self._local)
        # by member: the number of a file that is of one unit, or SHARED
        self.unit: I64 = np.full(len(members), SHARED, np.int64)
        self.unit[self._local] = [self._unit_of(row) for row in self._local.tolist()]
        self.is_certain: Mask = self.unit != UNCERTAIN
        self._is_spelled = np.ones(len(members), np.bool_)  # the file, as that of a vtable is: by a symbol
        self._is_spelled[members.dies[0]] = False
        self._is_spelled[members.symbols[0]] = True
        is_local = (symbols.bind == STB_LOCAL) & (symbols.visibility == 0)  # what LTO makes local is hidden
        files = [symbols.file_name(row) if is_local[row] else "" for row in vtables.tolist()]
        each, self._file_of_vtable = np.unique(files, return_inverse=True)
        self._vtables, self._vtable_files = vtables, each.tolist()

    def can_be_in(self, vtables: I64, members: I64) -> Mask:
        """Return which members can be in which vtables, given by their symbols."""
        can_be, count = np.ones(len(members), np.bool_), len(self._vtable_files)
        rows = np.flatnonzero(is_in(members, self._local) & self._is_spelled[members])
        files = self._file_of_vtable[np.searchsorted(self._vtables, vtables[rows])]
        pair, at = np.unique(members[rows] * count + files, return_inverse=True)
        can = [self._can_be_of(*divmod(each, count)) for each in pair.tolist()]
        can_be[rows] = np.array(can, np.bool_)[at]
        return can_be

    def may_override(self, member: int, vtable: int) -> bool:
        """Return whether a member is of the unit of a vtable, or of a class that all units share."""
        unit = int(self.unit[member])
        file = self._vtable_files[self._file_of_vtable[np.searchsorted(self._vtables, vtable)]]
        return unit == SHARED or (unit != UNCERTAIN and unit == self._number.get(file))

    def are_mixed_up(self, have_slots: Mask) -> I64:
        """Return the members whose DIEs may be those of another one: of another file, or of one name.

        That one has the same DIE, or no slot.
        """
        rows = self._local[~self.is_certain[self._local]]
        body = np.searchsorted(self._members.start, rows, side="right")
        keys = list(zip(body.tolist(), self._members.names_at(rows), strict=True))
        doubtful = {key for key, has in zip(keys, have_slots[rows].tolist(), strict=True) if not has}
        owner, dies = self._members.dies
        is_asked = is_in(owner, rows)
        _, die, counts = np.unique(dies[is_asked], return_inverse=True, return_counts=True)
        key_of = dict(zip(rows.tolist(), keys, strict=True))
        doubtful.update(key_of[row] for row in owner[is_asked][counts[die] > 1].tolist())
        several = [key in doubtful or len(self._files.get(row, ())) > 1 for row, key in key_of.items()]
        return rows[np.array(several, np.bool_)]

    def _can_be_of(self, member: int, file: int) -> bool:
        own, name = self._files.get(member), self._vtable_files[file]
        return not own or not name or name in own

    def _unit_of(self, member: int) -> int:
        files = self._files.get(member, frozenset())
        return self._number.get(min(files), UNCERTAIN) if len(files) == 1 else UNCERTAIN


def _files_of_one_unit(symbols: Symbols, named: I64) -> list[str]:
    """Return the names of source files that one unit has; `named`: symbols to which that matters.

    No object has two symbols of one name. If that seems so, one of them is of an object without a STT_FILE symbol.
    """
    is_local = (symbols.bind == STB_LOCAL) & is_in(symbols.type, np.array([STT_FUNC, STT_OBJECT], np.uint8))
    rows = np.flatnonzero(is_local & (symbols.file_rows >= 0))
    name_hash = symbols.hashes(rows)
    matters = is_in(name_hash, symbols.hashes(named))
    files, hashes = symbols.file_rows[rows[matters]].astype(np.uint64), name_hash[matters]
    order = np.lexsort((hashes, files))
    files, hashes = files[order], hashes[order]
    is_again = (files[1:] == files[:-1]) & (hashes[1:] == hashes[:-1])
    of_several = set(symbols.names(distinct(files[1:][is_again]).astype(np.int64)))
    times = Counter(map(source_name, symbols.names(np.flatnonzero(symbols.type == STT_FILE))))
    return sorted(name for name, count in times.items() if name and count == 1 and name not in of_several)
