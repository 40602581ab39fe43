"""Encodes the inline trees and lines of all members: a group of units, of it a line table at a time, by threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.dwarf.inlines import InlineScan, TreeFunctions
from icf.dwarf.scan import thread_count
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from unwind.symcache.builder import payload_columns as col
from unwind.symcache.builder._encode import encode
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.group import Group, Source
from unwind.symcache.builder.groups import each_group
from unwind.symcache.builder.lines import Choices, Lines, Paths
from unwind.symcache.builder.names import Names
from unwind.symcache.builder.trees import Trees
from unwind.symcache.builder.twins import find_twins

_NO_ROWS = np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.uint32)
_JOB_ROWS = 1 << 14  # claims that are encoded at a time
_REPEAT_FACTOR = 4


class Encoded(NamedTuple):
    """The parts that the sections are made of."""

    payloads: list[bytes]  # by claim
    column_bytes: int  # so many bytes of them are columns
    files: list[str]  # paths by number


def encode_payloads(
    image: Image, debug: DebugInfo | None, scan: InlineScan | None, bodies: Bodies, claims: Claims, names: Names
) -> Encoded:
    """Return each claim encoded, and the numbers of files; `scan` has no nodes."""
    payloads = [b""] * len(claims.body)
    if debug is None or scan is None:
        return Encoded(payloads, 0, [""])
    described = _affordable(scan.functions, np.maximum(claims.function, claims.lost))
    claims = claims._replace(function=np.minimum(claims.function, described), lost=np.minimum(claims.lost, described))
    best, paths = np.zeros(len(described), np.uint64), Paths()
    source = Source(image, debug, scan.functions, bodies, claims, described, paths, best)
    column_counts = np.zeros(len(described), np.int64)
    for group in each_group(source):
        for row, payload, column_bytes in _encode_group(debug, bodies, names, group):
            payloads[row], column_counts[row] = payload, column_bytes
    return Encoded(payloads, int(column_counts.sum()), paths.paths)


def _encode_group(debug: DebugInfo, bodies: Bodies, names: Names, group: Group) -> Iterator[tuple[int, bytes, int]]:
    """Yield the claims of a group, their payloads, and how many bytes of these are columns."""
    all_rows, claims, described, scan, lines, chooser, choices, own_count = group
    tree, placed = find_twins(debug, scan, bodies, claims, lines, chooser, choices)
    choices.last_row[(tree < 0) & (claims.lost >= 0)] = 0  # without the calls nothing shows whose a line is
    own = tree[:own_count]
    shared = own[(own >= 0) & (own < len(scan.functions.die))]
    trees = Trees(debug, scan, np.union1d(described[:own_count][own >= 0], shared), names, placed)
    job = _Job(bodies, claims, described, tree, trees, lines, choices)
    jobs = list(job.parts(own_count))
    with ThreadPoolExecutor(thread_count()) as pool:
        for rows, found in zip(jobs, pool.map(job.run, jobs), strict=True):
            yield from zip(all_rows[rows].tolist(), *found, strict=True)


def _affordable(functions: TreeFunctions, function: I64) -> I64:
    """Return the functions of claims, without those whose nodes would be written many times over.

    Two claims of one function are a hot and a cold part, or labels in it. Thousands are an attack.
    """
    counts = np.zeros(len(function), np.int64)
    counts[function >= 0] = (functions.last_node - functions.first_node)[function[function >= 0]]
    limit = _REPEAT_FACTOR * int(functions.last_node[-1:].sum()) + (1 << 16)
    return np.where(np.cumsum(counts) <= limit, function, -1)


class _Job(NamedTuple):
    """All that the threads share."""

    bodies: Bodies
    claims: Claims
    described: I64  # the function whose inlined calls each claim has
    tree: I64  # the function whose ranges they have
    trees: Trees
    lines: Lines
    choices: Choices

    def parts(self, count: int) -> list[I64]:
        """Return those of the first `count` claims with a tree or lines, in parts of one line table each."""
        has_payload = (self.tree >= 0) | (self.choices.last_row > self.choices.first_row)
        rows = np.flatnonzero(has_payload[:count])
        rows = rows[np.argsort(self.choices.table[rows], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.choices.table[rows])) + 1
        parts = np.split(rows, cuts) if len(rows) else []
        return [part[at : at + _JOB_ROWS] for part in parts for at in range(0, len(part), _JOB_ROWS)]

    def run(self, rows: I64) -> tuple[list[bytes], list[int]]:
        """Return the payloads of claims of one table, and how many bytes of each are columns."""
        trees, nodes = self.trees, self.trees.nodes
        body = self.claims.body[rows]
        pieces = np.zeros((len(rows), col.PIECE_WIDTH), np.uint64)
        pieces[:, col.START], pieces[:, col.END] = self.bodies.start[body], self.bodies.end[body]
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
        program = self.lines.tables[table] if table >= 0 else None
        (address, file_idx, line, column), file_map = _NO_ROWS, np.empty(0, np.uint32)
        if program is not None:
            address, file_idx, line, column = program.address, program.file_idx, program.line, program.column
            file_map = self.lines.file_maps[table]
        range_counts = pieces[:, col.LAST_RANGE] - pieces[:, col.FIRST_RANGE]
        node_counts = pieces[:, col.LAST_NODE] - pieces[:, col.FIRST_NODE]
        row_count = int(_row_counts(pieces, address).sum())
        scratch = np.empty((col.SCRATCH_HEIGHT, int(max(range_counts.max(), node_counts.max())) + 2), np.uint32)
        segments = np.empty((2, 2 * int(range_counts.max()) + 4), np.uint64)
        room = 40 * int(2 * range_counts.sum() + node_counts.sum() + row_count) + 64 * len(rows)
        out = np.empty(room, np.uint8)
        ends = np.zeros((len(rows), 2), np.uint64)
        encode(
            pieces.data, trees.low.data, trees.high.data, trees.range_node.data, nodes.up.data, trees.name.data,
            nodes.call_file.data, nodes.call_line.data, nodes.call_column.data,
            address.data, file_idx.data, line.data, column.data, file_map.data,
            segments.data, scratch.data, out.data, ends.data,
        )  # fmt: skip
        payload_end = ends[:, col.PAYLOAD_END]
        starts = [0, *payload_end[:-1].tolist()]
        payloads = [out[start:end].tobytes() for start, end in zip(starts, payload_end.tolist(), strict=True)]
        return payloads, (payload_end - ends[:, col.COLUMNS_START]).tolist()


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
