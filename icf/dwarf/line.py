"""Line tables: which file and line an address comes from, and which sequences claim an address.

The line table of a compile unit (`DW_AT_stmt_list` is its offset in .debug_line) is a set of *sequences*. With
-ffunction-sections each function has its own, and folding identical functions leaves all of them at the one body that
was kept: an address then has a row in each, and only the function's identity selects the row
(`icf.dwarf.line_choice`). A sequence whose code was discarded starts at a tombstone (0, 1, -1 or -2) and is *dead*: it
is kept, as evidence of what the unit defined, and no look-up by address finds it. (An object that is not linked has all
of its sequences at 0, and so nothing but dead ones.)

Programs are read by two kernels, headers and rows, for many units at a time without the GIL. An error ends
one program, the others survive. Paths are put together on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cached_property
from typing import Any

import numpy as np

from icf.columns import I64, U8, U32, U64, Mask
from icf.contents import string_at
from icf.dwarf import line_columns as col
from icf.dwarf.line_scan import LineColumns, LineSections, scan_columns
from icf.errors import FormatError

__all__ = [
    "LineProgram", "LineSections", "RowFlag", "SequenceMark", "Sequences", "scan_all",
]  # fmt: skip


class RowFlag(IntFlag):
    """The flags column, one byte a row."""

    IS_STMT = col.IS_STMT
    END_SEQUENCE = col.END_SEQUENCE
    BASIC_BLOCK = col.BASIC_BLOCK
    PROLOGUE_END = col.PROLOGUE_END
    EPILOGUE_BEGIN = col.EPILOGUE_BEGIN


class SequenceMark(IntFlag):
    """The marks column of the sequences."""

    DEAD = col.DEAD  # starts at a tombstone: its code is not in the image
    UNORDERED = col.UNORDERED  # addresses do not ascend; start and end are the lowest and the highest


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Columns; rows `row_start[i]:row_end[i]` of the program, the last of them its end_sequence."""

    start: U64
    end: U64
    row_start: U64
    row_end: U64
    marks: U64
    offset: U64  # of its first opcode in .debug_line, which DW_AT_LLVM_stmt_sequence refers to

    def __len__(self) -> int:
        return len(self.start)

    @property
    def dead(self) -> Mask:
        dead: Mask = (self.marks & np.uint64(SequenceMark.DEAD)) != 0
        return dead


