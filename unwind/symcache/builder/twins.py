"""Inlined calls of functions whose description is tombstoned, taken from a function whose description is not.

lld and mold put 0 over every address in the description of a folded function. It still has the size of each inlined
call, the inlined function and the place of the call, but not where its code begins:

    List<Order>::add     0x1800..0x1850   inlined grow() at list.h:14, 0x1812..0x1830
    List<Payment>::add   0x0..0x50        inlined grow() at list.h:14, 0x0..0x1e

Both have one body, instruction by instruction. If their inlined calls are the same in number, order, nesting, sizes,
places of the calls and places where the inlined functions are declared, and if their line tables agree at each
instruction, then they are two instances of one text, which the compiler has translated in the same way: they are
*twins*, and the inlined calls of one lie where those of the other lie. A function that inlines nothing needs no twin; a
function with another text has its calls placed one by one (`placing`). Most are twins, so these are found by digests,
of 64 bits.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.columns import I64, U64
from icf.dwarf.dies import Identity, resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.units import DebugInfo
from icf.sets import rows_of_runs
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.job import Choices
from unwind.symcache.builder.lines import UNREAD, Lines
from unwind.symcache.builder.origins import Origins
from unwind.symcache.builder.placing import Call, Described, Place, place_calls
from unwind.symcache.builder.sequences import Chooser

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_MAX_BYTES, _MAX_CALLS, _MAX_KNOWN = 1 << 14, 1 << 10, 8  # limits of what is placed call by call
_UNREAD_PATH = 1 << 44  # numbers of paths are lower
_ALL_BYTES = 1 << 24  # limit of the bodies that are compared so, together


class Placed(NamedTuple):
    """Ranges of the inlined calls of a function as they lie in a body."""

    ranges: list[tuple[int, int, int]]  # low, high, row of the call from the function's first


class Found(NamedTuple):
    """Which function's ranges of inlined calls each claim has."""

    tree: I64  # by claim a row of the scan, or of `placed` after those; -1 if not known
    placed: list[Placed]


def find_twins(
    debug: DebugInfo,
    scan: InlineScan,
    origins: Origins,
    bodies: Bodies,
    claims: Claims,
    lines: Lines,
    chooser: Chooser,
    choices: Choices,
) -> Found:
    """Return the inlined calls of each claim: of its own function, or if that is tombstoned of its twin, or placed."""
    tree = claims.function.copy()
    lost = np.flatnonzero(claims.lost >= 0)
    own = claims.lost[lost]
    is_bare = scan.functions.first_node[own] == scan.functions.last_node[own]
    tree[lost[is_bare]] = own[is_bare]
    has_rows = choices.last_row > choices.first_row
    lost = lost[~is_bare & has_rows[lost]]
    if not len(lost):
        return Found(tree, [])
    known = np.flatnonzero((tree >= 0) & has_rows & np.isin(claims.body, claims.body[lost]))
    rows = np.concatenate([known, lost])
    columns = _Columns(debug, scan, origins, lines, np.where(claims.function >= 0, claims.function, claims.lost)[rows])
    said = _row_digests(lines, choices, rows)
    keys = [*zip(claims.body[rows].tolist(), columns.digests.tolist(), said.tolist(), strict=True)]
    by_body: dict[int, dict[tuple[int, int, int], int]] = {}  # places in `rows`
    for i, key in enumerate(keys[: len(known)]):
        by_body.setdefault(key[0], {}).setdefault(key, i)
    placer = _Placer(bodies, claims, lines, chooser, choices, columns, rows)
    placed: list[Placed] = []
    answers: dict[tuple[int, int, int], int] = {}
    left_bytes = _ALL_BYTES
    for i, key in enumerate(keys[len(known) :], len(known)):
        if key not in answers:
            alike = by_body.get(key[0], {})
            answers[key] = int(tree[rows[alike[key]]]) if key in alike else -1
            if key not in alike:
                left_bytes -= int(bodies.end[key[0]] - bodies.start[key[0]]) * min(len(alike), _MAX_KNOWN)
            if key not in alike and left_bytes > 0 and (ranges := placer.place(i, [*alike.values()])):
                answers[key] = len(scan.functions.die) + len(placed)
                placed.append(ranges)
        tree[rows[i]] = answers[key]
    return Found(tree, placed)


