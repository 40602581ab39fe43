"""Some units of a large program at a time: their inlined calls, line tables and claims.

Inlined calls and line rows of all units need ten times the memory of the debug information. So units are read in
groups, and of a group nothing stays but the payloads. One thing crosses groups: a tombstoned function takes the places
of its inlined calls from a function that is known at its body (`twins`), which the linker may have taken from another
unit. Such functions are `Kept` as long as the program is read. The linker takes the first of several, so few of the
tombstoned ones come before the function that they need; these are read once more at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from icf.columns import I64, Mask
from icf.dwarf import columns as col
from icf.dwarf.units import DebugInfo
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.group import Group, Source
from unwind.symcache.builder.kept_functions import Kept

_GROUP_BYTES = 2 << 20  # of .debug_info; larger groups need more memory and the same time


def split_units(debug: DebugInfo) -> list[slice]:
    """Return all units in groups."""
    ends = debug.units[:, col.END]
    cuts = np.flatnonzero(np.diff(ends // np.uint64(_GROUP_BYTES))) + 1
    edges = [0, *cuts.tolist(), len(ends)]
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]


class _Order(NamedTuple):
    """When claims can be encoded: a tombstoned function waits for the last one that is known at its body."""

    is_lost: Mask  # claims that need a twin
    is_known: Mask  # those that may be one
    group: I64  # of claims, -1 where no function describes them
    first_lost: I64  # groups, by body
    last_lost: I64
    last_known: I64

    @classmethod
    def of(cls, source: Source, groups: list[slice]) -> Self:
        functions, claims, described = source.functions, source.claims, source.described
        unit = (
            np.where(described >= 0, functions.unit[described].astype(np.int64), -1)
            if len(functions.die)
            else described
        )
        group = np.searchsorted([units.start for units in groups], unit, side="right") - 1
        has_calls = functions.last_node > functions.first_node
        is_lost = claims.lost >= 0
        is_lost[is_lost] = has_calls[claims.lost[is_lost]]
        is_known = claims.function >= 0
        count = len(source.bodies.start)
        first_lost, last_lost, last_known = np.full(count, len(groups)), np.full(count, -1), np.full(count, -1)
        np.minimum.at(first_lost, claims.body[is_lost], group[is_lost])
        np.maximum.at(last_lost, claims.body[is_lost], group[is_lost])
        np.maximum.at(last_known, claims.body[is_known], group[is_known])
        return cls(is_lost, is_known, group, first_lost, last_lost, last_known)

    def waits(self, claims: Claims, rows: I64) -> Mask:
        """Return which claims need functions of later groups."""
        waits: Mask = self.is_lost[rows] & (self.last_known[claims.body[rows]] > self.group[rows])
        return waits

    def stays(self, claims: Claims, rows: I64) -> Mask:
        """Return which claims other groups need."""
        body = claims.body[rows]
        is_needed = (self.last_lost[body] > self.group[rows]) | (self.first_lost[body] < self.last_known[body])
        stays: Mask = self.is_known[rows] & is_needed
        return stays


def each_group(source: Source) -> Iterator[Group]:
    """Yield all claims in groups, each claim once."""
    groups = split_units(source.debug)
    order = _Order.of(source, groups)
    kept = Kept.nothing(source.debug)
    late: list[I64] = []
    by_group = np.argsort(order.group, kind="stable")
    edges = np.searchsorted(order.group[by_group], np.arange(len(groups) + 1))
    nowhere = by_group[: edges[0]]  # what no function describes may have a line in any unit
    for number, units in enumerate(groups):
        late.append(nowhere[:0])
        rows = np.sort(np.concatenate([nowhere, by_group[edges[number] : edges[number + 1]]]))
        if len(rows):
            waits = order.waits(source.claims, rows)
            late[-1] = rows[waits]
            group = source.read(units, rows)
            stays = order.stays(source.claims, rows)
            known, group = group, kept.added_to(group.part(~waits), source.claims)
            yield group
            kept = kept.joined(Kept.of(known.part(stays))) if stays.any() else kept
            del known, group
    for units, rows in zip(groups, late, strict=True):
        if len(rows):
            yield kept.added_to(source.read(units, rows), source.claims)
