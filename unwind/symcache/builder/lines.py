"""The line tables of an image, and the sequence of each body in them: `unwind.symcache.builder.sequences`.

A body that belongs to one function has the sequence that covers its start in the table of the unit that describes it,
or of any unit if none does (assembly). A member of a merged body has its own or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64
from icf.dwarf.columns import COMP_DIR, FLAGS, HAS_STMT_LIST, STMT_LIST
from icf.dwarf.inlines import InlineScan
from icf.dwarf.line import LineProgram, LineSections, SequenceMark, scan_all
from icf.dwarf.scan import thread_count
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.sequences import Chooser, covering, stated


class Choices(NamedTuple):
    """For each claim its line table, and rows of that; table -1 for none, no rows for none."""

    table: I64
    first_row: I64
    last_row: I64


class Lines:
    """The line tables of some units, or of all; `table_of_unit` is -1 for a unit that has none."""

    def __init__(self, image: Image, debug: DebugInfo, wanted: U32 | None = None) -> None:
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
        """Return all paths, the most used first, and for each table the new number of each of its files."""
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

    def choose(self, chooser: Chooser, scan: InlineScan, bodies: Bodies, claims: Claims) -> Choices:
        """Return the rows of each claim."""
        count = len(claims.body)
        table, first_row, last_row = (np.full(count, fill, np.int64) for fill in (-1, 0, 0))
        choices = Choices(table, first_row, last_row)
        function = np.where(claims.function >= 0, claims.function, claims.lost)
        has = function >= 0
        choices.table[has] = self.table_of_unit[scan.functions.unit[function[has]]]
        start, end = bodies.start[claims.body], bodies.end[claims.body]
        self._choose_anywhere(np.flatnonzero(~has & ~claims.is_merged), start, choices)
        is_lost = claims.lost >= 0
        order = np.argsort(choices.table, kind="stable")
        edges = np.searchsorted(choices.table[order], np.arange(len(self.tables) + 1))
        for at, program in enumerate(self.tables):
            rows = order[edges[at] : edges[at + 1]]
            if program is None or not len(rows):
                continue
            sequence = stated(program, scan, function[rows], start[rows])
            guessed = np.flatnonzero(~(claims.is_merged | is_lost)[rows] & (sequence < 0))
            sequence[guessed] = covering(program, start[rows[guessed]], end[rows[guessed]])
            hard = np.flatnonzero((claims.is_merged | is_lost)[rows] & (sequence < 0))
            sequence[hard] = chooser.choose(program, function[rows[hard]], start[rows[hard]])
            usable = np.flatnonzero(sequence >= 0)
            sequence = sequence[usable]
            ordered = (program.sequences.marks[sequence] & np.uint64(SequenceMark.UNORDERED)) == 0
            usable, sequence = usable[ordered], sequence[ordered]
            choices.first_row[rows[usable]] = program.sequences.row_start[sequence]
            choices.last_row[rows[usable]] = program.sequences.row_end[sequence]
        return choices

    def _choose_anywhere(self, rows: I64, start: U64, choices: Choices) -> None:
        """Add tables that cover the starts of bodies which no debug information describes."""
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