class _Placer(NamedTuple):
    bodies: Bodies
    claims: Claims
    lines: Lines
    chooser: Chooser
    choices: Choices
    columns: _Columns
    rows: I64  # claims, in the order of `columns`

    def place(self, lost: int, known: list[int]) -> Placed | None:
        """Return the places of a tombstoned claim's calls, by known ones of its body; None if they are not certain."""
        row = int(self.rows[lost])
        body = int(self.claims.body[row])
        start = int(self.bodies.start[body])
        size_bytes = int(self.bodies.end[body]) - start
        program = self.lines.tables[int(self.choices.table[row])]
        if size_bytes > _MAX_BYTES or self.columns.call_count(lost) > _MAX_CALLS or program is None:
            return None
        function_lines = self.chooser.function_lines(program, int(self.claims.lost[row]))

        def next_function(place: Place) -> int:
            path = self.lines.paths[place[0]] if place[0] < _UNREAD_PATH else ""
            others = function_lines.get(path, [])
            after = bisect_right(others, place[1])
            return others[after] if after < len(others) else 1 << 32 if others else 0

        own = self.columns.described(lost, _rows(self.lines, self.choices, row, start))
        found: list[list[int]] = []
        for each in known[:_MAX_KNOWN]:
            theirs = self.columns.described(each, _rows(self.lines, self.choices, int(self.rows[each]), start))
            starts = [low - start for low in self.columns.lows(each)]
            placed = place_calls(own, theirs, starts, size_bytes, next_function)
            if placed is not None and placed not in found:
                found.append(placed)
        if len(found) != 1:
            return None
        calls = enumerate(zip(found[0], own.calls, strict=True))
        ranges = [(start + at + low, start + at + high, i) for i, (at, call) in calls for low, high in call.spans]
        return Placed(sorted(ranges, key=lambda each: (each[0], each[2])))


def _rows(lines: Lines, choices: Choices, row: int, start: int) -> list[tuple[int, Place, int]]:
    """Return the line rows of a claim, one for each offset in the body; the last of several holds."""
    table, first, last = int(choices.table[row]), int(choices.first_row[row]), int(choices.last_row[row]) - 1
    program, paths = lines.tables[table], lines.file_maps[table]
    assert program is not None
    path = paths[np.minimum(program.file_idx[first:last], len(paths) - 1)]
    columns = program.address[first:last], path, program.line[first:last], program.column[first:last]
    said = {
        address - start: ((file, line), column)
        for address, file, line, column in zip(*(values.tolist() for values in columns), strict=True)
    }
    return [(offset, *each) for offset, each in sorted(said.items()) if offset >= 0]


