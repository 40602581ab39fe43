"""Lines and inlined calls of the procedures of one module, as columns.

A folded function keeps its own lines: their subsection has the address of the body, as those of the other members have.
Which is whose follows from the order, for compilers write records and lines of functions in one order:

    S_GPROC32 sales::tax at 1:0030     lines at 1:0030: line 21
    S_GPROC32 costs::tax at 1:0030     lines at 1:0030: line 22

So the first procedure at an address has the first subsection there, if there are as many of both; else none has any.

The lines of a procedure are those of its own text, also where another function is inlined: there the line of the call.
Annotations of an inlined call are the lines of the inlined text. Where they nest, the innermost has the address:

    lines          13 ........ 14 ............................ 16 ....
    annotations                    9 ....  10 .....
    result         13 ........ 14  9 ....  10 .....  14 ...... 16 ....
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64
from icf.pdb import columns as col
from icf.pdb.file import Pdb
from icf.pdb.module import Lines, Symbols
from icf.sets import rows_of_runs

_HIDDEN = (0xF00F00, 0xFEEFEE)  # lines of code without a source
_REPEAT_FACTOR = 32  # segments at most, in rows; deeper nesting is an attack


class Nodes(NamedTuple):
    """Inlined calls: how many rows above the one around is (0: none), and the place of the call."""

    up: U32
    call_file: U32
    call_line: U32
    call_column: U32


class ModuleLines(NamedTuple):
    """Lines of a module; addresses count from the start of each procedure, which is a row of its symbols."""

    procedure: I64  # by line row
    address: U64
    file_idx: U32  # in `files`
    line: U32
    column: U32
    nodes: Nodes
    inlinee: U64  # number of the inlined function, by node
    range_procedure: I64  # ranges of nodes: by procedure, low, node
    low: U64
    high: U64
    range_node: U32  # from the first of the procedure
    files: list[str]  # the first is none


class _Ranges(NamedTuple):
    """Code with its line; node 0 is the procedure itself, else the row of the site and 1."""

    procedure: I64
    low: U64
    high: U64
    node: I64
    file: U64
    line: U64
    column: U64

    def only(self, rows: I64) -> _Ranges:
        procedure, low, high, node, *place = self
        return _Ranges(procedure[rows], low[rows], high[rows], node[rows], *(column[rows] for column in place))

    def joined(self, other: _Ranges) -> _Ranges:
        signed = (
            np.concatenate([mine, theirs])
            for mine, theirs in ((self.procedure, other.procedure), (self.node, other.node))
        )
        procedure, node = signed
        pairs = zip((self.low, self.high, *self[4:]), (other.low, other.high, *other[4:]), strict=True)
        low, high, *place = (np.concatenate(pair) for pair in pairs)
        return _Ranges(procedure, low, high, node, *place)


def module_lines(pdb: Pdb, symbols: Symbols, lines: Lines) -> ModuleLines:
    """Return the lines of all procedures of a module."""
    procedures, sites = symbols
    own, inlined = _own_lines(procedures, lines), _inlined_lines(procedures, sites, lines)
    ranges = own.joined(inlined)
    size_bytes = procedures[ranges.procedure, col.P_SIZE] if len(procedures) else ranges.low
    ranges = ranges._replace(high=np.minimum(ranges.high, size_bytes))
    ranges = ranges.only(np.flatnonzero(ranges.low < ranges.high))
    numbers, back = np.unique(ranges.file, return_inverse=True)
    files = ["", *(pdb.file_name(lines.files, number) for number in numbers.tolist())]
    file_idx = (back.reshape(-1) + 1).astype(np.uint32)
    places = ranges._replace(file=file_idx.astype(np.uint64))
    procedure, address, winner = _flatten(ranges)
    has = winner >= 0
    at = np.maximum(winner, 0)
    row_file, row_line, row_column = (
        np.where(has, column[at], 0).astype(np.uint32) if len(column) else np.zeros(len(has), np.uint32)
        for column in (file_idx, ranges.line, ranges.column)
    )
    of_sites = np.flatnonzero(ranges.node > 0)
    owner = ranges.procedure[of_sites]
    first_site = procedures[owner, col.P_FIRST_SITE].astype(np.int64) if len(procedures) else owner
    node = ranges.node[of_sites] - 1 - first_site
    order = np.lexsort((node, ranges.low[of_sites], owner))
    return ModuleLines(
        procedure, address, row_file, row_line, row_column, _calls(sites, places), sites[:, col.S_INLINEE],
        owner[order], ranges.low[of_sites][order], ranges.high[of_sites][order], node[order].astype(np.uint32), files,
    )  # fmt: skip


def _own_lines(procedures: U64, lines: Lines) -> _Ranges:
    """Return the lines of procedures, without those of inlined calls."""
    _, first = np.unique(lines.runs[:, col.F_SUBSECTION], return_index=True)
    parts = lines.runs[first]
    theirs = parts[:, col.F_SEGMENT] << np.uint64(32) | parts[:, col.F_ADDRESS]
    mine = procedures[:, col.P_SEGMENT] << np.uint64(32) | procedures[:, col.P_ADDRESS]
    part_order = np.argsort(theirs, kind="stable")
    low, high = (np.searchsorted(theirs[part_order], mine, side=side) for side in ("left", "right"))
    order = np.argsort(mine, kind="stable")
    begin, end = (np.searchsorted(mine[order], mine, side=side) for side in ("left", "right"))
    rank = np.empty(len(mine), np.int64)
    rank[order] = np.arange(len(mine))
    rank -= begin
    has = np.flatnonzero((high > low) & (high - low == end - begin))
    chosen = part_order[(low + rank)[has]]  # each part is of one procedure
    owner_of_part = np.full(len(parts), -1, np.int64)
    owner_of_part[chosen] = has
    part_of_run = np.searchsorted(parts[:, col.F_SUBSECTION], lines.runs[:, col.F_SUBSECTION])
    counts = (lines.runs[:, col.F_LAST_ROW] - lines.runs[:, col.F_FIRST_ROW]).astype(np.int64)
    run = np.repeat(np.arange(len(counts)), counts)  # rows come in the order of runs
    owner = owner_of_part[part_of_run[run]] if len(parts) else run
    rows = np.flatnonzero(owner >= 0)
    rows = rows[np.lexsort((lines.rows[rows, col.L_ADDRESS], owner[rows]))]
    owner, run = owner[rows], run[rows]
    start = lines.runs[run, col.F_ADDRESS]
    address = lines.rows[rows, col.L_ADDRESS] - start
    ends = np.append(address[1:], np.uint64(0)) if len(address) else address
    is_last = np.append(owner[1:] != owner[:-1], True) if len(owner) else np.empty(0, np.bool_)
    ends = np.where(is_last, lines.runs[run, col.F_SIZE], ends)
    line = lines.rows[rows, col.L_LINE]
    line = np.where(np.isin(line, np.array(_HIDDEN, np.uint64)), np.uint64(0), line)
    node = np.zeros(len(rows), np.int64)
    return _Ranges(owner, address, ends, node, lines.runs[run, col.F_FILE], line, lines.rows[rows, col.L_COLUMN])


def _inlined_lines(procedures: U64, sites: U64, lines: Lines) -> _Ranges:
    """Return the lines of inlined calls."""
    annotations, inlinees = lines.annotations, lines.inlinees
    site = annotations[:, col.A_SITE].astype(np.int64)
    order = np.argsort(inlinees[:, col.I_FUNCTION], kind="stable")
    known = inlinees[order]
    wanted = sites[site, col.S_INLINEE] if len(site) else annotations[:, col.A_SITE]
    at = np.searchsorted(known[:, col.I_FUNCTION], wanted)
    at = np.minimum(at, max(len(known) - 1, 0))
    is_known = known[at, col.I_FUNCTION] == wanted if len(known) else np.zeros(len(site), np.bool_)
    rows = np.flatnonzero(is_known)
    annotations, site, at = annotations[rows], site[rows], at[rows]
    own_file, own_line = known[at, col.I_FILE], known[at, col.I_LINE]
    file = np.where(annotations[:, col.A_FILE] == col.SAME_FILE, own_file, annotations[:, col.A_FILE])
    line = own_line + annotations[:, col.A_LINE] & np.uint64(0xFFFFFFFF)
    owner = sites[site, col.S_PROCEDURE].astype(np.int64)
    low, high = annotations[:, col.A_LOW], annotations[:, col.A_HIGH]
    return _Ranges(owner, low, high, site + 1, file, line, annotations[:, col.A_COLUMN])


def _flatten(ranges: _Ranges) -> tuple[I64, U64, I64]:
    """Return line rows: procedure, address, and the range that has the line there, -1 for none."""
    low = ranges.procedure.astype(np.uint64) << np.uint64(32) | ranges.low
    high = ranges.procedure.astype(np.uint64) << np.uint64(32) | ranges.high
    edges = np.unique(np.concatenate([low, high]))
    first, last = np.searchsorted(edges, low), np.searchsorted(edges, high)
    counts = last - first
    if int(counts.sum()) > _REPEAT_FACTOR * len(low) + (1 << 16):
        counts = np.where(ranges.node == 0, counts, 0)  # own lines do not overlap
    owner, segment = rows_of_runs(first, counts)
    winner = np.full(len(edges), -1, np.int64)
    order = np.argsort(ranges.node[owner], kind="stable")  # of several the innermost is stored last
    winner[segment[order]] = owner[order]
    return (edges >> np.uint64(32)).astype(np.int64), edges & np.uint64(0xFFFFFFFF), winner


def _calls(sites: U64, ranges: _Ranges) -> Nodes:
    """Return where each inlined call is: the line that the function around it has at its first address."""
    up = sites[:, col.S_UP]
    nodes = Nodes(up.astype(np.uint32), *(np.zeros(len(sites), np.uint32) for _ in range(3)))
    if not len(ranges.node):
        return nodes
    start = np.full(len(sites) + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(start, ranges.node, ranges.low)
    procedure_count = int(ranges.procedure.max()) + 1
    whose = np.where(ranges.node == 0, ranges.procedure, ranges.node - 1 + procedure_count)
    key = whose.astype(np.uint64) << np.uint64(32) | ranges.low
    order = np.argsort(key, kind="stable")
    rows = np.flatnonzero(start[1:] != np.iinfo(np.uint64).max)
    rows = rows[(up[rows] != 0) | (sites[rows, col.S_PROCEDURE] < np.uint64(procedure_count))]
    around = np.where(
        up[rows] == 0, sites[rows, col.S_PROCEDURE].astype(np.int64), rows - up[rows].astype(np.int64) + procedure_count
    )
    asked = around.astype(np.uint64) << np.uint64(32) | start[1:][rows]
    at = order[np.maximum(np.searchsorted(key[order], asked, side="right") - 1, 0)]
    found = (whose[at] == around) & (ranges.low[at] <= start[1:][rows]) & (ranges.high[at] > start[1:][rows])
    rows, at = rows[found], at[found]
    for column, values in zip(nodes[1:], (ranges.file, ranges.line, ranges.column), strict=True):
        column[rows] = values[at]
    return nodes
