"""Encodes inline trees and lines of members, whatever describes them: those of one line table at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from icf.columns import I64, U32, U64
from unwind.symcache.builder import payload_columns as col
from unwind.symcache.builder._encode import encode
from unwind.symcache.builder.encoded import Payloads

_NO_ROWS = np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.uint32)
_JOB_ROWS = 1 << 14  # claims that are encoded at a time


class Choices(NamedTuple):
    """For each claim its line table, and rows of that; table -1 for none, no rows for none."""

    table: I64
    first_row: I64
    last_row: I64


class Rows(Protocol):
    """Line rows; those of one claim ascend, and the last is their end."""

    @property
    def address(self) -> U64: ...
    @property
    def file_idx(self) -> U32: ...
    @property
    def line(self) -> U32: ...
    @property
    def column(self) -> U32: ...


class Nodes(Protocol):
    """Inlined calls: how many rows above the one around is (0: none), and the place of the call."""

    @property
    def up(self) -> U32: ...
    @property
    def call_file(self) -> U32: ...
    @property
    def call_line(self) -> U32: ...
    @property
    def call_column(self) -> U32: ...


class TreeColumns(Protocol):
    """Inlined calls of functions, and their ranges by function, low, node (from the first of the function)."""

    @property
    def nodes(self) -> Nodes: ...
    @property
    def name(self) -> U32: ...
    @property
    def first_node(self) -> I64: ...
    @property
    def last_node(self) -> I64: ...
    @property
    def low(self) -> U64: ...
    @property
    def high(self) -> U64: ...
    @property
    def range_node(self) -> U32: ...
    @property
    def first_range(self) -> I64: ...
    @property
    def last_range(self) -> I64: ...


class Job(NamedTuple):
    """Claims, and all that the threads share."""

    start: U64  # of the body of each claim
    end: U64
    described: I64  # the function whose inlined calls each claim has
    tree: I64  # the function whose ranges they have
    trees: TreeColumns
    tables: Sequence[Rows | None]
    file_maps: Sequence[U32]  # of each table: what a number of a file in it is in the cache
    choices: Choices

    def parts(self, count: int) -> list[I64]:
        """Return those of the first `count` claims with a tree or lines, in parts of one line table each."""
        has_payload = (self.tree >= 0) | (self.choices.last_row > self.choices.first_row)
        rows = np.flatnonzero(has_payload[:count])
        rows = rows[np.argsort(self.choices.table[rows], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.choices.table[rows])) + 1
        parts = np.split(rows, cuts) if len(rows) else []
        return [part[at : at + _JOB_ROWS] for part in parts for at in range(0, len(part), _JOB_ROWS)]

    def run(self, rows: I64) -> Payloads:
        """Return the payloads of claims of one table."""
        trees, nodes = self.trees, self.trees.nodes
        pieces = np.zeros((len(rows), col.PIECE_WIDTH), np.uint64)
        pieces[:, col.START], pieces[:, col.END] = self.start[rows], self.end[rows]
        has = self.tree[rows] >= 0
        tree, described = self.tree[rows[has]], self.described[rows[has]]
        pieces[has, col.FIRST_RANGE], pieces[has, col.LAST_RANGE] = trees.first_range[tree], trees.last_range[tree]
        pieces[has, col.FIRST_NODE], pieces[has, col.LAST_NODE] = (
            trees.first_node[described],
            trees.last_node[described],
        )
        pieces[:, col.FIRST_ROW] = self.choices.first_row[rows]
        pieces[:, col.LAST_ROW] = self.choices.last_row[rows]
        table = int(self.choices.table[rows[0]])
        program = self.tables[table] if table >= 0 else None
        (address, file_idx, line, column), file_map = _NO_ROWS, np.empty(0, np.uint32)
        if program is not None:
            address, file_idx, line, column = program.address, program.file_idx, program.line, program.column
            file_map = self.file_maps[table]
        range_counts = pieces[:, col.LAST_RANGE] - pieces[:, col.FIRST_RANGE]
        node_counts = pieces[:, col.LAST_NODE] - pieces[:, col.FIRST_NODE]
        row_count = int(_row_counts(pieces, address).sum())
        scratch = np.empty((col.SCRATCH_HEIGHT, int(max(range_counts.max(), node_counts.max())) + 2), np.uint32)
        segments = np.empty((2, 2 * int(range_counts.max()) + 4), np.uint64)
        room = 40 * int(2 * range_counts.sum() + node_counts.sum() + row_count) + 64 * len(rows)
        out = np.empty(room, np.uint8)
        ends = np.zeros((len(rows), 2), np.uint64)
        size_bytes = encode(
            pieces.data, trees.low.data, trees.high.data, trees.range_node.data, nodes.up.data, trees.name.data,
            nodes.call_file.data, nodes.call_line.data, nodes.call_column.data,
            address.data, file_idx.data, line.data, column.data, file_map.data,
            segments.data, scratch.data, out.data, ends.data,
        )  # fmt: skip
        payload_end = ends[:, col.PAYLOAD_END]
        column_sizes = payload_end - ends[:, col.COLUMNS_START]
        return Payloads(np.diff(payload_end, prepend=np.uint64(0)), column_sizes, out[:size_bytes].copy())


def _row_counts(pieces: U64, address: U64) -> U64:
    """Return how many line rows the kernel may read for each piece: a sequence may cover many of them."""
    first = pieces[:, col.FIRST_ROW]
    counts = pieces[:, col.LAST_ROW] - first
    order = np.argsort(first, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(first[order])) + 1):
        if len(group) > 1:
            part = address[int(first[group[0]]) : int(pieces[group[0], col.LAST_ROW])]
            low = np.searchsorted(part, pieces[group, col.START], side="right")
            high = np.searchsorted(part, pieces[group, col.END], side="left")
            counts[group] = np.maximum(high - low, 0) + 2
    return counts
