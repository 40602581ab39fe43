"""The line tables of an image, and the sequence of each body in them: `unwind.symcache.builder.sequences`.

A body that belongs to one function has the sequence that covers its start in the table of the unit that describes it,
or of any unit if none does (`anywhere`). A member of a merged body has its own or none.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from icf.columns import I64, U32
from icf.dwarf.columns import COMP_DIR, FLAGS, HAS_STMT_LIST, STMT_LIST
from icf.dwarf.inlines import InlineScan
from icf.dwarf.line import LineProgram, LineSections, SequenceMark, scan_all
from icf.dwarf.runs import thread_count
from icf.dwarf.units import DebugInfo, section_of_parts
from icf.elf.image import Image
from unwind.symcache.builder.anywhere import Anywhere
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import ANOTHERS, Claims
from unwind.symcache.builder.job import Choices
from unwind.symcache.builder.paths import Paths
from unwind.symcache.builder.sequences import Chooser, contested, covering, stated

UNREAD = -2  # the number of the table of a unit that was not asked for


class Lines:
    """The line tables of some units, or of all; `table_of_unit` is -1 for a unit that has none, UNREAD for others."""

    def __init__(self, image: Image, debug: DebugInfo, wanted: slice = slice(None), paths: Paths | None = None) -> None:
        file = image.debug
        units = debug.units
        described = np.flatnonzero((units[:, FLAGS] & np.uint64(HAS_STMT_LIST)) != 0)
        first, last, _ = wanted.indices(len(units))
        described = described[(described >= first) & (described < last)]
        offsets, holder = np.unique(units[described, STMT_LIST], return_index=True)
        line = debug.part_of(section_of_parts(file, ".debug_line", debug.is_large), STMT_LIST, described)
        sections = LineSections(line, file.contents(".debug_line_str"), debug.str_, file.path)
        directories = [
            debug.string(reference).decode("utf-8", "surrogateescape")
            for reference in units[described[holder], COMP_DIR].tolist()
        ]
        found = scan_all(sections, offsets.tolist(), thread_count(), directories)
        self.tables = [program if isinstance(program, LineProgram) else None for program in found]
        self.table_of_unit = np.full(len(units), UNREAD, np.int64)
        self.table_of_unit[wanted] = -1
        self.table_of_unit[described] = np.searchsorted(offsets, units[described, STMT_LIST])
        paths = paths or Paths()
        self.paths, self.file_maps = paths.paths, self._number_files(paths)

    def _number_files(self, paths: Paths) -> list[U32]:
        """Return for each table the numbers of its files."""
        uses: dict[str, int] = {}
        files = [program.files if program is not None else () for program in self.tables]
        for program, names in zip(self.tables, files, strict=True):
            counts = np.bincount(program.file_idx, minlength=len(names)).tolist() if program is not None else []
            for path, count in zip(names, counts, strict=False):
                uses[path] = uses.get(path, 0) + count
        numbers = paths.number(uses)
        return [np.array([numbers[path] for path in names], np.uint32) for names in files]

    def with_tables(self, tables: list[LineProgram | None], file_maps: list[U32], table_of_unit: I64) -> Lines:
        """Return these tables, and after them others, whose units are not read here."""
        both = copy(self)
        both.tables, both.file_maps = self.tables + tables, self.file_maps + file_maps
        theirs = np.where(table_of_unit >= 0, table_of_unit + len(self.tables), table_of_unit)
        both.table_of_unit = np.where(self.table_of_unit == UNREAD, theirs, self.table_of_unit)
        return both

    def choose(
        self, chooser: Chooser, scan: InlineScan, bodies: Bodies, claims: Claims, rows: I64, anywhere: Anywhere
    ) -> Choices:
        """Return the rows of each claim; `anywhere` is asked for those that nothing describes, by their `rows`."""
        count = len(claims.body)
        table, first_row, last_row = (np.full(count, fill, np.int64) for fill in (-1, 0, 0))
        choices = Choices(table, first_row, last_row)
        function = np.where(claims.function >= 0, claims.function, claims.lost)
        has = function >= 0
        choices.table[has] = self.table_of_unit[scan.functions.unit[function[has]]]
        start, end = bodies.start[claims.body], bodies.end[claims.body]
        nowhere = np.flatnonzero(~has & ~claims.is_merged & (claims.function != ANOTHERS))
        choices.table[nowhere] = anywhere.choose(self.tables, self.file_maps, rows[nowhere], start[nowhere])
        is_lost = claims.lost >= 0
        order = np.argsort(choices.table, kind="stable")
        edges = np.searchsorted(choices.table[order], np.arange(len(self.tables) + 1))
        for at, program in enumerate(self.tables):
            mine = order[edges[at] : edges[at + 1]]
            if program is None or not len(mine):
                continue
            sequence = stated(program, scan, function[mine], start[mine])
            is_hard = (claims.is_merged | is_lost)[mine]
            alone = np.flatnonzero(~is_hard & (sequence < 0) & (function[mine] >= 0))
            is_hard[alone] = contested(program, start[mine[alone]])
            guessed = np.flatnonzero(~is_hard & (sequence < 0))
            sequence[guessed] = covering(program, start[mine[guessed]], end[mine[guessed]])
            hard = np.flatnonzero(is_hard & (sequence < 0))
            sequence[hard] = chooser.choose(program, function[mine[hard]], start[mine[hard]])
            usable = np.flatnonzero(sequence >= 0)
            sequence = sequence[usable]
            ordered = (program.sequences.marks[sequence] & np.uint64(SequenceMark.UNORDERED)) == 0
            usable, sequence = usable[ordered], sequence[ordered]
            choices.first_row[mine[usable]] = program.sequences.row_start[sequence]
            choices.last_row[mine[usable]] = program.sequences.row_end[sequence]
        return choices
