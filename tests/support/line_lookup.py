"""What a line table says of one address: what tests compare with, one row at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from icf.dwarf.line import LineProgram, LineSections, RowFlag, SequenceMark, scan_all
from icf.errors import FormatError
from icf.model import Vaddr


@dataclass(frozen=True, slots=True)
class LineRow:
    """One row; `line` 0 means that the code comes from no line."""

    address: Vaddr
    file: str
    line: int
    column: int
    flags: RowFlag


def read_line_program(sections: LineSections, stmt_list_offset: int, comp_dir: str = "") -> LineProgram:
    """The line table at an offset of .debug_line."""
    (program,) = scan_all(sections, [stmt_list_offset], comp_dirs=[comp_dir])
    if isinstance(program, FormatError):
        raise program
    return program


def _row_at(program: LineProgram, vaddr: int, sequence_idx: int) -> int | None:
    """The row of a sequence that holds for `vaddr`: the last at or before it."""
    if not 0 <= vaddr < 1 << 64:
        return None
    row_start, row_end = int(program.sequences.row_start[sequence_idx]), int(program.sequences.row_end[sequence_idx])
    address = program.address[row_start:row_end]
    if program.sequences.marks[sequence_idx] & np.uint64(SequenceMark.UNORDERED):
        holds = np.flatnonzero((address[:-1] <= np.uint64(vaddr)) & (np.uint64(vaddr) < address[1:]))
        return row_start + int(holds[-1]) if len(holds) else None
    i = int(np.searchsorted(address, np.uint64(vaddr), side="right"))
    return row_start + i - 1 if 0 < i < len(address) else None


def lookup(program: LineProgram, vaddr: int, sequence_idx: int | None = None) -> LineRow | None:
    """The row for `vaddr` in one sequence, or in the whole table.

    None: no sequence covers it, or several do (identical code was folded) and disagree about file, line or column.
    """
    candidates = program.sequences_at(vaddr).tolist() if sequence_idx is None else [sequence_idx]
    found: LineRow | None = None
    for candidate in candidates:
        row = _row_at(program, vaddr, candidate)
        if row is None:
            continue
        here = _row(program, row)
        if found and (found.file, found.line, found.column) != (here.file, here.line, here.column):
            return None
        found = found or here
    return found


def _row(program: LineProgram, row_idx: int) -> LineRow:
    return LineRow(
        Vaddr(int(program.address[row_idx])),
        program.file(int(program.file_idx[row_idx])),
        int(program.line[row_idx]),
        int(program.column[row_idx]),
        RowFlag(int(program.flags[row_idx])),
    )
