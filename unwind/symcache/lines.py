"""The line tables of an image, and which sequence of them is that of a body.

A body that belongs to one function has the sequence that covers its start in the table of the unit that describes it,
or of any unit if none does (assembly). A member of a merged body has its own or none: `icf.dwarf.line_choice`.

lld and mold tombstone the descriptions of folded functions. What is left of them is their sequence, at address 0: it
holds for the body, which is the same code. But it does not say which of its rows are of calls that were inlined, so
that only those count which are lines of the function itself.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.dwarf.dies import defined_subprograms, resolve
from icf.dwarf.inlines import InlineScan
from icf.dwarf.line import LineProgram, LineSections, SequenceMark, choose_sequence, scan_all
from icf.dwarf.line_choice import choose_dead_sequence
from icf.dwarf.scan import thread_count
from icf.dwarf.units import COMP_DIR, FLAGS, HAS_STMT_LIST, STMT_LIST, DebugInfo
from icf.elf.image import Image
from unwind.symcache.bodies import Bodies
from unwind.symcache.claims import Claims

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]


class Choices(NamedTuple):
    """For each claim its line table, and rows of that; table -1 for none, no rows for none."""

    table: I64
    first_row: I64
    last_row: I64
    shift: U64  # is added to the addresses of the rows
    own: U64  # [n, 3]: only rows of this file from this line to before that; zeros for all


class Lines:
    """The line tables of some units, or of all; `table_of_unit` is -1 for a unit that has none."""

    def __init__(self, image: Image, debug: DebugInfo, wanted: NDArray[np.uint32] | None = None) -> None:
        file = image.debug
        line, line_str, str_ = map(file.contents, (".debug_line", ".debug_line_str", ".debug_str"))
        sections = LineSections(line, line_str, str_, file.path)
        units = debug.units
        described = np.flatnonzero((units[:, FLAGS] & np.uint64(HAS_STMT_LIST)) != 0)
        if wanted is not None:
            described = described[np.isin(described, wanted)]
        offsets, first = np.unique(units[described, STMT_LIST], return_index=True)
        directories = [
            debug.string(reference).decode("utf-8", "surrogateescape")
            for reference in units[described[first], COMP_DIR].tolist()
        ]
        found = scan_all(sections, offsets.tolist(), thread_count(), directories)
        self.tables = [program if isinstance(program, LineProgram) else None for program in found]
        self.table_of_unit = np.full(len(units), -1, np.int64)
        self.table_of_unit[described] = np.searchsorted(offsets, units[described, STMT_LIST])
        self.paths, self.file_maps = self._number_files()

    def _number_files(self) -> tuple[list[str], list[U32]]:
        """All paths, the most used first, and for each table what its file numbers become."""
        numbers: dict[str, int] = {"": 0}
        uses = [0]
        maps = []
        for program in self.tables:
            files = program.files if program is not None else ()
            counts = np.bincount(program.file_idx, minlength=len(files)).tolist() if program is not None else []
            mapped = []
            for path, count in zip(files, counts, strict=False):
                number = numbers.setdefault(path, len(numbers))
                if number == len(uses):
                    uses.append(0)
                uses[number] += count
                mapped.append(number)
            maps.append(np.array(mapped, np.uint32))
        order = [0, *sorted(range(1, len(uses)), key=lambda number: -uses[number])]
        final = np.empty(len(order), np.uint32)
        final[order] = np.arange(len(order), dtype=np.uint32)
        paths = list(numbers)
        return [paths[number] for number in order], [final[mapped] for mapped in maps]

    def choose(self, debug: DebugInfo, scan: InlineScan, bodies: Bodies, claims: Claims) -> Choices:
        """The rows of each claim."""
        count = len(claims.body)
        table, first_row, last_row = (np.full(count, fill, np.int64) for fill in (-1, 0, 0))
        choices = Choices(table, first_row, last_row, np.zeros(count, np.uint64), np.zeros((count, 3), np.uint64))
        function = np.where(claims.function >= 0, claims.function, claims.lost)
        has = function >= 0
        choices.table[has] = self.table_of_unit[scan.functions.unit[function[has]]]
        start, end = bodies.start[claims.body], bodies.end[claims.body]
        self._choose_anywhere(np.flatnonzero(~has & ~claims.is_merged), start, choices)
        is_lost = claims.lost >= 0
        declared = _Declared(debug)
        order = np.argsort(choices.table, kind="stable")
        edges = np.searchsorted(choices.table[order], np.arange(len(self.tables) + 1))
        for at, program in enumerate(self.tables):
            rows = order[edges[at] : edges[at + 1]]
            if program is None or not len(rows):
                continue
            sequence = _stated(program, scan, claims.function[rows], start[rows])
            guessed = np.flatnonzero(~(claims.is_merged | is_lost)[rows] & (sequence < 0))
            sequence[guessed] = _covering(program, start[rows[guessed]], end[rows[guessed]])
            for i in np.flatnonzero((claims.is_merged | is_lost)[rows] & (sequence < 0)).tolist():
                row = rows[i]
                die, unit = int(scan.functions.die[function[row]]), int(scan.functions.unit[function[row]])
                sequence[i] = declared.choose(program, unit, die, int(start[row]))
                if not is_lost[row]:
                    continue
                if sequence[i] < 0:
                    sequence[i] = declared.choose_dead(program, unit, die, int(end[row] - start[row]))
                    shift = int(start[row]) - int(program.sequences.start[sequence[i]])
                    choices.shift[row] = shift & 0xFFFFFFFFFFFFFFFF
                file_idx, *lines = declared.own_lines(program, unit, die)
                choices.own[row] = self.file_maps[at][file_idx], *lines
            usable = np.flatnonzero(sequence >= 0)
            sequence = sequence[usable]
            ordered = (program.sequences.marks[sequence] & np.uint64(SequenceMark.UNORDERED)) == 0
            usable, sequence = usable[ordered], sequence[ordered]
            choices.first_row[rows[usable]] = program.sequences.row_start[sequence]
            choices.last_row[rows[usable]] = program.sequences.row_end[sequence]
        return choices

    def _choose_anywhere(self, rows: I64, start: U64, choices: Choices) -> None:
        """Tables that cover the starts of bodies which no debug information describes."""
        live = [
            (program.sequences.start[i], program.sequences.end[i], np.full(len(i), table))
            for table, program in enumerate(self.tables)
            if program is not None and len(i := np.flatnonzero(~program.sequences.dead))
        ]
        if not live or not len(rows):
            return
        low, high, table = (np.concatenate([part[i] for part in live]) for i in range(3))
        order = np.argsort(low, kind="stable")
        at = np.searchsorted(low[order], start[rows], side="right") - 1
        last = order[np.maximum(at, 0)]
        covered = (at >= 0) & (high[last] > start[rows])
        choices.table[rows[covered]] = table[last[covered]]


def _stated(program: LineProgram, scan: InlineScan, function: I64, start: U64) -> I64:
    """The sequences that functions name themselves, by DW_AT_LLVM_stmt_sequence, if they cover their code; else -1."""
    sequence_at = np.zeros(len(function), np.uint64)
    sequence_at[function >= 0] = scan.functions.sequence_at[function[function >= 0]]
    if not sequence_at.any() or not len(program.sequences):
        return np.full(len(function), -1, np.int64)
    sequences = program.sequences  # in the order of their offsets
    at = np.minimum(np.searchsorted(sequences.offset, sequence_at - np.uint64(1)), len(sequences) - 1)
    is_it = (sequence_at != 0) & (sequences.offset[at] == sequence_at - np.uint64(1)) & ~sequences.dead[at]
    is_it &= (sequences.start[at] <= start) & (start < sequences.end[at])
    return np.where(is_it, at, -1)


def _covering(program: LineProgram, start: U64, end: U64) -> I64:
    """For each stretch of code the sequence that covers its start, or else the first that begins in it; -1 for none.

    gold lets a few sequences begin a byte late.
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