@dataclass(frozen=True, eq=False)
class LineProgram:
    """The line table of one unit. Every row is part of a sequence."""

    offset: int
    version: int
    comp_dir: str
    address: U64
    file_idx: U32  # as in `files`
    line: U32
    column: U32
    flags: U8
    sequences: Sequences
    unterminated_row_count: int  # after the last end_sequence; they are not in the columns
    _sections: LineSections
    _directories: U64  # 3 words each, see `LineColumns`
    _files: U64

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Full paths by the numbers that rows and DW_AT_decl_file use (before DWARF 5, number 0 is "")."""
        directories = [self._string(entry) for entry in self._directories.T.tolist()]
        if self.version < 5:
            directories.insert(0, self.comp_dir)
        elif directories and directories[0] != self.comp_dir:  # both may be relative, and then the same
            directories[0] = _join(self.comp_dir, directories[0])
        directories[1:] = [_join(directories[0], name) for name in directories[1:]]
        paths = [""] if self.version < 5 else []
        for entry in self._files.T.tolist():
            directory = directories[entry[col.E_DIRECTORY]] if entry[col.E_DIRECTORY] < len(directories) else ""
            paths.append(_join(directory, self._string(entry)))
        return tuple(paths)

    def _string(self, entry: list[int]) -> str:
        kind, offset, _ = entry
        if kind == col.NO_PATH:
            return ""
        section = (self._sections.line, self._sections.line_str, self._sections.str_)[kind - col.IN_LINE]
        name = string_at(section, offset)
        assert name is not None  # the kernel has refused others
        return name.decode("utf-8", "surrogateescape")

    def without_files(self, **columns: Any) -> LineProgram:
        """Return the same with other columns, and without files: the section is free."""
        nothing, no_entry = LineSections(b"", b"", b"", self._sections.path), self._files[:, :0]
        return replace(self, _sections=nothing, _directories=no_entry, _files=no_entry, **columns)

    def file(self, file_idx: int) -> str:
        """Return the path of a file number; "" if the table does not have it."""
        return self.files[file_idx] if 0 <= file_idx < len(self.files) else ""

    def numbers(self, path: str) -> list[int]:
        """Return the numbers of a file: the table may have it several times."""
        return self._numbers.get(path, [])

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number, path in enumerate(self.files):
            numbers.setdefault(path, []).append(number)
        return numbers

    def rows_of_lines(self, path: str, first: int, limit: int) -> I64:
        """Return the rows of code from line `first` to before `limit` of a file."""
        places, rows = self._by_place
        numbers = np.array([number << 32 for number in self.numbers(path)], np.uint64)
        edges = [numbers | np.uint64(min(line, (1 << 32) - 1)) for line in (first, limit)]
        pieces = [rows[start:end] for start, end in np.searchsorted(places, np.stack(edges)).T.tolist()]
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.int64), *pieces])

    @cached_property
    def _by_place(self) -> tuple[U64, I64]:
        """File and line of all rows but the last of each sequence, ascending, and which rows these are."""
        rows = np.flatnonzero(self.flags & RowFlag.END_SEQUENCE == 0)
        place = self.file_idx[rows].astype(np.uint64) << np.uint64(32) | self.line[rows]
        order = np.argsort(place, kind="stable")
        return place[order], rows[order]

    def rows_digest(self, sequence_idx: int) -> int:
        """Return a number that is equal for two sequences with equal rows for each instruction, and for no others."""
        known = self._digests.get(sequence_idx)
        if known is None:
            first, last = int(self.sequences.row_start[sequence_idx]), int(self.sequences.row_end[sequence_idx])
            rows = first + np.flatnonzero(self.holds[first:last])
            address = self.address[rows] - self.address[first]
            columns = (address, self.file_idx[rows], self.line[rows], self.column[rows])
            said = b"".join(column.tobytes() for column in columns)
            known = self._digests[sequence_idx] = self._said.setdefault(said, len(self._said))
        return known

    @cached_property
    def holds(self) -> Mask:
        """Which rows describe an instruction: the last at its address, and the ends of sequences."""
        holds = np.ones(len(self.address), np.bool_)
        holds[:-1] = (self.address[1:] != self.address[:-1]) | ((self.flags[:-1] & RowFlag.END_SEQUENCE) != 0)
        return holds

    @cached_property
    def _digests(self) -> dict[int, int]:
        return {}

    @cached_property
    def _said(self) -> dict[bytes, int]:
        return {}

    @cached_property
    def is_dead(self) -> Mask:
        """Which sequences are dead."""
        return self.sequences.dead

    @cached_property
    def has_dead(self) -> bool:
        """Whether any is."""
        return bool(self.is_dead.any())

    @cached_property
    def sequence_idx(self) -> U32:
        """The sequence of each row."""
        row_counts = (self.sequences.row_end - self.sequences.row_start).astype(np.int64)
        return np.repeat(np.arange(len(row_counts), dtype=np.uint32), row_counts)

    @cached_property
    def _by_start(self) -> tuple[I64, U64, U64]:
        """Live sequences ordered by start, their starts, and the highest end up to each."""
        live = np.flatnonzero(~self.sequences.dead)
        order = live[np.argsort(self.sequences.start[live], kind="stable")]
        return order, self.sequences.start[order], np.maximum.accumulate(self.sequences.end[order])

    def sequences_at(self, vaddr: int) -> I64:
        """Return all live sequences that cover `vaddr`, in the order of the table."""
        if not 0 <= vaddr < 1 << 64:
            return np.array([], dtype=np.int64)
        order, starts, reach = self._by_start
        end = int(np.searchsorted(starts, np.uint64(vaddr), side="right"))
        begin = int(np.searchsorted(reach[:end], np.uint64(vaddr), side="right"))
        found = order[begin:end]
        return np.sort(found[self.sequences.end[found] > vaddr])

    def sequences_from(self, vaddr: int) -> list[int]:
        """Return all live sequences that start at `vaddr`.

        Kept, since folded functions of a unit ask one after the other.
        """
        known = self._from.get(vaddr)
        if known is None:
            covering = self.sequences_at(vaddr)
            known = self._from[vaddr] = covering[self.sequences.start[covering] == vaddr].tolist()
        return known

    @cached_property
    def _from(self) -> dict[int, list[int]]:
        return {}


def scan_all(
    sections: LineSections, offsets: Sequence[int], threads: int = 1, comp_dirs: Sequence[str] | None = None
) -> list[LineProgram | FormatError]:
    """Return the line table at each of `offsets`, or why it cannot be read; equal offsets give one object."""
    offset_to_dir = dict(zip(offsets, comp_dirs or [""] * len(offsets), strict=True))
    programs: dict[int, LineProgram | FormatError] = {}
    for offset, columns in scan_columns(sections, offset_to_dir, threads).items():
        if isinstance(columns, LineColumns):
            programs[offset] = _program(sections, offset, offset_to_dir[offset], columns)
        else:
            programs[offset] = columns
    return [programs[offset] for offset in offsets]


def _program(sections: LineSections, offset: int, comp_dir: str, columns: LineColumns) -> LineProgram:
    address, file_idx, line, column, flags = columns.rows
    return LineProgram(
        offset, columns.version, comp_dir, address, file_idx, line, column, flags,
        Sequences(*columns.sequences), columns.unterminated_row_count, sections, columns.directories, columns.files,
    )  # fmt: skip


def _join(directory: str, name: str) -> str:
    """Return `name` below `directory`, unless it is absolute (for Windows, too)."""
    if not directory or name.startswith(("/", "\\")) or name[1:3] in (":\\", ":/"):
        return name
    return f"{directory.rstrip('/')}/{name}"
