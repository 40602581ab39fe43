"""The line tables of many units as columns: groups of units, a thread each, through the two kernels.

The kernels need columns that are large enough, not counts: no row and no table entry takes less than a byte,
and a unit's own length, within the section, bounds its bytes. Room that is not used is mostly never touched,
and what is used is copied out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icf.columns import U64
from icf.contents import Contents
from icf.dwarf import line_columns as col
from icf.dwarf._line import run_programs
from icf.dwarf._line_header import scan_headers
from icf.errors import FormatError
from icf.reader import Reader
from icf.threads import in_threads

SECTION = ".debug_line"
_JOB_BYTES = 1 << 20  # of .debug_line that one thread takes at a time
_OVERLAP_FACTOR = 4  # bytes of overlapping programs that are read at most, in sizes of the section
_ROW_COLUMNS = ("address", "file_idx", "line", "column", "flags")
_DTYPES = (np.uint64, np.uint32, np.uint32, np.uint32, np.uint8)
_PROBLEMS = {  # {0} is the value that goes with it
    col.ERR_CUT: "unit ends in the middle of its header",
    col.ERR_RESERVED_LENGTH: "unit_length {0:#x} is reserved",
    col.ERR_LENGTH: "unit_length {0} runs past the section",
    col.ERR_VERSION: "version is {0}, 2 to 5 are known",
    col.ERR_HEADER_LENGTH: "header_length {0} runs past the unit",
    col.ERR_FIELD: "header_length ends the header in the middle of a field",
    col.ERR_ULEB: "ULEB128 does not fit 64 bits",
    col.ERR_FORM: "form {0:#x} is not one of a file table",
    col.ERR_PATH_FORM: "path has form {0:#x}, which needs more than the line sections",
    col.ERR_PATH: "path at {0:#x} is outside of its string section",
    col.ERR_OFFSET: "offset is outside of the section",
    col.ERR_ENTRIES: "file tables hold more entries than bytes",
    col.ERR_ROWS: "program has more rows than bytes",
    col.ERR_OPCODE: "program ends in the middle of an opcode",
    col.ERR_LEB: "LEB128 does not fit 64 bits",
    col.ERR_OPERAND: "operand {0:#x} does not fit 32 bits",
    col.ERR_EXTENDED: "extended opcode of {0} bytes runs past the program",
    col.ERR_ADDRESS_SIZE: "DW_LNE_set_address has {0} bytes, not 1, 2, 4 or 8",
    col.ERR_LINE_RANGE: "line_range is 0 and opcode {0} divides by it",
}


@dataclass(frozen=True, slots=True)
class LineSections:
    """What line programs are made of; a section that the image does not have is empty."""

    line: bytes | memoryview
    line_str: bytes | memoryview
    str_: bytes | memoryview | Contents
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class LineColumns:
    """One line table as the kernels leave it."""

    version: int
    rows: tuple[NDArray[Any], ...]  # address, file_idx, line, column, flags
    sequences: U64  # 6 lines, see `Sequences`
    unterminated_row_count: int
    directories: U64  # 3 lines: section of the path, offset in it, directory index
    files: U64


def scan_columns(sections: LineSections, offsets: Iterable[int], threads: int) -> dict[int, LineColumns | FormatError]:
    """Return the line table at each of `offsets`, or why it cannot be read."""
    found: dict[int, LineColumns | FormatError] = {}
    jobs = list(_jobs(sections, sorted(set(offsets)), found))
    scanned = in_threads(lambda job: _scan(sections, *job), jobs, threads)
    for (units, _), columns in zip(jobs, scanned, strict=True):
        for unit, offset in enumerate(units):
            found[offset] = _unit(sections, unit, columns)
    return found


def _jobs(
    sections: LineSections, offsets: Iterable[int], found: dict[int, LineColumns | FormatError]
) -> Iterator[tuple[list[int], int]]:
    """Yield groups of units and the size of each group in bytes; `found` gets the errors of units that are not read.

    Units do not overlap, but an offset may be wrong, so some do here. Each is read, up to a sum
    that keeps an image full of such offsets from taking for ever.
    """
    view = memoryview(sections.line)
    overlap_bytes, furthest, size_bytes = 0, 0, 0
    units: list[int] = []
    for offset in offsets:
        unit_bytes = _unit_bytes(view, offset)
        if offset < furthest:
            overlap_bytes += min(furthest - offset, unit_bytes)
            if overlap_bytes > _OVERLAP_FACTOR * len(view):
                found[offset] = FormatError(sections.path, SECTION, offset, "too many line programs overlap")
                continue
        furthest = max(furthest, offset + unit_bytes)
        units.append(offset)
        size_bytes += unit_bytes
        if size_bytes >= _JOB_BYTES:
            yield units, size_bytes
            units, size_bytes = [], 0
    if units:
        yield units, size_bytes


def _unit_bytes(line: memoryview, offset: int) -> int:
    """Return how much of the section a unit takes; 0 if its length is beyond it, so that it has no rows."""
    head_bytes, length = 4, int.from_bytes(line[offset : offset + 4], "little")
    if length == 0xFFFFFFFF:
        head_bytes, length = 12, int.from_bytes(line[offset + 4 : offset + 12], "little")
    return head_bytes + length if head_bytes + length <= len(line) - offset else 0


def _scan(sections: LineSections, offsets: list[int], size_bytes: int) -> dict[str, NDArray[Any]]:
    """Return both kernels over some units; columns by name."""
    columns: dict[str, NDArray[Any]] = {
        "units": np.zeros((len(offsets), col.COLUMN_COUNT), np.uint64),
        "entries": np.empty((col.E_COUNT, size_bytes), np.uint64),
        "sequences": np.empty((col.Q_COUNT, size_bytes // 3 + 1), np.uint64),
        "defined": np.empty((2, size_bytes // 3 + 1), np.uint64),
    }
    for name, dtype in zip(_ROW_COLUMNS, _DTYPES, strict=True):
        columns[name] = np.empty(size_bytes, dtype)
    view = {name: column.data for name, column in columns.items()}  # an uncompiled kernel then sees plain ints
    state, special, formats = (np.zeros(shape, np.uint64).data for shape in (col.S_COUNT, (2, 256), 512))
    limits = np.array([_usable(sections.line_str), _usable(sections.str_)], np.uint64).data
    line, units, entries, rows = (
        memoryview(sections.line),
        view["units"],
        view["entries"],
        [view[name] for name in _ROW_COLUMNS],
    )
    scan_headers(line, np.array(offsets, np.uint64).data, limits, state, formats, units, entries)
    row_count = run_programs(line, state, special, units, view["sequences"], view["defined"], *rows)
    del view, units, entries, rows
    for name in _ROW_COLUMNS:
        columns[name] = columns[name][:row_count].copy()  # as fast as shrinking in place, and two thirds of its memory
    last = columns["units"][-1].tolist() if offsets else [0] * col.COLUMN_COUNT
    for name, end in (
        ("entries", col.END_OF_FILES),
        ("sequences", col.END_OF_SEQUENCES),
        ("defined", col.END_OF_DEFINED),
    ):
        columns[name] = columns[name][:, : last[end]].copy()
    return columns


def _usable(section: bytes | memoryview | Contents) -> int:
    """Return the size up to the last NUL: a string that starts below it has an end."""
    end = len(section)
    while end > 0:
        start = max(end - 4096, 0)
        nul = bytes(section[start:end]).rfind(0)
        if nul >= 0:
            return start + nul + 1
        end = start
    return 0


def _unit(sections: LineSections, unit: int, columns: dict[str, NDArray[Any]]) -> LineColumns | FormatError:
    """Return one unit's part of the columns, or its error."""
    of = columns["units"][unit].tolist()
    if of[col.ERROR]:
        problem = _PROBLEMS[of[col.ERROR]].format(of[col.ERROR_VALUE])
        return FormatError(sections.path, SECTION, of[col.ERROR_AT], problem)
    entries = columns["entries"]
    directories = entries[:, of[col.FIRST_DIRECTORY] : of[col.FIRST_FILE]]
    files = entries[:, of[col.FIRST_FILE] : of[col.END_OF_FILES]]
    if of[col.END_OF_DEFINED] > of[col.FIRST_DEFINED]:
        defined = columns["defined"][:, of[col.FIRST_DEFINED] : of[col.END_OF_DEFINED]]
        try:
            files = np.hstack([files, _defined_files(sections, defined)])
        except FormatError as defined_error:
            return defined_error
    rows = tuple(columns[name][of[col.FIRST_ROW] : of[col.END_OF_ROWS]] for name in _ROW_COLUMNS)
    sequences = columns["sequences"][:, of[col.FIRST_SEQUENCE] : of[col.END_OF_SEQUENCES]]
    return LineColumns(of[col.VERSION], rows, sequences, of[col.TAKEN_BACK], directories, files)


def _defined_files(sections: LineSections, defined: U64) -> U64:
    """Return entries of the files that DW_LNE_define_file adds: path, directory index, time, size."""
    entries = np.zeros((col.E_COUNT, defined.shape[1]), np.uint64)
    for i, (pos, end) in enumerate(defined.T.tolist()):
        reader = Reader(sections.line, sections.path, SECTION, pos, end)
        reader.cstring()
        entries[:, i] = col.IN_LINE, pos, reader.uleb()
        reader.uleb(), reader.uleb()
    return entries
