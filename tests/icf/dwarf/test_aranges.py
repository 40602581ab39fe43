""".debug_aranges assembled by hand; what cannot be read counts as absent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from icf.dwarf.aranges import SECTION, read_ranges
from tests.support.dwarf_units import image_of, u32, u64, uint

Row = tuple[int, int, int]


def table(unit: int, *pairs: tuple[int, int], dwarf64: bool = False, version: int = 2, segment_bytes: int = 0) -> bytes:
    offset = u64(unit) if dwarf64 else u32(unit)
    head = uint(version, 2) + offset + uint(8, 1) + uint(segment_bytes, 1)
    head += bytes(-(len(head) + (12 if dwarf64 else 4)) % 16)
    rest = head + b"".join(u64(low) + u64(size) for low, size in [*pairs, (0, 0)])
    return (b"\xff\xff\xff\xff" + u64(len(rest)) if dwarf64 else u32(len(rest))) + rest


def rows(contents: bytes) -> list[Row]:
    found = read_ranges(image_of({SECTION: contents}))
    return list(zip(found.unit.tolist(), found.low.tolist(), found.high.tolist(), strict=True))


FIRST, SECOND = table(0, (0x1000, 0x10), (0x1000, 0x10)), table(0x40, (0x2000, 8), dwarf64=True)
FIRST_ROWS: Sequence[Row] = [(0, 0x1000, 0x1010), (0, 0x1000, 0x1010)]
SECOND_ROWS: Sequence[Row] = [(0x40, 0x2000, 0x2008)]


def test_each_range_is_a_row_of_its_unit() -> None:
    assert rows(FIRST + SECOND) == [*FIRST_ROWS, *SECOND_ROWS]
    assert rows(b"") == []


@pytest.mark.parametrize("other", [table(0x20, (1, 2), version=3), table(0x20, (1, 2), segment_bytes=2)])
def test_a_table_of_another_kind_is_left_out(other: bytes) -> None:
    assert rows(FIRST + other + SECOND) == [*FIRST_ROWS, *SECOND_ROWS]


@pytest.mark.parametrize("broken", [b"\x01", u32(0x1000), u32(3) + b"abc", SECOND[:-1]])
def test_what_is_cut_short_ends_the_list(broken: bytes) -> None:
    assert rows(FIRST + broken) == FIRST_ROWS
