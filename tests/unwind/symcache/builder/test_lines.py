"""Which sequence of a line table is that of a function: DW_AT_LLVM_stmt_sequence says it, else its code does."""

from __future__ import annotations

import numpy as np

from icf.dwarf.inlines import scan_inlines
from icf.dwarf.line import LineSections
from icf.dwarf.opening import open_debug
from tests.support.dwarf_units import (
    CU,
    HIGH_PC,
    LOW_PC,
    SUBPROGRAM,
    image_of,
    table,
    u32,
    u64,
    uncompiled_kernels,
    unit,
)
from tests.support.line_lookup import read_line_program
from tests.support.line_tables import function
from tests.support.line_tables import unit as line_unit
from unwind.symcache.builder.sequences import Chooser, covering, stated

STMT_SEQUENCE = 0x3E0C
FOLDED = function(0x1000, [(0, 1, 10), (4, 1, 12)])
ROWS = [FOLDED, function(0x1000, [(0, 1, 20), (4, 1, 22)]), function(0x2001, [(0, 1, 30)]), function(0, [(0, 1, 40)])]
LINE = line_unit(b"".join(ROWS), 5)
OFFSETS = [LINE.index(rows) for rows in ROWS]


def test_stated() -> None:
    abbrev = table(
        (1, CU, True, ()),
        (2, SUBPROGRAM, False, [(LOW_PC, 0x01), (HIGH_PC, 0x06), (STMT_SEQUENCE, 0x17)]),
        (3, SUBPROGRAM, False, [(LOW_PC, 0x01), (HIGH_PC, 0x06)]),
    )
    dies = b"\x01"
    for low, at in ((0x1000, OFFSETS[1]), (0x1000, OFFSETS[0]), (0x1000, OFFSETS[0] + 1), (0x2001, OFFSETS[0]),
                    (0x1000, OFFSETS[3]), (0x1000, 0xFFFFFFFF)):  # fmt: skip
        dies += b"\x02" + u64(low) + u32(16) + u32(at)
    dies += b"\x03" + u64(0x1000) + u32(16) + b"\0"
    image = image_of({".debug_info": unit(dies), ".debug_abbrev": abbrev})
    scan = scan_inlines(open_debug(image, inlines=True))
    wanted = [OFFSETS[1], OFFSETS[0], OFFSETS[0] + 1, OFFSETS[0], OFFSETS[3], 0xFFFFFFFF]
    assert scan.functions.sequence_at.tolist() == [*(offset + 1 for offset in wanted), 0]
    with uncompiled_kernels():
        again = scan_inlines(open_debug(image, inlines=True))
        assert again.functions.sequence_at.tolist() == scan.functions.sequence_at.tolist()
    program = read_line_program(LineSections(LINE, b"", b"", "a.out"), 0)
    assert program.sequences.offset.tolist() == OFFSETS
    rows = np.arange(-1, 7)
    start = np.array([0x1000, 0x1000, 0x1000, 0x1000, 0x2001, 0x1000, 0x1000, 0x1000], np.uint64)
    # none: no function; within a sequence; of other code; its code is not in the image; no such; not stated
    assert stated(program, scan, rows, start).tolist() == [-1, 1, 0, -1, -1, -1, -1, -1]


def test_covering() -> None:
    program = read_line_program(LineSections(LINE, b"", b"", "a.out"), 0)
    start = np.array([0x0FFF, 0x1004, 0x1010, 0x2000, 0x2001, 0x2011, 0x0], np.uint64)
    end = np.array([0x1000, 0x1010, 0x1020, 0x2010, 0x2011, 0x2020, 0x10], np.uint64)
    found = covering(program, start, end).tolist()
    assert [number if number != 0 else 1 for number in found] == [-1, 1, -1, 2, 2, -1, -1]


def test_a_line_table_without_sequences_has_none_for_a_function() -> None:
    abbrev = table(
        (1, CU, True, ()), (2, SUBPROGRAM, False, [(LOW_PC, 0x01), (HIGH_PC, 0x06)]), (3, SUBPROGRAM, False, ())
    )
    dies = b"\x01" + b"\x02" + u64(0x1000) + u32(16) + b"\x03" + b"\0"
    debug = open_debug(image_of({".debug_info": unit(dies), ".debug_abbrev": abbrev}), inlines=True)
    scan = scan_inlines(debug)
    for rows, expected in ((b"", [-1]), (FOLDED, [0])):  # as of a damaged one
        program = read_line_program(LineSections(line_unit(rows, 5), b"", b"", "a.out"), 0)
        found = Chooser(debug, scan).choose(program, np.array([0]), np.array([0x1000], np.uint64))
        assert found.tolist() == expected
