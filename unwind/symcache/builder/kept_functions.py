"""Functions that later groups of units need, with their inlined calls and line rows and no more of their units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from icf.columns import I64, U32
from icf.dwarf.inlines import InlineScan, Nodes, Ranges, TreeFunctions
from icf.dwarf.line import LineProgram
from icf.dwarf.units import DebugInfo
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.group import Group, select
from unwind.symcache.builder.job import Choices
from unwind.symcache.builder.lines import UNREAD

Columns = TypeVar("Columns", TreeFunctions, Ranges, Nodes)


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
        more, _ = select(claims, claims.function, rows)
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
    return program.without_files(**{name: getattr(program, name)[rows] for name in columns})


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
