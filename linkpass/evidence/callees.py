"""Which functions at given addresses a callee that DWARF names can be.

    at the address           the callee is possible if
    merged body              it is a member: by its DIE or its declaration, else by its name
    body of one function     same DIE, same declaration, or a name in common; nameless code may be anything local
    PLT stub, GOT slot       it is the symbol that is imported

Two kinds of evidence ask. For merged bodies both get the same answers. They differ in the other targets:

    `dwarf`      does not ask about them: the branch of each site is known, and it leads to one function
    `aligned`    asks whether the branch can be that of a site. Only what cannot be the callee is ruled out: clones and
                 variants of the callee are possible, and so is code without a name.

Thousands of callees are asked about together. Declarations and names of all targets are columns, in which those of the
callees are looked up. Texts are read only where names of one kin differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.aliases import base_name, is_specialized, name_before_link, same_function
from icf.columns import I64, U64, Mask
from icf.folds.body_members import Members
from icf.folds.identity import Described
from icf.sets import distinct, is_in, rows_with, runs
from icf.strings import hash_names
from linkpass.evidence.targets import Targets
from linkpass.linked import Linked

_Name = tuple[I64, U64, U64, bool]
NONE, SEVERAL = -1, -2  # in place of a member
_ROWS = 1 << 16  # that are joined together
_DECLARED, _NAMED, _KIN = range(3)  # how sure a candidate is
_BUILTIN = "__builtin_"  # gcc's declarations: __builtin_memcpy is memcpy


class Candidates(NamedTuple):
    """What callees can be: a row for each pair, by callee and then by target."""

    callee: I64
    target: I64
    member: I64  # what declarations, or else equal names, mean: the index of a member, NONE or SEVERAL
    is_open: Mask  # other names of the kin may mean a member, too: see `Callees.settle`

    def rows(self, at: I64 | Mask) -> Candidates:
        """Return some of them."""
        return Candidates(self.callee[at], self.target[at], self.member[at], self.is_open[at])


class Callees:
    """The functions at some DIEs, ascending."""

    def __init__(self, linked: Linked, targets: Targets, dies: U64) -> None:
        identities = linked.finder.identities
        assert identities is not None
        self._debug, self._targets, self._dies, self._identities = linked.debug, targets, dies, identities
        self._known = identities.columns(dies)
        self._folds = linked.folds

    @property
    def is_local(self) -> Mask:
        """Which of them have internal linkage."""
        return ~self._known.external

    def members_of(self, callees: I64, targets: I64) -> I64:
        """Return the member of its merged target that each callee means, NONE or SEVERAL.

        Names are looked up only where no declaration fits: thousands of local functions may have one name.
        """
        pairs, row = np.unique(self._pair(callees, targets), return_inverse=True)
        found = self._members(pairs, callees[:0])
        left = np.flatnonzero(found == NONE)
        if len(left):
            named = distinct(pairs[left] // len(self._targets.vaddr))
            # members without DIEs may have such names: the tables refer to them in .debug_str once they have been read
            self._identities.of(self._dies[named].tolist())
            found[left] = self._members(pairs[left], named)
        return found[row]

    def _members(self, pairs: I64, named: I64) -> I64:
        """Return the member that each of the pairs, ascending, means; for `named` see `candidates`."""
        found = np.full(len(pairs), NONE)
        for candidates in self.candidates(np.ones(len(self._dies), np.int64), named):
            pair = self._pair(candidates.callee, candidates.target)
            asked = is_in(pair, pairs)
            found[np.searchsorted(pairs, pair[asked])] = self.settle(candidates.rows(asked))
        return found

    def _pair(self, callees: I64, targets: I64) -> I64:
        """Return a number for each pair."""
        return callees * len(self._targets.vaddr) + targets

    def candidates(self, site_counts: I64, named: I64 | None = None) -> Iterator[Candidates]:
        """Yield the targets with the declaration or the name of each callee, or with a name of its kin.

        They come for some callees after the other, each with so many sites: thousands of functions may have one name.
        `named`: the callees, ascending, that are looked up by name, too; by default all.
        """
        names = self._names(np.arange(len(self._dies)) if named is None else named)
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
            own, target, member = callees[low + at], known.target[row], known.member[row]
            found.append((own, target, np.where(self._are_others(own, target, member), SEVERAL, member), how))
        return self._once(*map(np.concatenate, zip(*found, strict=True)))

    def _are_others(self, callees: I64, targets: I64, members: I64) -> Mask:
        """Return which members the unit of a local callee declares elsewhere: nested functions of C have one name."""
        units = self._debug.unit_of(self._dies[callees])
        asked = self.is_local[callees] & (units >= 0) & self._targets.is_merged[targets]
        asked[asked] = is_in(self._member_and_unit(targets[asked], members[asked], units[asked]), self._declared)
        return asked

    @cached_property
    def _declared(self) -> I64:
        """The members and the units that declare them, ascending."""
        known = self._targets.declarations
        return distinct(self._member_and_unit(known.target, known.member, self._debug.unit_of(known.die)))

    def _member_and_unit(self, targets: I64, members: I64, units: I64) -> I64:
        """Return a number for each member of a target and a unit."""
        count = int(self._targets.declarations.member.max(initial=0)) + 2
        found: I64 = (targets * count + np.minimum(members, count - 1)) * (len(self._debug.units) + 1) + units + 1
        return found

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
        member = np.where(best == _KIN, NONE, np.where(lowest == highest, lowest, SEVERAL))
        return Candidates(callee, target, member, is_open)

    def _names(self, named: I64) -> list[_Name]:
        """Return names of callees: which these are, hashes, those of their kin, whether members can have such names."""
        if not len(named):
            return []
        known = self._known
        found = [(named, known.name_hash[named], known.kin_hash[named], True)]
        if not self._targets.is_merged.all():
            plain = named[known.linkage_name[named] == 0]
            texts = [text.decode("utf-8", "surrogateescape") for text in self._debug.strings(known.name[plain])]
            builtin = [(at, text) for at, text in zip(plain.tolist(), texts, strict=True) if text.startswith(_BUILTIN)]
            meant = [text.removeprefix(_BUILTIN) for _, text in builtin]
            at = np.array([at for at, _ in builtin], np.int64)
            found.append((at, hash_names(meant), hash_names(meant, of_kin=True), False))
        return found

    def settle(self, candidates: Candidates) -> I64:
        """Return the member that each candidate is, NONE or SEVERAL. The names of open ones are read."""
        found = candidates.member.copy()
        rows = np.flatnonzero(candidates.is_open)
        callees, targets = candidates.callee[rows], candidates.target[rows]
        dies = self._dies[callees].tolist()
        described = self._identities.of(dies)
        known: dict[tuple[object, ...], _MembersOfUnits] = {}  # thousands of units may call one function
        for row, die, callee, kin, target in zip(
            rows.tolist(), dies, described, self._known.kin_hash[callees].tolist(), targets.tolist(), strict=True
        ):
            if self._targets.is_merged[target]:
                key = target, kin, callee.linkage or callee.name, callee.external, callee.from_abstract
                if key not in known:
                    named = self._targets.names_of(target, kin)
                    members = {member for member, name in named if _is_member(callee, name)}
                    known[key] = _MembersOfUnits(self._folds[int(self._targets.vaddr[target])].members, members)
                members = known[key].callable_from(self._identities.files_of([die]))
            else:
                members = {member for member, name in self._targets.names_of(target) if _is_symbol(callee, name)}
            if found[row] != NONE:
                members.add(int(found[row]))
            if members:
                found[row] = members.pop() if len(members) == 1 else SEVERAL
        return found


class _MembersOfUnits:
    """Some members of a body, by the units that can call them: a clone for certain arguments is its unit's alone."""

    def __init__(self, body: Members, members: set[int]) -> None:
        self._all = members
        self._of_any: set[int] = set()
        self._of_file: dict[str, set[int]] = {}
        for member in members if len(members) > 1 else ():
            files = body.files_of(member) if is_specialized(body[member].name) else frozenset()
            if not files:
                self._of_any.add(member)
            for file in files:
                self._of_file.setdefault(file, set()).add(member)

    def callable_from(self, files: frozenset[str]) -> set[int]:
        """Return those that a unit with one of these source files can call."""
        if not self._of_file or not files:
            return set(self._all)
        return self._of_any.union(*(self._of_file.get(file, ()) for file in files))


def _counts(ascending: U64, values: U64) -> I64:
    """Return in how many rows each value is."""
    return np.searchsorted(ascending, values, side="right") - np.searchsorted(ascending, values)


def _is_member(callee: Described, name: str) -> bool:
    """Return whether the name of a member may be that of the callee.

    A clone (foo.isra.0) is local to its unit, where a DIE with code describes it. So in a unit that has none, a call of
    foo means foo itself. Where the linker has overwritten the address of that DIE, it may be of foo or of its clone;
    for local functions that stays open, as they may have namesakes. Link-time optimization renames local functions,
    not what describes them.
    """
    names = {name, name_before_link(name)}
    if callee.from_abstract and callee.external:
        names.add(base_name(name))
    return any(same_function(callee.linkage or callee.name, each) for each in names)


def _is_symbol(callee: Described, symbol: str) -> bool:
    """Return whether a symbol may be that of the callee, or of a clone or variant of it."""
    base = base_name(symbol)
    if not callee.linkage:
        return base in (callee.name, callee.name.removeprefix(_BUILTIN))
    return same_function(base, callee.linkage) or base == callee.linkage.removeprefix(_BUILTIN)  # of C, it is the name