class _Declared:
    """Where the functions of units are declared, to choose sequences by."""

    def __init__(self, debug: DebugInfo) -> None:
        self._debug = debug
        self._units: dict[int, tuple[dict[int, tuple[int, int]], dict[str, list[int]]]] = {}
        self._chosen: dict[tuple[int, int, str, int], int] = {}

    def choose(self, program: LineProgram, unit: int, die: int, start: int) -> int:
        """The sequence of the function that `die` defines, at its body; -1 where it is not certain."""
        if unit not in self._units:
            self._units[unit] = self._read(program, unit)
        places, lines = self._units[unit]
        file_idx, line = places.get(die, (0, 0))
        if not line:
            return -1
        key = (program.offset, start, program.files[file_idx], line)
        if key not in self._chosen:  # instances of a template ask the same
            found = choose_sequence(program, start, file_idx, line, lines[program.files[file_idx]])
            self._chosen[key] = -1 if found is None else found
        return self._chosen[key]

    def choose_dead(self, program: LineProgram, unit: int, die: int, size_bytes: int) -> int:
        """Likewise where the sequence was tombstoned."""
        file_idx, line, limit = self.own_lines(program, unit, die)
        found = choose_dead_sequence(program, size_bytes, file_idx, line, limit) if line else None
        return -1 if found is None else found

    def own_lines(self, program: LineProgram, unit: int, die: int) -> tuple[int, int, int]:
        """The file of a function, and its lines: from, to before; zeros where that is not known."""
        if unit not in self._units:
            self._units[unit] = self._read(program, unit)
        places, lines = self._units[unit]
        file_idx, line = places.get(die, (0, 0))
        if not line:
            return 0, 0, 0
        others = lines[program.files[file_idx]]
        after = bisect_right(others, line)
        return file_idx, line, others[after] if after < len(others) else 1 << 32

    def _read(self, program: LineProgram, unit: int) -> tuple[dict[int, tuple[int, int]], dict[str, list[int]]]:
        """File number and line of each function the unit defines, inlined ones too; and the lines by file."""
        dies = defined_subprograms(self._debug, unit).offset.copy()
        identity = resolve(self._debug, dies)
        # a file number is one of the table of the unit that holds the declaration
        here = self._debug.unit_of(identity.declared) == unit
        columns = dies[here], identity.decl_file[here], identity.decl_line[here]
        places: dict[int, tuple[int, int]] = {}
        lines: dict[str, set[int]] = {}
        for die, file_idx, line in zip(*(column.tolist() for column in columns), strict=True):
            if path := program.file(file_idx):
                places[die] = file_idx, line
                lines.setdefault(path, set()).add(line)
        return places, {path: sorted(found) for path, found in lines.items()}
