"""Which sequence of a line table belongs to a function.

The certain evidence comes first:

    stated      DW_AT_LLVM_stmt_sequence names it
    order       LLVM writes functions and sequences in one order (`icf.dwarf.line_order`)
    alone       of its unit no other function, and one sequence, is at the body
    own lines   which of the sequences there have rows of the function's own lines (`icf.dwarf.line_choice`)

A body that belongs to one function has the sequence that covers it, unless others begin there that differ from it: a
weak definition that lost is folded into a function without being a member of its body. lld and mold tombstone the
descriptions of folded functions, not their sequences. So as many of a unit's sequences start at a body as functions of
that unit, tombstoned ones included, are there; if there are fewer, some of these are copies of functions that the
linker took from another unit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Self

import numpy as np

from icf.columns import I64, U64, Mask
from icf.dwarf.dies import defined_subprograms, resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.line import LineProgram
from icf.dwarf.line_choice import choose_sequence
from icf.dwarf.line_order import sequences_in_order
from icf.dwarf.units import DebugInfo


def stated(program: LineProgram, scan: InlineScan, function: I64, start: U64) -> I64:
    """Return the sequence that each function names by DW_AT_LLVM_stmt_sequence, if it covers the code; else -1."""
    sequence_at = np.zeros(len(function), np.uint64)
    sequence_at[function >= 0] = scan.functions.sequence_at[function[function >= 0]]
    if not sequence_at.any() or not len(program.sequences):
        return np.full(len(function), -1, np.int64)
    sequences = program.sequences  # in the order of their offsets
    at = np.minimum(np.searchsorted(sequences.offset, sequence_at - np.uint64(1)), len(sequences) - 1)
    is_it = (sequence_at != 0) & (sequences.offset[at] == sequence_at - np.uint64(1)) & ~sequences.dead[at]
    is_it &= (sequences.start[at] <= start) & (start < sequences.end[at])
    return np.where(is_it, at, -1)


def covering(program: LineProgram, start: U64, end: U64) -> I64:
    """Return, for each stretch of code, the sequence that covers its start, or the first that begins in it.

    -1 for none.
    """
    sequences = program.sequences
    live = np.flatnonzero(~sequences.dead)
    order = live[np.argsort(sequences.start[live], kind="stable")]
    if not len(order):
        return np.full(len(start), -1, np.int64)
    last = np.searchsorted(sequences.start[order], start, side="right") - 1
    before, after = order[np.maximum(last, 0)], order[np.minimum(last + 1, len(order) - 1)]
    covers = (last >= 0) & (sequences.end[before] > start)
    within = (last + 1 < len(order)) & (sequences.start[after] < end)
    return np.where(covers, before, np.where(within, after, -1))


def contested(program: LineProgram, start: U64) -> Mask:
    """Return where several sequences begin whose rows differ: those of functions that are folded into one body."""
    sequences = program.sequences
    live = np.flatnonzero(~sequences.dead & (sequences.end > sequences.start))
    order = live[np.argsort(sequences.start[live], kind="stable")]
    begin = sequences.start[order]
    first, last = np.searchsorted(begin, start), np.searchsorted(begin, start, side="right")
    found = np.zeros(len(start), np.bool_)
    for row in np.flatnonzero(last - first > 1).tolist():
        here = order[first[row] : last[row]].tolist()
        found[row] = any(not _are_equal(program, here[0], other) for other in here[1:])
    return found


def _are_equal(program: LineProgram, one: int, other: int) -> bool:
    """Return whether two sequences have the same rows."""
    first, last = program.sequences.row_start, program.sequences.row_end
    rows, others = slice(int(first[one]), int(last[one])), slice(int(first[other]), int(last[other]))
    columns = program.address, program.file_idx, program.line, program.column
    return all(np.array_equal(column[rows], column[others]) for column in columns)


class Chooser:
    """Chooses sequences for functions that share their bodies with others, or that are described without an address."""

    def __init__(self, debug: DebugInfo, scan: InlineScan) -> None:
        self._debug, self._functions, self._ranges = debug, scan.functions, scan.function_ranges
        self._units: dict[int, _Declared] = {}
        self._chosen: dict[tuple[int, int, str, int, bool], int] = {}

    def choose(self, program: LineProgram, function: I64, start: U64) -> I64:
        """Return the sequences of functions, rows of the scan, whose bodies start there; -1 where it is not certain."""
        found = np.full(len(function), -1, np.int64)
        unit = self._functions.unit[function]
        for unit_idx in np.unique(unit).tolist():
            rows = np.flatnonzero(unit == unit_idx)
            found[rows] = self._choose_of_unit(program, unit_idx, function[rows], start[rows])
        return found

    def function_lines(self, program: LineProgram, function: int) -> dict[str, list[int]]:
        """Return the lines of each file where the unit of a function declares functions, ascending."""
        return self._declared(program, int(self._functions.unit[function])).lines

    def _choose_of_unit(self, program: LineProgram, unit: int, function: I64, start: U64) -> I64:
        functions, ranges, sequences = self._functions, self._ranges, program.sequences
        edges = np.searchsorted(functions.unit, [unit, unit + 1])
        first, last = np.searchsorted(ranges.owner, edges).tolist()
        owner, low = ranges.owner[first:last], ranges.low[first:last]
        if self._debug.is_of_gcc(unit):  # its functions and sequences have no common order
            ordered = np.full(len(low), -1, np.int64)
        else:
            ordered = sequences_in_order(program, functions.address_idx[owner], low, ranges.high[first:last])
        at, found = np.searchsorted(owner, function), np.full(len(function), -1, np.int64)
        rows = np.flatnonzero(at < len(owner))  # none if the unit has no ranges
        rows = rows[owner[at[rows]] == function[rows]]
        found[rows] = ordered[at[rows]]
        is_it = found >= 0  # none if a damaged line table has no sequences
        is_it[is_it] = ~sequences.dead[found[is_it]] & (sequences.start[found[is_it]] == start[is_it])
        here = {*zip(low.tolist(), owner.tolist(), strict=True), *zip(start.tolist(), function.tolist(), strict=True)}
        counts = Counter(vaddr for vaddr, _ in here)
        for i in np.flatnonzero(~is_it).tolist():
            vaddr = int(start[i])
            starting = program.sequences_from(vaddr)
            if counts[vaddr] == len(starting) == 1:
                found[i] = starting[0]
            else:
                found[i] = self._by_lines(program, int(function[i]), vaddr, counts[vaddr] <= len(starting))
        return found

    def _by_lines(self, program: LineProgram, function: int, vaddr: int, is_here: bool) -> int:
        """Return the sequence with the function's own lines; `is_here`: the body is the unit's copy of the function."""
        declared = self._declared(program, int(self._functions.unit[function]))
        file_idx, line = declared.place(int(self._functions.die[function]))
        path = program.file(file_idx)
        if not line or not path:
            return -1
        key = (program.offset, vaddr, path, line, is_here)
        if key not in self._chosen:  # instances of a template repeat the question
            found = choose_sequence(program, vaddr, file_idx, line, declared.lines[path], is_here=is_here)
            self._chosen[key] = -1 if found is None else found
        return self._chosen[key]

    def _declared(self, program: LineProgram, unit: int) -> _Declared:
        if unit not in self._units:
            self._units[unit] = _Declared.read(self._debug, program, unit)
        return self._units[unit]


@dataclass(frozen=True, slots=True)
class _Declared:
    """Where the functions that a unit defines are declared, inlined ones too."""

    die: U64  # ascending
    file_idx: U64
    line: U64
    lines: dict[str, list[int]]  # of each file, ascending

    @classmethod
    def read(cls, debug: DebugInfo, program: LineProgram, unit: int) -> Self:
        dies = defined_subprograms(debug, unit).offset.copy()
        identity = resolve(debug, dies)
        # a file number is one of the table of the unit that holds the declaration
        here = debug.unit_of(identity.declared) == unit
        die, file_idx, line = dies[here], identity.decl_file[here], identity.decl_line[here]
        lines: dict[str, set[int]] = {}
        for each in np.unique(file_idx).tolist():
            lines.setdefault(program.file(each), set()).update(np.unique(line[file_idx == each]).tolist())
        return cls(die, file_idx, line, {path: sorted(found) for path, found in lines.items()})

    def place(self, die: int) -> tuple[int, int]:
        """Return file number and line; (0, 0) where they are not known."""
        at = int(np.searchsorted(self.die, np.uint64(die)))
        if at == len(self.die) or int(self.die[at]) != die:
            return 0, 0
        return int(self.file_idx[at]), int(self.line[at])
