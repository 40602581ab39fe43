"""Which line table has the lines of a body that nothing describes."""

from __future__ import annotations

import numpy as np

from icf.dwarf.line import LineProgram, LineSections
from tests.support.line_lookup import read_line_program
from tests.support.line_tables import function, unit
from unwind.symcache.builder.anywhere import Anywhere

FILES = np.arange(4, dtype=np.uint32)
START = np.array([0x1000, 0x1004, 0x2000, 0x3000], np.uint64)


def table(*functions: bytes) -> LineProgram:
    return read_line_program(LineSections(unit(b"".join(functions), 5), b"", b"", "a.out"), 0)


def at(vaddr: int, line: int, size_bytes: int = 16) -> bytes:
    return function(vaddr, [(0, 1, line)], size_bytes)


def ask(anywhere: Anywhere, *tables: LineProgram | None) -> list[int]:
    found: list[int] = anywhere.choose(list(tables), [FILES] * len(tables), np.arange(len(START)), START).tolist()
    return found


def test_the_sequence_that_begins_last_before_a_body_decides() -> None:
    anywhere = Anywhere(len(START))
    assert ask(anywhere) == ask(anywhere, None) == [-1] * 4
    assert ask(anywhere, None, table(at(0x0FF0, 1, 64)), table(at(0x1000, 2), at(0x1FF0, 3))) == [2, 2, -1, -1]
    assert anywhere.is_open.tolist() == [False, False, True, True]  # what begins last ends before them
    assert ask(anywhere, table(at(0x0FF8, 4, 64), at(0x2000, 5))) == [-1, -1, 0, -1]  # of units that are read later
    assert anywhere.is_open.tolist() == [False, False, False, True]


def test_copies_have_the_same_lines_and_folded_functions_have_others() -> None:
    anywhere = Anywhere(len(START))
    copies, other = table(at(0x1000, 10), at(0x2000, 20)), table(at(0x1000, 10), at(0x2000, 21))
    assert ask(anywhere, copies) == [0, 0, 0, -1]
    assert ask(anywhere, copies) == [-1] * 4  # it is known already
    assert not anywhere.is_open[:3].any()
    assert ask(anywhere, other) == [-1] * 4
    assert anywhere.is_open.tolist() == [False, False, True, True]
    assert ask(Anywhere(len(START)), table(at(0x1000, 10), at(0x2000, 20)), other)[1:3] == [0, -1]  # both at once