class _Columns:
    """The inlined calls of some functions, with paths as the cache numbers them."""

    def __init__(self, debug: DebugInfo, scan: InlineScan, origins: Origins, lines: Lines, function: I64) -> None:
        distinct, self._back = np.unique(function, return_inverse=True)
        nodes, ranges = scan.nodes, scan.node_ranges
        self._first, last = scan.functions.first_node[distinct], scan.functions.last_node[distinct]
        owner, node = rows_of_runs(self._first, last - self._first)
        declared = _declared(debug, lines, origins.identity)[:, origins.of_node[node]]
        called = _paths(lines, scan.functions.unit[distinct][owner].astype(np.int64), nodes.call_file[node])
        first_range, last_range = (np.searchsorted(ranges.owner, node, side=side) for side in ("left", "right"))
        of_node, at = rows_of_runs(first_range, last_range - first_range)
        base = ranges.low[first_range[of_node]]
        sizes = _mix(at - first_range[of_node], ranges.low[at] - base, ranges.high[at] - base)
        node_digest = _mix(
            node - self._first[owner], nodes.up[node], *declared, called, nodes.call_line[node],
            nodes.call_column[node], _sums(sizes, of_node, len(node)),
        )  # fmt: skip
        self.digests: U64 = _sums(node_digest, owner, len(distinct))[self._back.reshape(-1)]
        self._edges = np.searchsorted(owner, np.arange(len(distinct) + 1))
        self._functions = _declared(debug, lines, resolve(debug, scan.functions.die[distinct]))
        self._declared, self._called, self._node, self._nodes = declared, called, node, nodes
        self._ranges, self._first_range, self._last_range = ranges, first_range, last_range

    def call_count(self, i: int) -> int:
        """Return how many calls the function of row `i` has."""
        at = int(self._back[i])
        return int(self._edges[at + 1] - self._edges[at])

    def declared(self, i: int) -> Place:
        """Return file and line where the function of row `i` is declared."""
        file, line = self._functions[:, int(self._back[i])].tolist()
        return file, line

    def described(self, i: int, rows: list[tuple[int, Place, int]]) -> Described:
        """Return the function of row `i`, with its line rows."""
        at = int(self._back[i])
        calls = [self._call(j) for j in range(self._edges[at], self._edges[at + 1])]
        return Described(self.declared(i), calls, rows)

    def lows(self, i: int) -> list[int]:
        """Return where the calls of row `i` begin; the first of those without code anywhere."""
        at = int(self._back[i])
        calls = slice(self._edges[at], self._edges[at + 1])
        first, last = self._first_range[calls].tolist(), self._last_range[calls].tolist()
        return [int(self._ranges.low[low]) if low < end else 0 for low, end in zip(first, last, strict=True)]

    def _call(self, j: int) -> Call:
        node, nodes, ranges = int(self._node[j]), self._nodes, self._ranges
        first, last = int(self._first_range[j]), int(self._last_range[j])
        lows, highs = ranges.low[first:last].tolist(), ranges.high[first:last].tolist()
        spans = tuple((low - lows[0], high - lows[0]) for low, high in zip(lows, highs, strict=True))
        file, line = self._declared[:, j].tolist()
        called = int(self._called[j]), int(nodes.call_line[node])
        return Call(int(nodes.up[node]), spans, (file, line), called, int(nodes.call_column[node]))


def _declared(debug: DebugInfo, lines: Lines, identity: Identity) -> U64:
    """Return the files and the lines where functions are declared: two rows."""
    return np.stack([_paths(lines, debug.unit_of(identity.declared), identity.decl_file), identity.decl_line])


def _row_digests(lines: Lines, choices: Choices, rows: I64) -> U64:
    """Return a digest of each claim's line rows."""
    digests = np.zeros(len(rows), np.uint64)
    for table in np.unique(choices.table[rows]).tolist():
        program, here, paths = lines.tables[table], np.flatnonzero(choices.table[rows] == table), lines.file_maps[table]
        assert program is not None
        first, last = choices.first_row[rows[here]], choices.last_row[rows[here]]
        owner, at = rows_of_runs(first, last - first)
        at, owner = at[program.holds[at]], owner[program.holds[at]]
        address = program.address[at] - program.address[first[owner]]
        path = paths[np.minimum(program.file_idx[at], len(paths) - 1)]
        digests[here] = _sums(_mix(address, path, program.line[at], program.column[at]), owner, len(here))
    return digests


def _paths(lines: Lines, unit: I64, file_idx: NDArray[np.unsignedinteger]) -> U64:
    """Return the numbers of paths of file numbers in the line tables of units; 0 if unknown.

    A file of a unit whose table was not read is a path of its own.
    """
    table = np.where(unit >= 0, lines.table_of_unit[unit], -1)
    unread = np.uint64(_UNREAD_PATH) + unit.astype(np.uint64) * np.uint64(1 << 20) + file_idx.astype(np.uint64)
    paths = np.where(table == UNREAD, unread, np.uint64(0))
    for each in np.unique(table[table >= 0]).tolist():
        here, numbers = np.flatnonzero(table == each), lines.file_maps[each]
        if len(numbers):
            asked = file_idx[here].astype(np.int64)
            paths[here] = np.where(asked < len(numbers), numbers[np.minimum(asked, len(numbers) - 1)], 0)
    return paths


def _mix(*columns: NDArray[np.integer]) -> U64:
    """Return a digest of each row."""
    digest = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        digest = (digest ^ column.astype(np.uint64)) * _FACTOR
        digest ^= digest >> _SHIFT
    return digest


def _sums(values: U64, owner: I64, count: int) -> U64:
    """Return the sum of the values of each owner, modulo 2 ** 64."""
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, owner, values)
    return sums
