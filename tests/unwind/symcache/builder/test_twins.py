"""Which function's inlined calls a tombstoned one shares: one rule each, on debug information written as bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from icf.columns import I64, U64
from icf.dwarf.inlines import scan_inlines
from icf.dwarf.opening import open_debug
from tests.support.dwarf_units import (
    CU,
    DECL_FILE,
    DECL_LINE,
    HIGH_PC,
    INLINED,
    LOW_PC,
    ORIGIN,
    STMT_LIST,
    SUBPROGRAM,
    image_of,
    table,
    u32,
    u64,
    unit,
)
from tests.support.line_tables import function as line_rows
from tests.support.line_tables import unit as line_unit
from unwind.symcache.builder.bodies import Bodies
from unwind.symcache.builder.claims import Claims
from unwind.symcache.builder.job import Choices
from unwind.symcache.builder.lines import Lines
from unwind.symcache.builder.origins import Origins
from unwind.symcache.builder.sequences import Chooser
from unwind.symcache.builder.twins import find_twins

CALL = (0x58, 0x59, 0x57)  # file, line, column
START, SIZE_BYTES = 0x1000, 0x40
ABBREV = table(
    (1, CU, True, [(STMT_LIST, 0x17)]),
    (2, SUBPROGRAM, False, [(DECL_FILE, 0x0B), (DECL_LINE, 0x0B)]),
    (3, SUBPROGRAM, True, [(LOW_PC, 0x01), (HIGH_PC, 0x06)]),
    (4, INLINED, True, [(ORIGIN, 0x13), (LOW_PC, 0x01), (HIGH_PC, 0x06), *((at, 0x0B) for at in CALL)]),
)


class Inlined(NamedTuple):
    """An inlined call: bytes from the function's start, size, where it is called, what was put in, calls inside."""

    at: int = 0x10
    size_bytes: int = 8
    line: int = 14
    column: int = 3
    declared: int = 0  # of two functions, declared at lines 5 and 6
    inside: tuple[Inlined, ...] = ()


ONE = Inlined()
ROWS = [(0, 1, 10), (0x10, 1, 14), (0x18, 1, 11)]


def written(call: Inlined, low: int) -> bytes:
    origin = 17 + 3 * call.declared  # from the start of the unit: the first DIE after that of the unit
    own = b"\x04" + u32(origin) + u64(low + call.at) + u32(call.size_bytes) + bytes([1, call.line, call.column])
    return own + b"".join(written(each, low) for each in call.inside) + b"\0"


def twins(
    known: tuple[Inlined, ...], lost: tuple[Inlined, ...], rows: list[tuple[int, int, int]] | None = None
) -> list[int]:
    """Whose trees the known and the lost function have, by row; `rows` are the line rows of the lost one."""
    dies = b"\x01" + u32(0) + b"\x02\x01\x05" + b"\x02\x01\x06"
    for low, calls in ((START, known), (0, lost)):
        inlined = b"".join(written(each, low) if low else written(each._replace(at=0), 0) for each in calls)
        dies += b"\x03" + u64(low) + u32(SIZE_BYTES) + inlined + b"\0"
    sequences = [line_rows(START, ROWS, SIZE_BYTES), line_rows(0, ROWS if rows is None else rows, SIZE_BYTES)]
    line = line_unit(b"".join(sequences), 5)
    image = image_of({".debug_info": unit(dies + b"\0"), ".debug_abbrev": ABBREV, ".debug_line": line})
    debug = open_debug(image, inlines=True)
    scan = scan_inlines(debug)
    assert len(scan.functions.die) == 2
    lines = Lines(image, debug)
    (program,) = lines.tables
    assert program is not None
    bodies = Bodies(vaddrs(START), vaddrs(START + SIZE_BYTES), rows_of(-1), rows_of(-1), {}, True)
    zeros = np.zeros(2, np.uint32)
    claims = Claims(rows_of(0, 0), np.ones(2, bool), zeros.astype(np.uint64), zeros, {}, rows_of(0, -1), rows_of(-1, 1))
    first, last = program.sequences.row_start.astype(np.int64), program.sequences.row_end.astype(np.int64)
    if rows == []:
        last[1] = first[1]
    choices = Choices(rows_of(0, 0), first, last)
    origins = Origins(debug, scan, rows_of(0, 1))
    found = find_twins(debug, scan, origins, bodies, claims, lines, Chooser(debug, scan), choices)
    tree: list[int] = found.tree.tolist()
    return tree


def vaddrs(*values: int) -> U64:
    return np.array(values, np.uint64)


def rows_of(*values: int) -> I64:
    return np.array(values, np.int64)


def test_one_text_and_the_same_lines_are_twins() -> None:
    assert twins((ONE,), (ONE,)) == [0, 0]


@pytest.mark.parametrize(
    "other",
    [
        ONE._replace(size_bytes=9),
        ONE._replace(line=15),
        ONE._replace(column=4),
        ONE._replace(declared=1),
        ONE._replace(inside=(Inlined(0x12, 2),)),
    ],
    ids=["size", "line of the call", "column of the call", "function put in", "nesting"],
)
def test_calls_that_differ_in_anything_make_no_twins(other: Inlined) -> None:
    tree = twins((ONE,), (other,))
    assert tree[0] == 0 and tree[1] != 0


def test_the_number_of_calls_counts() -> None:
    assert twins((ONE, ONE._replace(at=0x20)), (ONE,))[1] != 0


@pytest.mark.parametrize(
    "rows",
    [[ROWS[0], (0x10, 1, 15), ROWS[2]], [ROWS[0], (0x11, 1, 14), ROWS[2]], ROWS[:2]],
    ids=["line", "offset", "count"],
)
def test_lines_that_differ_make_no_twins(rows: list[tuple[int, int, int]]) -> None:
    assert twins((ONE,), (ONE,), rows)[1] != 0


def test_without_lines_there_is_no_twin() -> None:
    assert twins((ONE,), (ONE,), []) == [0, -1]


def test_a_function_that_inlines_nothing_needs_none() -> None:
    assert twins((ONE,), (), []) == [0, 1]
