"""A `.debug_dcall` of another tool, read as members: which function calls which at each return address.

Such a table names DIEs: the callee's is often a mere declaration, the caller's may be missing. A record is
believed only if the machine code agrees: a direct call ends at its call site, the callee is a function at
the target, and the caller one at the source. Then three rules find the caller that it is about:

    the source is not merged       the one function there
    a caller record precedes it    that function
    no caller record precedes it   code of the record's own unit: its members, if each of them has a record of its own

A linker that overwrites references to folded functions (lld, mold) turns their records into what looks like caller
records: call site 0, and the DIE of a callee. So in its output only the kept function has a record at a call site;
another caller is believed if the kept function has a record there, too, which only a tool that ran after the link can
write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.folds.classes import Fold
from icf.folds.fold_index import FoldIndex
from icf.folds.identity import Identities
from icf.tables.dcall import DirectCalls


class DirectBranches(NamedTuple):
    """Calls of the machine code, by ascending return address: from one body to another, 0 for none."""

    end: U64
    source: U64
    target: U64


class TableCall(NamedTuple):
    """One statement of the table: at `end` the member `caller` calls one of `callees`; members by index."""

    end: int
    source: int
    caller: int
    target: int
    callees: tuple[int, ...]


class CallTable:
    """Reads the records of a table and checks them against the code and the fold classes of its image."""

    def __init__(
        self, calls: DirectCalls, branches: DirectBranches, folds: Mapping[int, Fold], identities: Identities
    ) -> None:
        self.dropped: Counter[str] = Counter()  # records that did not hold, by reason
        self._calls, self._branches = calls, branches
        self._folds, self._identities = folds, identities
        self._indexes: dict[int, FoldIndex] = {}
        self._callees: dict[tuple[int, int], tuple[int, ...]] = {}
        self._places: dict[int, dict[int, int]] = {}

    def statements(self) -> Iterator[TableCall]:
        """Yield all statements that hold; `dropped` is complete at the end."""
        calls, branches = self._calls, self._branches
        at = np.searchsorted(branches.end, calls.call_site)
        rows = np.flatnonzero(at < len(branches.end))
        rows = rows[branches.end[at[rows]] == calls.call_site[rows]]
        rows = rows[branches.source[at[rows]] != 0]
        described = self._identities.debug.unit_of(calls.callee_die[rows]) >= 0
        if not described.all():
            self.dropped["callee is outside of .debug_info"] += len(rows) - int(described.sum())
        rows = rows[described]
        rows = rows[np.argsort(calls.call_site[rows], kind="stable")]
        self._described = dict(zip(rows.tolist(), self._identities.of(calls.callee_die[rows].tolist()), strict=True))
        entries = zip(rows.tolist(), self._units_of(rows).tolist(), at[rows].tolist(), strict=True)
        for branch, group in groupby(entries, key=lambda entry: entry[2]):
            mine = list(group)
            yield from self._at([row for row, _, _ in mine], [unit for _, unit, _ in mine], branch)

    def _units_of(self, rows: I64) -> I64:
        """Return the unit of .debug_info that each record belongs to."""
        infos = np.array([unit.debug_info for unit in self._calls.units] or [0], np.uint64)
        unit_rows = np.array(self._calls.unit_row or (0,))
        return self._identities.debug.unit_of(infos[np.searchsorted(unit_rows, rows, side="right") - 1])

    def _at(self, rows: list[int], units: list[int], branch: int) -> Iterator[TableCall]:
        """Yield the statements of the records at one return address."""
        end, source, target = (int(column[branch]) for column in self._branches)
        found: dict[int, set[int]] = {}
        for row, unit in zip(rows, units, strict=True):
            callees = self._members(target, row)
            if not callees:
                self.dropped["the code calls another function"] += 1
                continue
            callers = self._callers(source, row, units, unit)
            if not callers:
                self.dropped["the call lies in another function"] += 1
            for caller in callers:
                found.setdefault(caller, set()).update(callees)
        kept = self._kept(source)
        if kept is not None and kept not in found and found:
            self.dropped["caller is a function that the linker removed"] += len(rows)
            return
        for caller, members in sorted(found.items()):
            yield TableCall(end, source, caller, target, tuple(sorted(members)))

    def _members(self, target: int, row: int) -> tuple[int, ...]:
        """Return the members of the called body that the record's DIE can mean."""
        fold = self._folds.get(target)
        if fold is None:
            return (0,)
        die = int(self._calls.callee_die[row])
        if (target, die) not in self._callees:
            index = self._indexes.get(target)
            if index is None:
                index = self._indexes[target] = FoldIndex(fold)
            self._callees[target, die] = tuple(index.members_of(die, self._described[row]))
        return self._callees[target, die]

    def _callers(self, source: int, row: int, units: list[int], unit: int) -> list[int]:
        """Return the members of the calling body that the record is about; `units` are those of all its records."""
        fold = self._folds.get(source)
        if fold is None:
            return [0]
        die = int(self._calls.caller_die[row])
        if die:
            if source not in self._places:
                self._places[source] = {die: idx for idx, member in enumerate(fold.members) for die in member.dies}
            idx = self._places[source].get(die)
            return [] if idx is None else [idx]
        kept = self._kept(source)
        if kept is not None:
            return [kept]
        own = [
            idx
            for idx, member in enumerate(fold.members)
            if unit >= 0 and unit in self._identities.debug.unit_of(np.array(member.dies, np.uint64))
        ]
        return own if units.count(unit) >= len(own) else []

    def _kept(self, vaddr: int) -> int | None:
        """Return the member whose code stands at a merged body, if the linker leaves evidence of it."""
        fold = self._folds.get(vaddr)
        return next((idx for idx, member in enumerate(fold.members) if member.kept is True), None) if fold else None
