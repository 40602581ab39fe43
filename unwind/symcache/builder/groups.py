"""Some units of a large program at a time: their inlined calls, line tables and claims.

Inlined calls and line rows of all units need ten times the memory of the debug information. So units are read in
groups, and of a group nothing stays but the payloads. One thing crosses groups: a tombstoned function takes the places
of its inlined calls from a function that is known at its body (`twins`), which the linker may have taken from another
unit. Such functions are `Kept` as long as the program is read. The linker takes the first of several, so few of the
tombstoned ones come before the function that they need; these are read once more at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.dwarf import columns as col
from icf.dwarf.inlines import InlineScan, Nodes, Ranges, TreeFunctions, scan_inlines
from icf.dwarf.line import LineProgram
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.lines import UNREAD, Choices, Lines, Paths
from unwind.symcache.builder.sequences import Chooser

Columns = TypeVar("Columns", TreeFunctions, Ranges, Nodes)
_GROUP_BYTES = 2 << 20  # of .debug_info; larger groups need more memory and the same time


class Group(NamedTuple):
    """Claims with what describes them: functions are rows of `scan`."""

    rows: I64  # of the claims of the image: first its own, then kept ones
    claims: Claims
    described: I64
    scan: InlineScan
    lines: Lines
    chooser: Chooser
    choices: Choices
    own_count: int

    def part(self, is_in: Mask) -> Self:
        """Return some claims, with all functions."""
        claims, described = _select(self.claims, self.described, np.flatnonzero(is_in))
        return self._replace(
            rows=self.rows[is_in],
            claims=claims,
            described=described,
            choices=Choices(*(column[is_in] for column in self.choices)),
            own_count=int(is_in.sum()),
        )


def split_units(debug: DebugInfo) -> list[slice]:
    """Return all units in groups."""
    ends = debug.units[:, col.END]
    cuts = np.flatnonzero(np.diff(ends // np.uint64(_GROUP_BYTES))) + 1
    edges = [0, *cuts.tolist(), len(ends)]
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]


class Source(NamedTuple):
    """All that groups are read from."""

    image: Image
    debug: DebugInfo
    functions: TreeFunctions  # of all units
    bodies: Bodies
    claims: Claims
    described: I64
    paths: Paths
    best: U64  # as `Lines.choose` has it

    def read(self, units: slice, wanted: I64) -> Group:
        """Return a group; of claims that a function describes those in `wanted`, which must be of these units."""
        scan = scan_inlines(self.debug, units=units)
        base = int(np.searchsorted(self.functions.unit, units.start))
        claims, described = _select(self.claims, self.described, wanted)
        claims = claims._replace(function=_less(claims.function, base), lost=_less(claims.lost, base))
        lines = Lines(self.image, self.debug, units, self.paths)
        chooser = Chooser(self.debug, scan)
        best = self.best[wanted]
        choices = lines.choose(chooser, scan, self.bodies, claims, best)
        self.best[wanted] = best
        return Group(wanted, claims, _less(described, base), scan, lines, chooser, choices, len(wanted))


class Kept(NamedTuple):
    """Functions of any units, with their inlined calls and line rows."""

    rows: I64  # of the claims of the image
    described: I64
    scan: InlineScan
    tables: list[LineProgram | None]
    file_maps: list[U32]
    table_of_unit: I64
    choices: Choices

    @classmethod
    def nothing(cls, debug: DebugInfo) -> Self:
        """Return none of any image."""
        no_row, no_number, no_vaddr = np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint64)
        ranges = Ranges(no_row, no_vaddr, no_vaddr)
        functions = TreeFunctions(no_vaddr, no_number, no_vaddr, no_vaddr, no_row, no_row)
        nodes = Nodes(no_vaddr, no_number, no_number, no_number, no_number, no_number)
        scan = InlineScan(functions, ranges, nodes, ranges)
        table_of_unit = np.full(len(debug.units), UNREAD, np.int64)
        return cls(no_row, no_row, scan, [], [], table_of_unit, Choices(no_row, no_row, no_row))

    @classmethod
    def of(cls, group: Group) -> Self:
        """Return the functions of a group that claims have, and no more of it."""
        functions, described = np.unique(group.described, return_inverse=True)
        table = group.choices.table
        first_row, last_row = group.choices.first_row.copy(), group.choices.last_row.copy()
        tables = [
            _rows_of(program, np.flatnonzero(table == at), first_row, last_row)
            for at, program in enumerate(group.lines.tables)
        ]
        return cls(
            group.rows, described.reshape(-1), _some(group.scan, functions), tables, group.lines.file_maps,
            group.lines.table_of_unit, Choices(table, first_row, last_row),
        )  # fmt: skip

    def joined(self, other: Kept) -> Kept:
        """Return the functions of both."""
        here = other.table_of_unit
        return Kept(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.described, other.described + len(self.scan.functions.die)]),
            _joined(self.scan, other.scan),
            self.tables + other.tables,
            self.file_maps + other.file_maps,
            np.where(here >= 0, here + len(self.tables), np.maximum(self.table_of_unit, here)),
            _both(self.choices, other.choices, len(self.tables)),
        )

    def added_to(self, group: Group, claims: Claims) -> Group:
        """Return a group with these functions after its own; `claims` are those of the image."""
        is_other = ~np.isin(self.rows, group.rows)
        own_count, table_count = len(group.scan.functions.die), len(group.lines.tables)
        rows, described = self.rows[is_other], self.described[is_other] + own_count
        more, _ = _select(claims, claims.function, rows)
        more = more._replace(function=described, lost=np.full(len(rows), -1))
        lines = group.lines.with_tables(self.tables, self.file_maps, self.table_of_unit)
        choices = Choices(*(column[is_other] for column in self.choices))
        return Group(
            np.concatenate([group.rows, rows]),
            _more_claims(group.claims, more),
            np.concatenate([group.described, described]),
            _joined(group.scan, self.scan),
            lines,
            group.chooser,
            _both(group.choices, choices, table_count),
            group.own_count,
        )


def _select(claims: Claims, described: I64, rows: I64) -> tuple[Claims, I64]:
    """Return some claims, without aliases."""
    body, is_merged, name, flags, _, function, lost = claims
    some = Claims(body[rows], is_merged[rows], name[rows], flags[rows], {}, function[rows], lost[rows])
    return some, described[rows]


def _more_claims(first: Claims, second: Claims) -> Claims:
    return Claims(
        np.concatenate([first.body, second.body]),
        np.concatenate([first.is_merged, second.is_merged]),
        np.concatenate([first.name, second.name]),
        np.concatenate([first.flags, second.flags]),
        {},
        np.concatenate([first.function, second.function]),
        np.concatenate([first.lost, second.lost]),
    )


def _less(function: I64, base: int) -> I64:
    return np.where(function >= 0, function - base, -1)


def _both(first: Choices, second: Choices, table_count: int) -> Choices:
    table = np.where(second.table >= 0, second.table + table_count, -1)
    pairs = zip(first, (table, second.first_row, second.last_row), strict=True)
    return Choices(*(np.concatenate(pair) for pair in pairs))


def _rows_of(program: LineProgram | None, claims: I64, first_row: I64, last_row: I64) -> LineProgram | None:
    """Return a program with the rows of some claims only, and change where these claims have them."""
    if program is None:
        return None
    at = [np.arange(first_row[each], last_row[each]) for each in claims.tolist()]
    counts = np.array([len(each) for each in at], np.int64)
    last_row[claims] = np.cumsum(counts)
    first_row[claims] = last_row[claims] - counts
    rows = np.concatenate([np.empty(0, np.int64), *at])
    columns = ("address", "file_idx", "line", "column", "flags")
    return replace(program, **{name: getattr(program, name)[rows] for name in columns})


def _some(scan: InlineScan, functions: I64) -> InlineScan:
    """Return some functions, in this order."""
    old = scan.functions
    counts = old.last_node[functions] - old.first_node[functions]
    edges = np.cumsum(np.concatenate([np.zeros(1, np.int64), counts]))
    owner = np.repeat(np.arange(len(functions)), counts)
    nodes = np.arange(len(owner)) - edges[:-1][owner] + old.first_node[functions][owner]
    return InlineScan(
        TreeFunctions(
            old.die[functions],
            old.unit[functions],
            old.sequence_at[functions],
            old.address_idx[functions],
            edges[:-1],
            edges[1:],
        ),  # fmt: skip
        _ranges_of(scan.function_ranges, functions, len(old.die)),
        Nodes(scan.nodes.origin[nodes], owner.astype(np.uint32), *(column[nodes] for column in scan.nodes[2:])),
        _ranges_of(scan.node_ranges, nodes, len(scan.nodes.origin)),
    )


def _ranges_of(ranges: Ranges, owners: I64, count: int) -> Ranges:
    place = np.full(count, -1, np.int64)
    place[owners] = np.arange(len(owners))
    owner = place[ranges.owner]
    rows = np.flatnonzero(owner >= 0)
    return Ranges(owner[rows], ranges.low[rows], ranges.high[rows])


def _joined(first: InlineScan, second: InlineScan) -> InlineScan:
    """Return the functions of both, those of the first before those of the second."""
    function_count, node_count = len(first.functions.die), len(first.nodes.origin)
    functions, nodes = second.functions, second.nodes
    moved = functions._replace(first_node=functions.first_node + node_count, last_node=functions.last_node + node_count)
    return InlineScan(
        _concatenated(first.functions, moved),
        _joined_ranges(first.function_ranges, second.function_ranges, function_count),
        _concatenated(first.nodes, nodes._replace(function=nodes.function + np.uint32(function_count))),
        _joined_ranges(first.node_ranges, second.node_ranges, node_count),
    )


def _joined_ranges(first: Ranges, second: Ranges, count: int) -> Ranges:
    return _concatenated(first, second._replace(owner=second.owner + count))


def _concatenated(first: Columns, second: Columns) -> Columns:
    """Return the rows of both."""
    pairs: Iterator[Any] = zip(first, second, strict=True)
    return type(first)(*(np.concatenate(pair) for pair in pairs))


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
