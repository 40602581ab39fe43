"""Every row of `.eh_frame` of real libraries is what pyelftools has."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.dwarf.cfi import rules
from icf.dwarf.cfi.frames import CallFrames, Row
from icf.elf.image import Image
from tests.support.call_frames_oracle import Rows, Rule, rows_of_elftools

FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64")
LIBRARIES = ("libc.so.6", "libstdc++.so.6", "libssl.so.3", "ld-linux-x86-64.so.2")


def library(name: str) -> Path:
    found = next((path for folder in FOLDERS if (path := Path(folder) / name).exists()), None)
    return found or pytest.skip(f"needs {name}")


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def rows_of(columns: list[list[int]], row: Row) -> Rows:
    found: Rows = {}
    for each in columns:
        is_expression = each[rules.CFA_REGISTER] == rules.CFA_EXPRESSION
        offset = each[rules.CFA_OFFSET]
        cfa: Rule = each[rules.CFA_REGISTER], row.block(offset) if is_expression else signed(offset)
        registers: dict[int, Rule] = {}
        for number in range(rules.REGISTER_COUNT):
            kind, value = each[rules.FIRST + 2 * number : rules.FIRST + 2 * number + 2]
            if kind in (rules.EXPRESSION, rules.VAL_EXPRESSION):
                registers[number] = kind, row.block(value)
            elif kind != rules.UNSPECIFIED:
                registers[number] = kind, signed(value)
        found[each[rules.START]] = cfa, registers
    return found


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_row_is_the_second_readers(name: str) -> None:
    path = library(name)
    compared = skipped = 0
    with Image.open(path) as image:
        frames = CallFrames(image)
        ours = {fde.offset: (fde, rows, section) for section, fde, rows in frames.rows() if section.is_eh}
        for offset, low, theirs in rows_of_elftools(path):
            fde, rows, section = ours.pop(offset)
            assert fde.low == low
            if theirs is None:
                skipped += 1
                continue
            assert rows_of(rows.tolist(), Row(rows, section)) == theirs, hex(low)
            compared += len(theirs)
            if len(rows) and compared % 7 == 0:  # the table for binary search leads to the same rows
                at = int(rows[-1, rules.START])
                found = frames.row_at(at)
                assert found is not None and found.columns.tolist() == rows[-1].tolist()
    assert not ours and compared > 1000 and skipped * 20 < compared
