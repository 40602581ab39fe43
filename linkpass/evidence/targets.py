"""What is known of the addresses that branches lead to, so that callees can be compared with it.

    at the address            declarations                  names
    merged body               of each member                of each member
    body of one function      of all DIEs there             of all symbols there
    PLT stub, slot of a GOT                                 of the imported symbol

Names are compared by their hashes, and those of their kin (`icf.aliases`); the few that have to be read are found again
by their row.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.aliases import WRAP
from icf.columns import I64, U64, Mask
from icf.folds.member_columns import MemberColumns
from icf.sets import difference, is_in, rows_of_runs
from icf.strings import hash_names
from linkpass.linked import Linked, Place
from linkpass.objects.member_names import wrapping_names


class Declarations(NamedTuple):
    """DIEs that declare functions, ascending."""

    die: U64
    target: I64
    member: I64  # 0 if the target is not merged


class Names(NamedTuple):
    """Names of functions, by the hash of their kin, ascending."""

    kin: U64
    hash: U64
    target: I64
    member: I64  # 0 if the target is not merged
    text: I64  # row of the symbol table, or -1 - index of another text


class Targets:
    """Addresses of code (`vaddrs`), then words in memory that hold an address (`slots`), numbered from 0."""

    def __init__(self, linked: Linked, vaddrs: U64, slots: U64) -> None:
        self.vaddr = np.append(vaddrs, slots)
        count = len(self.vaddr)
        self.is_merged: Mask = is_in(self.vaddr, linked.vaddrs) & (np.arange(count) < len(vaddrs))
        self.is_any = np.zeros(count, np.bool_)  # any function can be there
        self.is_any_local = np.zeros(count, np.bool_)  # any function with internal linkage can be
        self.is_wrapping = np.zeros(count, np.bool_)  # a member has the name of another function (--wrap)
        self._symbols = linked.image.symbols
        self._texts: list[str] = []
        self._declared: list[tuple[U64, I64, I64]] = []
        self._named: list[tuple[I64, I64, I64]] = []  # target, member, text: see `Names`
        self._add_merged(linked)
        self._add_code(linked, len(vaddrs))
        self._add_slots(linked, len(vaddrs))
        die, target, member = map(np.concatenate, zip(*self._declared, strict=True))
        order = np.argsort(die, kind="stable")
        self.declarations = Declarations(die[order], target[order], member[order])

    def names_of(self, target: int, kin: int | None = None) -> list[tuple[int, str]]:
        """Return the names of a target, or those with the hash `kin`, each with its member."""
        order, start = self._by_target
        rows = order[start[target] : start[target + 1]]
        if kin is not None:
            rows = rows[self.names.kin[rows] == kin]
        texts = self.names.text[rows].tolist()
        return list(zip(self.names.member[rows].tolist(), map(self._name, texts), strict=True))

    def _name(self, text: int) -> str:
        return self._symbols.name(text) if text >= 0 else self._texts[-1 - text]

    @cached_property
    def names(self) -> Names:
        """The names of all targets; hashed when they are first asked for."""
        target, member, text = map(np.concatenate, zip(*self._named, strict=True))
        is_symbol = text >= 0
        offsets = self._symbols.name_offset[text[is_symbol]]
        exact, kin = np.empty((2, len(text)), np.uint64)
        for hashes, of_kin in ((exact, False), (kin, True)):
            hashes[is_symbol] = self._symbols.strings.hashes(offsets, of_kin=of_kin)
            hashes[~is_symbol] = hash_names(self._texts, of_kin=of_kin)
        order = np.argsort(kin, kind="stable")
        return Names(kin[order], exact[order], target[order], member[order], text[order])

    @cached_property
    def _by_target(self) -> tuple[I64, I64]:
        """The rows of `names` by target, and the first of each target; one more than there are targets."""
        order = np.argsort(self.names.target, kind="stable")
        return order, np.searchsorted(self.names.target[order], np.arange(len(self.vaddr) + 1))

    def _add_merged(self, linked: Linked) -> None:
        targets = np.flatnonzero(self.is_merged)
        folds = [linked.folds[vaddr] for vaddr in self.vaddr[targets].tolist()]
        self.is_any_local[targets] = [not fold.complete for fold in folds]
        columns = MemberColumns([fold.members for fold in folds])
        target: I64 = np.repeat(targets, np.diff(columns.start))
        member: I64 = np.arange(len(columns)) - np.repeat(columns.start[:-1], np.diff(columns.start))
        rows, dies = columns.roots
        self._declared.append((dies, target[rows], member[rows]))
        rows, symbols = columns.symbol_of_plain
        self._named.append((target[rows], member[rows], symbols.astype(np.int64)))
        self._add_texts((int(target[row]), int(member[row]), name) for row, name in columns.names_of_others)
        wrapping = wrapping_names(columns, self._symbols)
        self._add_texts((int(target[row]), int(member[row]), name.removeprefix(WRAP)) for row, name in wrapping)
        self.is_wrapping[target[[row for row, _ in wrapping]]] = True

    def _add_code(self, linked: Linked, count: int) -> None:
        """Add PLT stubs, and bodies that are not merged; other addresses hold no function."""
        left = np.flatnonzero(~self.is_merged[:count])
        stubs = linked.image.plt_stubs
        is_stub = is_in(self.vaddr[left], np.fromiter(stubs, np.uint64))
        self._add_texts((row, 0, stubs[int(self.vaddr[row])].partition("@")[0]) for row in left[is_stub].tolist())
        left = left[~is_stub]
        left = left[is_in(self.vaddr[left], linked.bodies.start)]
        linked.finder.prepare(self.vaddr[left])
        table, row = linked.finder.alone(self.vaddr[left])
        alone, row = left[row >= 0], row[row >= 0]
        run, at = rows_of_runs(table.start[row], np.diff(table.start)[row])
        for die in (table.die[at], table.root[at]):
            self._declared.append((die, alone[run], np.zeros(len(at), np.int64)))
        self._named.append((alone, np.zeros(len(alone), np.int64), table.symbol[row]))
        if self._symbols.mentions(b"@"):
            names = zip(alone.tolist(), self._symbols.names(table.symbol[row].tolist()), strict=True)
            self._add_texts((target, 0, name.partition("@")[0]) for target, name in names if "@" in name)
        for target in difference(left, alone).tolist():
            member = linked.member(Place(int(self.vaddr[target]), 0))
            known = {member.name, member.linkage, *member.aliases} - {""} if member.symbols or member.dies else set()
            self._add_texts((target, 0, name.partition("@")[0]) for name in sorted(known))
            roots = np.array(sorted(member.roots), np.uint64)
            self._declared.append((roots, np.full(len(roots), target), np.zeros(len(roots), np.int64)))
            self.is_any_local[target] = not known

    def _add_slots(self, linked: Linked, first: int) -> None:
        """Add the symbols that are imported; a slot of another symbol may hold any function of the image."""
        sections = [section for section in linked.image.sections if section.name.startswith(".got")]
        for target in range(first, len(self.vaddr)):
            slot = int(self.vaddr[target])
            name = linked.image.got_imports.get(slot)
            if name is not None:
                self._add_texts([(target, 0, name.partition("@")[0])])
            else:
                self.is_any[target] = any(own.vaddr <= slot < own.vaddr + own.size_bytes for own in sections)

    def _add_texts(self, rows: Iterable[tuple[int, int, str]]) -> None:
        """Add names: the target, the member, the name of each."""
        added = list(rows)
        target, member = np.array([row[:2] for row in added], np.int64).reshape(-1, 2).T
        number = -1 - np.arange(len(self._texts), len(self._texts) + len(added))
        self._texts += [name for _, _, name in added]
        self._named.append((target, member, number))
