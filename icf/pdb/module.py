"""One module of a PDB: its procedures, inlined calls and lines, as columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U64
from icf.errors import FormatError
from icf.pdb import columns as col
from icf.pdb._lines import read_annotations, scan_lines
from icf.pdb._symbols import scan_procedures, scan_publics
from icf.pdb.dbi import Module

_PROBLEMS = {
    col.ERR_LENGTH: "record is longer than what is left of its stream",
    col.ERR_SHORT: "record is shorter than its kind needs",
    col.ERR_SITE: "inlined call is not inside of a procedure",
    col.ERR_BLOCK: "block is longer than what is left of its subsection",
}
_PROCEDURE_BYTES, _THUNK_BYTES, _SITE_BYTES, _PUBLIC_BYTES = 41, 25, 16, 14
_COMPILERS = (0x1116, 0x113C)  # S_COMPILE2, S_COMPILE3
_HEAD_RECORDS = 8
_SIGNATURE_BYTES = 4  # of a module's stream, before its symbols


class Symbols(NamedTuple):
    """Procedures and inlined calls; `icf.pdb.columns` has the columns of both."""

    procedures: U64
    sites: U64


class Lines(NamedTuple):
    """Line rows, inlined functions and code of inlined calls; `icf.pdb.columns` has the columns of all."""

    runs: U64
    rows: U64
    inlinees: U64
    annotations: U64
    files: memoryview  # a file is an offset in it: u32 offset of its name in the string table


def read_symbols(stream: memoryview, module: Module, path: str) -> Symbols:
    """Return the procedures of a module; raise FormatError if its records break the format."""
    end = _end_of_symbols(stream, module, path)
    size_bytes = max(end - _SIGNATURE_BYTES, 0)
    procedures = np.empty((size_bytes // _THUNK_BYTES + 1, col.PROCEDURE_WIDTH), np.uint64)
    sites = np.empty((size_bytes // _SITE_BYTES + 1, col.SITE_WIDTH), np.uint64)
    used = np.zeros(col.USED_WIDTH, np.uint64)
    scan_procedures(stream, min(_SIGNATURE_BYTES, end), end, procedures.data, sites.data, used.data)
    _check(used, path, f"symbols of {module.name}")
    return Symbols(procedures[: int(used[col.FIRST_COUNT])].copy(), sites[: int(used[col.SECOND_COUNT])].copy())


def read_lines(stream: memoryview, module: Module, symbols: Symbols, path: str) -> Lines:
    """Return the lines of a module; raise FormatError if they break the format."""
    begin = _end_of_symbols(stream, module, path) + module.c11_bytes
    end = begin + module.c13_bytes
    place = f"lines of {module.name}"
    if end > len(stream):
        raise FormatError(path, place, begin, f"{module.c13_bytes} bytes end outside of the stream of {len(stream)}")
    size_bytes = end - begin
    runs = np.empty((size_bytes // 12 + 1, col.RUN_WIDTH), np.uint64)
    rows = np.empty((size_bytes // 8 + 1, col.LINE_WIDTH), np.uint64)
    inlinees = np.empty((size_bytes // 12 + 1, col.INLINEE_WIDTH), np.uint64)
    used = np.zeros(col.USED_WIDTH, np.uint64)
    scan_lines(stream, begin, end, runs.data, rows.data, inlinees.data, used.data)
    _check(used, path, place)
    first, second, third = (int(used[each]) for each in (col.FIRST_COUNT, col.SECOND_COUNT, col.THIRD_COUNT))
    sites = symbols.sites
    annotation_bytes = int((sites[:, col.S_END] - sites[:, col.S_START]).sum())
    annotations = np.empty((annotation_bytes // 2 + 1, col.ANNOTATION_WIDTH), np.uint64)
    count = read_annotations(stream, sites.data, annotations.data)
    files = stream[int(used[col.FILES_START]) : int(used[col.FILES_END])]
    return Lines(runs[:first].copy(), rows[:second].copy(), inlinees[:third].copy(), annotations[:count].copy(), files)


def read_publics(stream: memoryview, path: str) -> U64:
    """Return the public symbols; `icf.pdb.columns` has the columns."""
    publics = np.empty((len(stream) // _PUBLIC_BYTES + 1, col.PUBLIC_WIDTH), np.uint64)
    used = np.zeros(col.USED_WIDTH, np.uint64)
    scan_publics(stream, publics.data, used.data)
    _check(used, path, "symbol records")
    return publics[: int(used[col.FIRST_COUNT])].copy()


def is_described(stream: memoryview, module: Module, path: str) -> bool:
    """Return whether a compiler described the module: else it may have functions that are in no record."""
    at, end = _SIGNATURE_BYTES, _end_of_symbols(stream, module, path)
    for _ in range(_HEAD_RECORDS):
        if end - at < 4:
            break
        size_bytes, kind = (int.from_bytes(stream[at + place : at + place + 2], "little") for place in (0, 2))
        if kind in _COMPILERS:
            return True
        at += size_bytes + 2
    return False


def _end_of_symbols(stream: memoryview, module: Module, path: str) -> int:
    if module.symbol_bytes > len(stream):
        problem = f"{module.symbol_bytes} bytes end outside of the stream of {len(stream)}"
        raise FormatError(path, f"symbols of {module.name}", 0, problem)
    return module.symbol_bytes


def _check(used: U64, path: str, place: str) -> None:
    if used[col.ERROR]:
        raise FormatError(path, place, int(used[col.ERROR_AT]), _PROBLEMS[int(used[col.ERROR])])
