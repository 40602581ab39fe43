"""Inline trees: which functions a compiler put into which, and where.

    DW_TAG_subprogram f            0x1000..0x1080
      DW_TAG_inlined_subroutine g  0x1010..0x1030, 0x1040..0x1044     called at a.cc:7
        DW_TAG_inlined_subroutine h  0x1018..0x1020                   called at b.h:31

A *node* is one inlined call; the nodes of a function come in the order of their DIEs, parents before their children. A
node's ranges should lie within its parent's, but compilers break that rule sometimes. Then the rule of debuggers
applies: of the nodes that claim an address the last one in the order of DIEs has it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from icf.columns import I64, U32, U64
from icf.dwarf import columns as col
from icf.dwarf.range_lists import expand_lists
from icf.dwarf.runs import Layout, Pieces, each_run
from icf.dwarf.units import MAX_DEPTH, DebugInfo

_SHIFT32 = np.uint64(32)
_LIST = col.RANGES_AT | col.RANGES_INDEX
_INLINED = Layout(
    col.READ_INLINED, functions=(1 << 13, col.S_COUNT_INLINED), rows=(1 << 14, col.I_COUNT), depth=2 * MAX_DEPTH
)


class TreeFunctions(NamedTuple):
    """One row for each function with code; its nodes are `first_node:last_node`."""

    die: U64
    unit: U32
    sequence_at: U64  # DW_AT_LLVM_stmt_sequence + 1, 0 if it has none
    address_idx: U64  # where in .debug_addr its low pc stands + 1, 0 if the DIE holds the low pc itself
    first_node: I64
    last_node: I64


class Ranges(NamedTuple):
    """Ranges of code, those of one owner in the order of its list; `owner` is a row."""

    owner: I64
    low: U64
    high: U64


class Nodes(NamedTuple):
    """One row for each inlined call."""

    origin: U64  # the DIE of the inlined function, 0 if there is none
    function: U32  # row in `TreeFunctions`
    up: U32  # distance in rows to the surrounding inlined call, which comes before; 0: there is none
    call_file: U32  # as in the line table of the unit
    call_line: U32
    call_column: U32


class InlineScan(NamedTuple):
    functions: TreeFunctions
    function_ranges: Ranges
    nodes: Nodes
    node_ranges: Ranges


def scan_functions(debug: DebugInfo, threads: int | None = None) -> InlineScan:
    """Scan every unit of what was opened with `inlines`; of the nodes of a function only their number is kept.

    Nodes need more memory than all else: `scan_inlines` reads them, of some units at a time.
    """
    assert debug.has_inlines
    parts = each_run(debug, _INLINED, _counts, threads)
    functions = np.concatenate([np.empty((0, col.S_COUNT_INLINED), np.uint64), *(part for part, _ in parts)])
    edges = np.cumsum(np.concatenate([np.zeros(1, np.int64), *(counts for _, counts in parts)]))
    tree_functions, ranges = _functions(debug, functions, edges)
    nothing, no_number = np.empty(0, np.uint64), np.empty(0, np.uint32)
    nodes = Nodes(nothing, no_number, no_number, no_number, no_number, no_number)
    return InlineScan(tree_functions, ranges, nodes, Ranges(edges[:0], nothing, nothing))


def scan_inlines(debug: DebugInfo, threads: int | None = None, units: slice = slice(None)) -> InlineScan:
    """Scan some units of what was opened with `inlines`; what cannot be read is in `debug.errors()` afterwards."""
    assert debug.has_inlines
    parts = each_run(debug, _INLINED, _columns, threads, units)
    if not parts:
        parts = [(np.empty((0, col.S_COUNT_INLINED), np.uint64), _narrow(np.empty((0, col.I_COUNT), np.uint64)))]
    bases = np.cumsum([0, *(len(functions) for functions, _ in parts)])
    functions = np.concatenate([functions for functions, _ in parts])
    for base, (_, columns) in zip(bases.tolist(), parts, strict=False):
        columns[0] += np.uint32(base)
    function, up, origin, low, high, file, line, column, flags = (
        np.concatenate([columns[i] for _, columns in parts]) for i in range(9)
    )
    del parts
    up, order = _by_function(function, up)
    function, origin, low, high, file, line, column, flags = (
        columns if order is None else columns[order]
        for columns in (function, origin, low, high, file, line, column, flags)
    )
    first_node = np.searchsorted(function, np.arange(len(functions) + 1))
    tree_functions, ranges = _functions(debug, functions, first_node)
    return InlineScan(
        tree_functions,
        ranges,
        Nodes(origin, function, up, file, line, column),
        _ranges(debug, low, high, high, flags, tree_functions.unit[function].astype(np.uint64)),
    )


def _functions(debug: DebugInfo, functions: U64, first_node: I64) -> tuple[TreeFunctions, Ranges]:
    unit = functions[:, col.S_FLAGS] >> _SHIFT32
    die, address_idx, sequence_at = (functions[:, i].copy() for i in (col.S_DIE, col.S_ADDRESS_IDX, col.S_SEQUENCE))
    low, high, lists, flags = (functions[:, i] for i in (col.S_LOW, col.S_HIGH, col.S_RANGES, col.S_FLAGS))
    return (
        TreeFunctions(die, unit.astype(np.uint32), sequence_at, address_idx, first_node[:-1], first_node[1:]),
        _ranges(debug, low, high, lists, flags, unit),
    )


def _by_function(function: U32, up: U32) -> tuple[U32, Any]:
    """Return the order that puts the nodes of each function together, None if they are, and `up` in it.

    Methods of a function's own classes stand between its nodes.
    """
    if not (function[1:] < function[:-1]).any():
        return up, None
    order = np.argsort(function, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    parent = np.arange(len(up)) - up
    return (place - place[parent]).astype(np.uint32)[order], order


def _ranges(debug: DebugInfo, low: U64, high: U64, lists: U64, flags: U64, unit: U64) -> Ranges:
    """Return the ranges of rows that have a low and a high, or a list."""
    is_list = (flags & np.uint64(_LIST)) != 0
    plain = np.flatnonzero(~is_list & (flags & np.uint64(col.HAS_LOW) != 0) & (low < high))
    rows = np.flatnonzero(is_list)
    listed = expand_lists(debug, rows, lists[rows], flags[rows] & np.uint64(_LIST), unit[rows])
    owner = np.concatenate([plain, listed[:, 0].astype(np.int64)])
    order = np.argsort(owner, kind="stable")
    ends = (np.concatenate([low[plain], listed[:, 1]]), np.concatenate([high[plain], listed[:, 2]]))
    return Ranges(owner[order], ends[0][order], ends[1][order])


def _narrow(rows: U64) -> list[Any]:
    """Return the rows of the kernel as columns: function, up, origin, low, high, call file, line, column, flags."""
    words = np.ascontiguousarray(rows).view(np.uint32).reshape(-1, 2 * col.I_COUNT)
    owner, place, flags = 2 * col.I_OWNER, 2 * col.I_PLACE, 2 * col.I_FLAGS  # each holds two numbers
    parent = words[:, owner + 1]
    up = np.where(parent != 0, np.arange(1, len(rows) + 1, dtype=np.uint32) - parent, np.uint32(0))
    narrow = [words[:, owner].copy(), up, *(rows[:, i].copy() for i in (col.I_ORIGIN, col.I_LOW, col.I_HIGH))]
    return narrow + [words[:, i].copy() for i in (place, place + 1, flags)] + [rows[:, col.I_FLAGS] >> _SHIFT32]


def _counts(pieces: Pieces) -> tuple[U64, I64]:
    """Return the functions of a run, and how many nodes each has."""
    functions, counts = [], []
    for found, rows in pieces:
        functions.append(found.copy())
        owner = (rows[:, col.I_OWNER] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        counts.append(np.bincount(owner, minlength=len(found)))
    return np.concatenate(functions), np.concatenate(counts)


def _columns(pieces: Pieces) -> tuple[U64, list[Any]]:
    """Return functions and node columns of a run. Functions are numbered by their rows in this run."""
    functions: list[U64] = []
    nodes: list[list[Any]] = []
    base = 0
    for found, rows in pieces:
        functions.append(found.copy())
        columns = _narrow(rows)
        columns[0] += np.uint32(base)
        nodes.append(columns)
        base += len(found)
    if len(functions) == 1:
        return functions[0], nodes[0]
    return np.concatenate(functions), [np.concatenate(column) for column in zip(*nodes, strict=True)]
