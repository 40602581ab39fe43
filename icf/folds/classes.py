"""Fold classes: which source functions share each body.

There are three witnesses, and each alone may be enough:

    symbols at one address      lld keeps every name; gold drops folded local ones, mold folded COMDAT ones
    DIEs at one address         gold; lld where addresses could be restored
    the linker's report         names every folded section; what it does not name was not folded

The finder first collects in bulk the addresses where anything may be folded, and there the members that need no thought
(`plain`). It then looks at the remaining bodies one after the other (`members`). An address with many descriptions is
usually one function that many units contain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from icf.aliases import is_abstract, is_cold_part, kin
from icf.columns import I64, U64
from icf.dwarf.scan import Functions
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.folds.body_members import NO_ROWS, Members, PlainRows
from icf.folds.functions import Bodies
from icf.folds.groups import Group, group_dies
from icf.folds.identity import Identities
from icf.folds.member import FoldMember
from icf.folds.members import match
from icf.folds.misnamed import find_misnamed
from icf.folds.named import Named, ReportedFunction
from icf.folds.original import lost_addresses
from icf.folds.plain import Plain, find_alone, find_plain
from icf.folds.reported import Reported
from icf.folds.tombstoned import Lacking, Tombstoned, is_unfolded
from icf.linkers import KeptSymbols
from icf.sets import difference, distinct, distinct_pairs, is_in, union


@dataclass(slots=True)
class Fold:
    """A body and the source functions that share it."""

    vaddr: int
    end: int
    members: Members
    fragment: bool = False  # a cold part, entered by jumps from its function
    complete: bool = True  # no further function can share the body


class FoldFinder:
    """Finds the merged bodies of one image."""

    def __init__(
        self,
        image: Image,
        bodies: Bodies,
        debug: DebugInfo | None = None,
        functions: Functions | None = None,
        reported: Reported | None = None,
    ) -> None:
        self.image = image
        self.bodies = bodies
        self.functions = functions if debug is not None else None
        self.identities = Identities(debug) if debug is not None else None
        self.reported = reported or Reported()
        self._lost: frozenset[int] = frozenset()
        self._plain: Plain | None = None
        self._rows = NO_ROWS  # of all plain members
        self._alone, self._row_of_alone = np.empty(0, np.uint64), np.empty(0, np.int64)  # bodies, and their rows
        self._tombstoned: Tombstoned | None = None
        if self.identities is not None and functions is not None:
            self._tombstoned = Tombstoned(self.identities, functions, bodies)

    def find(self) -> list[Fold]:
        """Return all merged bodies, by address."""
        folds = [self._fold_at(vaddr) for vaddr in self._shared_addresses().tolist()]
        folds = [fold for fold in folds if len(fold.members) > 1]
        if self._tombstoned is not None and self._tombstoned.has_any:
            self._tombstoned.describe(
                [
                    Lacking(member, fold.vaddr, fold.end - fold.vaddr)
                    for fold in folds
                    for member in fold.members.may_lack_dies()
                ],
                self._free_dies({fold.vaddr: fold.members for fold in folds}),
            )
            rows = [row for fold in folds for row in fold.members.rows_without_die()]
            self._tombstoned.describe_rows(self._rows, np.array(sorted(rows), np.int64), self.image.symbols)
        return folds

    def _free_dies(self, members_at: dict[int, Members]) -> Callable[[int], frozenset[int]]:
        """Return a function that finds the DIEs at a merged body that no member has."""

        @cache
        def free_at(vaddr: int) -> frozenset[int]:
            assert self.functions is not None
            members = members_at[vaddr]
            here = frozenset(self.functions.die[self.bodies.dwarf_at(vaddr)].tolist())
            return here.difference(*map(members.dies_of, range(len(members)))) if here else here

        return free_at

    def forget(self) -> None:
        """Drop what was read to find the classes, after the calls have been collected too."""
        self._tombstoned = None
        if self.identities is not None:
            self.identities.forget()

    def prepare(self, vaddrs: U64) -> None:
        """Read all that `members_at` needs for these bodies: together this is much cheaper."""
        vaddrs = difference(vaddrs, self._alone)
        found, bodies = find_alone(self.image, self.bodies, self.functions, self.identities, vaddrs)
        if self._rows is NO_ROWS:
            self._rows, first = found, 0
        else:
            first = self._rows.append(found)
        known = np.append(self._alone, bodies)
        order = np.argsort(known, kind="stable")
        rows = np.append(self._row_of_alone, np.arange(first, first + len(bodies)))
        self._alone, self._row_of_alone = known[order], rows[order]
        if self.identities is not None and self.functions is not None:
            rows = self.bodies.dwarf_rows[is_in(self.bodies.dwarf_low, difference(vaddrs, bodies))]
            self.identities.of(distinct(self.functions.die[rows]).tolist())

    def alone(self, vaddrs: U64) -> tuple[PlainRows, I64]:
        """Return the rows of the functions that have these bodies alone, -1 where that is not a row (`prepare`)."""
        if not len(self._alone):
            return self._rows, np.full(len(vaddrs), -1)
        at = np.minimum(np.searchsorted(self._alone, vaddrs), len(self._alone) - 1)
        return self._rows, np.where(self._alone[at] == vaddrs, self._row_of_alone[at], -1)

    def members_at(self, vaddr: int) -> Members:
        """Return the one source function at a body that is not merged: all symbols and DIEs there are its own."""
        at = bisect_left(self._alone.data, vaddr)
        if at == len(self._alone) or self._alone[at] != vaddr:
            return Members([self._member_at(vaddr)])
        return Members([int(self._row_of_alone[at])], self._rows)

    def _member_at(self, vaddr: int) -> FoldMember:
        named = self._named(self.bodies.symbols_at(vaddr))
        if not named:
            fold = self._fold_at(vaddr)
            return fold.members[0] if fold.members else FoldMember(f"sub_{vaddr:x}")
        member = FoldMember(
            named[0].name,
            aliases=sorted({entry.name for entry in named} - {named[0].name}),
            symbols=[entry.row for entry in named],
            local=named[0].local,
            files=frozenset(entry.file for entry in named if entry.file),
        )
        if self.functions is not None and self.identities is not None:
            member.dies = sorted(set(self.functions.die[self.bodies.dwarf_at(vaddr)].tolist()))
            member.roots = {*member.dies, *(described.root for described in self.identities.of(member.dies))}
        return member

    def undescribed(self) -> list[int]:
        """Return the bodies that may have further members for which the image has no evidence.

        gold drops the symbols of folded local functions, and of folded cold parts. If DWARF describes them
        they are found all the same; in bodies without debug information one may be missing. mold drops all symbols of
        folded sections, and the addresses in DWARF as well: then the size of a body is the only evidence. lld with -x
        is like mold for local functions.
        """
        bare = ~is_in(self.bodies.symbol_value, self.bodies.dwarf_low)
        without_symbol: list[int] = []
        if self._tombstoned is not None and self.image.linker.overwrites_addresses:
            sizes = self.bodies.end - self.bodies.start
            alike = self.bodies.start[is_in(sizes, self._tombstoned.nameless_sizes(self.image))]
            bare |= is_in(self.bodies.symbol_value, alike)
            without_symbol = difference(alike, self.bodies.symbol_value).tolist()
        names = self.image.symbols.names(self.bodies.symbol_rows[bare].tolist())
        values = self.bodies.symbol_value[bare].tolist()
        found = {vaddr for vaddr, name in zip(values, names, strict=True) if not is_unfolded(name)}
        return sorted(found.union(without_symbol))

    def _shared_addresses(self) -> U64:
        """Return addresses that may be merged bodies."""
        reported = self.reported.vaddrs  # also what a stub goes to, and functions without symbol and debug information
        several_symbols = union(repeated(self.bodies.symbol_value), reported[is_in(reported, self.bodies.start)])
        if self.identities is None or self.functions is None:
            return several_symbols
        if self._tombstoned is not None and self._tombstoned.has_any:
            self.identities.columns(distinct(self.functions.die))  # all are asked for later
        misnamed = find_misnamed(self.image, self.bodies, self.functions, self.identities)
        several_symbols = union(several_symbols, misnamed)
        at = is_in(self.bodies.dwarf_low, union(several_symbols, repeated(self.bodies.dwarf_low)))
        rows = self.bodies.dwarf_rows[at]
        known = self.identities.columns(distinct(self.functions.die[rows]))
        has_linkage = (known.linkage_name != 0) & (known.name_hash != 0)
        # One external function, described by several units, is not folded: most shared addresses of gold's
        # output are that. What remains is few enough to be looked at one by one.
        key = np.where(known.external & has_linkage, known.name_hash, known.root)
        row_key = key[np.searchsorted(known.die, self.functions.die[rows])]
        low = self.functions.low[rows]
        shared = union(several_symbols, repeated(distinct_pairs(low, row_key)[0]))
        rows = rows[is_in(low, shared)]
        self._lost = lost_addresses(self.identities.debug, self.image, self.functions, rows)
        lost = self._lost if self._knows_kept else None
        self._plain = find_plain(self.image, self.bodies, self.functions, self.identities, shared, lost)
        self._rows = self._plain.rows
        left = self.identities.columns(distinct(self.functions.die[rows[~self._plain.function_taken[rows]]]))
        self.identities.learn(left)
        self.identities.classes_of(left.die[left.linkage_name == 0].tolist())  # together, which is cheaper
        return shared

    def _named(self, symbol_rows: I64) -> list[Named]:
        symbols = self.image.symbols
        named = []
        for row in symbol_rows.tolist():
            local = bool(symbols.bind[row] == STB_LOCAL)
            named.append(Named(symbols.name(row), row, local, symbols.file_name(row) if local else ""))
        return named

    def _fold_at(self, vaddr: int) -> Fold:
        symbol_rows, dwarf_rows = self.bodies.symbols_at(vaddr), self.bodies.dwarf_at(vaddr)
        table, rows, left = self._rows, range(0), symbol_rows
        if self._plain is not None:
            rows = self._plain.runs.get(vaddr, rows)
            left = symbol_rows[~self._plain.symbol_taken[symbol_rows]]
            dwarf_rows = dwarf_rows[~self._plain.function_taken[dwarf_rows]]
        named = self._named(left)
        groups: list[Group] = []
        if self.functions is not None and self.identities is not None:
            dies = sorted(set(self.functions.die[dwarf_rows].tolist()))
            global_names = {entry.name for entry in named if not entry.local}
            groups = group_dies(self.identities, dies, self._lost, global_names)
        names = [*table.names(rows), *(entry.name for entry in named)]
        reported = self.reported.at(vaddr)
        staying, others = stay_rows(table, rows, groups, reported)
        plain = [table.member(row) for row in rows if row not in staying and table.has_die(row)]
        if len(staying) + len(plain) < len(rows):
            bare = [table.symbol[row] for row in rows if row not in staying and not table.has_die(row)]
            named = self._named(symbol_rows[is_in(symbol_rows, np.array([*left, *bare], np.int64))])
        rows_left = np.array(sorted(staying), np.int64)
        kept_of_rows = table.kept[rows_left]
        found = match(
            self.identities, groups, named, others, self._knows_kept, plain, kept_of_rows,
            drops_names=self.image.linker.kept_symbols.may_lack_some, of_kept=self._only_kept(named),
        )  # fmt: skip
        table.kept[rows_left] = kept_of_rows
        members = Members([*rows_left.tolist(), *found], table)
        self.reported.mark_kept(vaddr, members)
        members.sort()
        fragment = bool(names) and all(map(is_cold_part, names))
        if not names and self.functions is not None:
            parts = self.functions.part[dwarf_rows]
            fragment = bool(len(parts)) and bool((parts > 0).all())
        return Fold(vaddr, self.bodies.end_of(vaddr), members, fragment, self._is_complete(vaddr))

    def _only_kept(self, named: list[Named]) -> frozenset[int]:
        """Return the symbols that a removed function would not have: gold drops those that were local in an object."""
        if self.image.linker.kept_symbols is not KeptSymbols.GLOBAL:
            return frozenset()
        visibility = self.image.symbols.visibility
        return frozenset(entry.row for entry in named if entry.local and visibility[entry.row] == 0)

    @property
    def _knows_kept(self) -> bool:
        """Whether the image's own addresses are those of kept functions only."""
        return self.identities is not None and self.image.linker.overwrites_addresses

    def _is_complete(self, vaddr: int) -> bool:
        """Return whether all functions at the address are known: mold drops names, gold those of local functions."""
        kept = self.image.linker.kept_symbols
        if self.reported.given or (kept is KeptSymbols.ALL and not self.image.symbols.lacks_locals):
            return True
        return self.functions is not None and kept is not KeptSymbols.SOME


def stay_rows(
    table: PlainRows, rows: Sequence[int], groups: Sequence[Group], reported: list[ReportedFunction]
) -> tuple[frozenset[int], list[ReportedFunction]]:
    """Return the rows of a body to which nothing else there can belong, and all reported functions but the rows.

    A symbol without a DIE may have one without a linkage name. A reported function of a row's kin is, or is not, the
    row's, unless it has its very name: then it adds nothing.
    """
    if any(not group.linkage or is_abstract(group.linkage) for group in groups):
        rows = list(filter(table.has_die, rows))
    if not reported or not rows:
        return frozenset(rows), reported
    own, counts = table.names(rows), Counter(name for name, _ in reported)
    known = set(own)
    others = [each for each in reported if each.file or each.name not in known or counts[each.name] > 1]
    unsure = {kin(name) for name, _ in others}
    return frozenset(row for row, name in zip(rows, own, strict=True) if not unsure or kin(name) not in unsure), others


def repeated(values: U64) -> U64:
    """Return values that occur more than once in a sorted column."""
    return distinct(values[1:][values[1:] == values[:-1]])
