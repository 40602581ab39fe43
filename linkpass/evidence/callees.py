"""Which targets a callee that DWARF names can be.

The question comes up where a branch is not known to belong to the call site, so the answer is cautious: a callee that
cannot be ruled out is possible.

    at the address           possible if
    merged body              the callee is a member
    body of one function     same DIE, same declaration, or a name in common; nameless code may be anything local
    PLT stub, GOT slot       it is the symbol that is imported

Thousands of callees are asked about together. Declarations and names of all targets are columns, in which those of the
callees are looked up. Texts are read only where names of one kin differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from icf.aliases import base_name, same_function
from icf.columns import I64, U64, Mask
from icf.folds.fold_index import FoldIndex
from icf.folds.identity import Described
from icf.sets import distinct, rows_with, runs
from icf.strings import hash_names
from linkpass.evidence.targets import Targets
from linkpass.linked import Linked

_Name = tuple[I64, U64, U64, bool]
NONE, SEVERAL = -1, -2  # in place of a member
_ROWS = 1 << 20  # that are joined together
_DECLARED, _NAMED, _KIN = range(3)  # how sure a candidate is
_BUILTIN = "__builtin_"  # gcc's declarations: __builtin_memcpy is memcpy


class Candidates(NamedTuple):
    """What callees can be: a row for each pair, by callee and then by target."""

    callee: I64
    target: I64
    member: I64  # of a merged body: the one that is meant, NONE or SEVERAL
    is_open: Mask  # nothing but names of one kin: see `Callees.settle`

    def rows(self, at: I64 | Mask) -> Candidates:
        """Return some of them."""
        return Candidates(self.callee[at], self.target[at], self.member[at], self.is_open[at])


class Settled(NamedTuple):
    """What candidates are."""

    can_be: Mask
    member: I64  # as in `Candidates`


class Callees:
    """The functions at some DIEs, ascending."""

    def __init__(self, linked: Linked, targets: Targets, dies: U64) -> None:
        identities = linked.finder.identities
        assert identities is not None
        self._linked, self._targets, self._dies, self._identities = linked, targets, dies, identities
        self._known = identities.columns(dies)
        self._indexes: dict[int, FoldIndex] = {}

    @property
    def is_local(self) -> Mask:
        """Which of them have internal linkage."""
        return ~self._known.external

    def candidates(self, site_counts: I64) -> Iterator[Candidates]:
        """Yield the targets with the declaration or the name of each callee, or with a name of its kin.

        They come for some callees after the other, each with so many sites: thousands of functions may have one name.
        """
        names = self._names()
        declared = self._dies, self._known.root
        sizes = sum((_counts(self._targets.declarations.die, dies) for dies in declared), np.zeros(1, np.int64))
        for callees, _, kin, _ in names:
            np.add.at(sizes, callees, _counts(self._targets.names.kin, kin))
        sizes = sizes * site_counts
        part = (np.cumsum(sizes) - sizes) // _ROWS
        for _, first, end in zip(*(column.tolist() for column in runs(part)), strict=True):
            found = self._candidates(declared, names, first, end)
            if len(found.callee):
                yield found

    def _candidates(self, declared: tuple[U64, U64], names: list[_Name], first: int, end: int) -> Candidates:
        """Return those of the callees from `first` to `end`."""
        declarations, known, is_merged = self._targets.declarations, self._targets.names, self._targets.is_merged
        found = []  # callee, target, member, how sure it is
        for dies in declared:
            at, row = rows_with(declarations.die, dies[first:end])
            how = np.full(len(row), _DECLARED)
            found.append((first + at, declarations.target[row], declarations.member[row], how))
        for callees, exact, kin, of_merged in names:
            low, high = np.searchsorted(callees, [first, end]).tolist()
            at, row = rows_with(known.kin, kin[low:high])
            if not of_merged:
                keep = ~is_merged[known.target[row]]
                at, row = at[keep], row[keep]
            how = np.where(known.hash[row] == exact[low + at], _NAMED, _KIN)
            found.append((callees[low + at], known.target[row], known.member[row], how))
        return self._once(*map(np.concatenate, zip(*found, strict=True)))

    def _once(self, callee: I64, target: I64, member: I64, how: I64) -> Candidates:
        """Return each pair of these rows once, with the member that the surest of them mean."""
        order = np.lexsort((how, target, callee))
        callee, target, member, how = callee[order], target[order], member[order], how[order]
        is_first = np.append(True, (callee[1:] != callee[:-1]) | (target[1:] != target[:-1]))[: len(how)]
        first = np.flatnonzero(is_first)
        if not len(first):
            return Candidates(callee, target, member, is_first)
        pair = np.cumsum(is_first) - 1
        is_surest = how == how[first[pair]]
        starts = np.flatnonzero(np.append(True, np.diff(pair[is_surest]) != 0))
        lowest, highest = (each.reduceat(member[is_surest], starts) for each in (np.minimum, np.maximum))
        callee, target, best, worst = callee[first], target[first], how[first], np.maximum.reduceat(how, first)
        is_open = np.where(
            self._targets.is_merged[target],
            ((best != _DECLARED) & (worst == _KIN)) | self._targets.is_wrapping[target],
            best == _KIN,
        )
        return Candidates(callee, target, np.where(lowest == highest, lowest, SEVERAL), is_open)

    def _names(self) -> list[_Name]:
        """Return names of callees: which these are, hashes, those of their kin, whether members can have such names."""
        known = self._known
        plain = np.flatnonzero(known.linkage_name == 0)
        texts = [text.decode("utf-8", "surrogateescape") for text in self._linked.debug.strings(known.name[plain])]
        builtin = [(at, text) for at, text in zip(plain.tolist(), texts, strict=True) if text.startswith(_BUILTIN)]
        meant = [text.removeprefix(_BUILTIN) for _, text in builtin]
        at = np.array([at for at, _ in builtin], np.int64)
        return [
            (np.arange(len(self._dies)), known.name_hash, known.kin_hash, True),
            (at, hash_names(meant), hash_names(meant, of_kin=True), False),
        ]

    def settle(self, candidates: Candidates) -> Settled:
        """Read the names of open candidates."""
        rows = np.flatnonzero(candidates.is_open)
        callees = distinct(self._dies[candidates.callee[rows]]).tolist()
        described = dict(zip(callees, self._identities.of(callees), strict=True))
        member, can_be = candidates.member.copy(), np.ones(len(candidates.callee), np.bool_)
        for row, callee, target in zip(
            rows.tolist(), candidates.callee[rows].tolist(), candidates.target[rows].tolist(), strict=True
        ):
            die = int(self._dies[callee])
            if self._targets.is_merged[target]:
                members = self._index(int(self._targets.vaddr[target])).members_of(die, described[die])
                member[row] = members[0] if len(members) == 1 else SEVERAL
                can_be[row] = bool(members)
            else:
                can_be[row] = any(_is_symbol(described[die], name) for name in self._targets.names_of(target))
        return Settled(can_be, member)

    def _index(self, vaddr: int) -> FoldIndex:
        index = self._indexes.get(vaddr)
        if index is None:
            index = self._indexes[vaddr] = FoldIndex(self._linked.folds[vaddr])
        return index


def _counts(ascending: U64, values: U64) -> I64:
    """Return in how many rows each value is."""
    return np.searchsorted(ascending, values, side="right") - np.searchsorted(ascending, values)


def _is_symbol(callee: Described, symbol: str) -> bool:
    """Return whether a symbol may be that of the callee, or of a clone or variant of it."""
    base = base_name(symbol)
    if not callee.linkage:
        return base in (callee.name, callee.name.removeprefix(_BUILTIN))
    return same_function(base, callee.linkage) or base == callee.linkage.removeprefix(_BUILTIN)  # of C, it is the name
