"""`.debug_dcall` byte by byte, in both dialects and all widths."""

from __future__ import annotations

import random

import numpy as np
import pytest

from icf.errors import FormatError
from icf.tables.dcall import Dialect, DirectCalls, encode_dcall, parse_dcall

PROPOSAL = bytes.fromhex(
    "2b000000"  # unit_length 43
    "04"  # version, one byte
    "00010000"  # debug_info: the unit at 0x100
    "08"  # address_size
    "0000000000000000 2a"  # caller record: DIE 0x12a
    "3611400000000000 33"  # call site 0x401136, DIE 0x133
    "0000000000000000 b501"  # caller record: DIE 0x1b5
    "3611400000000000 4b"  # the same call site, DIE 0x14b: these two callers are merged
)
RECORDS = [(0x401136, 0x133, 0x12A), (0x401136, 0x14B, 0x1B5)]

PROPOSAL_64 = bytes.fromhex(
    "ffffffff 1600000000000000"  # 64-bit DWARF, unit_length 22
    "04"  # version
    "0001000000000000"  # debug_info, 8 bytes
    "04"  # address_size 4
    "36114000 33"  # call site 0x401136, DIE 0x133; no caller record precedes
    "4b114000 858000"  # call site 0x40114b, DIE 0x105, padded as an assembler does
)

GCC = bytes.fromhex(
    "1c000000"  # unit_length 28
    "0400"  # version, two bytes
    "00010000"  # debug_info
    "08"  # address_size of the target; labels have the width of an offset all the same
    "00000000 2a"  # caller record: DIE 0x12a
    "36114000 33"  # call site 0x401136, DIE 0x133
    "00000000 b501"  # caller record: DIE 0x1b5
    "36114000 4b"  # call site 0x401136, DIE 0x14b
)

GCC_64 = bytes.fromhex(
    "ffffffff 1d00000000000000"  # 64-bit DWARF, unit_length 29
    "0400"  # version
    "0001000000000000"  # debug_info
    "08"  # address_size
    "0000000000000000 2a"  # caller record: DIE 0x12a
    "3611400000000000 33"  # call site 0x401136, DIE 0x133
)

# Both readings of the header fit: as the proposal's, debug_info is 0x8000000 and address_size 4
GCC_LIKE_PROPOSAL = bytes.fromhex(
    "11000000"  # unit_length 17
    "0400"  # version
    "00000008"  # debug_info 0x8000000
    "04"  # address_size
    "00000000 2a"  # caller record, which GCC's unit begins with
    "36114000 33"  # call site 0x401136, DIE 0x8000033
)
PROPOSAL_LIKE_GCC = bytes.fromhex(
    "0f000000"  # unit_length 15
    "04"  # version
    "00000001"  # debug_info 0x1000000
    "08"  # address_size
    "0811400000000000 33"  # call site 0x401108: its first byte is where GCC has the address size
)
UNITS = [PROPOSAL, PROPOSAL_64, GCC, GCC_64, GCC_LIKE_PROPOSAL, PROPOSAL_LIKE_GCC]


def records(calls: DirectCalls) -> list[tuple[int, int, int]]:
    return list(zip(calls.call_site.tolist(), calls.callee_die.tolist(), calls.caller_die.tolist(), strict=True))


@pytest.mark.parametrize(
    ("unit", "dialect", "widths", "expected"),
    [
        (PROPOSAL, Dialect.PROPOSAL, (4, 8, 8), RECORDS),
        (PROPOSAL_64, Dialect.PROPOSAL, (8, 4, 4), [(0x401136, 0x133, 0), (0x40114B, 0x105, 0)]),
        (GCC, Dialect.GCC, (4, 8, 4), RECORDS),
        (GCC_64, Dialect.GCC, (8, 8, 8), RECORDS[:1]),
        (GCC_LIKE_PROPOSAL, Dialect.GCC, (4, 4, 4), [(0x401136, 0x8000033, 0x800002A)]),
        (PROPOSAL_LIKE_GCC, Dialect.PROPOSAL, (4, 8, 8), [(0x401108, 0x1000033, 0)]),
    ],
)
def test_each_dialect_and_width_is_read(
    unit: bytes, dialect: Dialect, widths: tuple[int, int, int], expected: list[tuple[int, int, int]]
) -> None:
    calls = parse_dcall(unit, "a.out")
    assert records(calls) == expected
    (layout,) = calls.units
    assert layout.dialect is dialect
    assert (layout.offset_size, layout.address_size, layout.site_size) == widths


def test_units_of_all_kinds_follow_each_other_and_a_caller_ends_with_its_unit() -> None:
    calls = parse_dcall(b"".join(UNITS), "a.out")
    assert [unit.dialect.value for unit in calls.units] == ["proposal", "proposal", "gcc", "gcc", "gcc", "proposal"]
    assert calls.unit_row == (0, 2, 4, 6, 7, 8)
    assert records(calls)[2] == (0x401136, 0x133, 0)
    assert len(calls) == 9


def test_no_bytes_are_no_records() -> None:
    assert len(parse_dcall(b"", "a.out")) == 0


@pytest.mark.parametrize(
    ("unit", "size_bytes"), [(unit, size_bytes) for unit in UNITS for size_bytes in range(1, len(unit))]
)
def test_every_truncation_is_refused(unit: bytes, size_bytes: int) -> None:
    problem = r"(needs \d bytes, \d are left|unit length is \d+, \d+ bytes are left)"
    with pytest.raises(FormatError, match=rf"a\.out: \.debug_dcall\+0x[0-9a-f]+: {problem}$"):
        parse_dcall(unit[:size_bytes], "a.out")


@pytest.mark.parametrize("unit", [PROPOSAL, PROPOSAL_64, GCC, GCC_64])
@pytest.mark.parametrize("missing", [1, 2, 3])
def test_an_entry_cut_off_by_its_unit_is_refused(unit: bytes, missing: int) -> None:
    width = 12 if unit.startswith(b"\xff\xff\xff\xff") else 4
    start = 0 if width == 4 else 4
    length = len(unit) - width - missing
    cut = unit[:start] + length.to_bytes(width - start, "little") + unit[width:-missing]
    with pytest.raises(FormatError, match=r"\.debug_dcall\+0x[0-9a-f]+: needs \d bytes, \d are left$"):
        parse_dcall(cut, "a.out")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("f0ffffff", r"\+0x0: unit length 0xfffffff0 is reserved"),
        ("00000000", r"\+0x4: unit has version 0, only 4 is known"),
        ("06000000 05 00000000 08", r"\+0x4: unit has version 5, only 4 is known"),
        ("06000000 04 00000000 03", r"\+0x4: unit has no address size of 4 or 8 where either dialect keeps it"),
        ("01000000 04", r"\+0x4: unit has no address size of 4 or 8"),
        ("15000000 04 00000000 04 36114000 8080808080808080808000", r"\+0xe: ULEB128 is longer than 10 bytes"),
        ("14000000 04 00000000 04 36114000 ffffffffffffffffff02", r"\+0xe: ULEB128 does not fit 64 bits"),
        (
            "ffffffff 1800000000000000 04 0001000000000000 04 36114000 80ffffffffffffffff01",
            r"\+0x16: DIE 0xffffffffffffff80 of the unit at 0x100 exceeds 64 bits",
        ),
    ],
)
def test_broken_rules_are_named(data: str, message: str) -> None:
    with pytest.raises(FormatError, match=r"^a\.out: \.icf_dcall.*" + message):
        parse_dcall(bytes.fromhex(data), "a.out", ".icf_dcall")


STARTS = np.array([0, 0x100, 0x200], np.uint64)
ENDS = np.array([0x100, 0x200, 0x280], np.uint64)


def test_written_bytes() -> None:
    calls = DirectCalls.of([RECORDS[1], RECORDS[0]])
    section, order = encode_dcall(calls, STARTS, ENDS)
    assert section == PROPOSAL
    assert order.tolist() == [1, 0]
    assert encode_dcall(calls, STARTS, ENDS, dialect=Dialect.GCC)[0] == GCC
    assert encode_dcall(DirectCalls.of(RECORDS[:1]), STARTS, ENDS, dialect=Dialect.GCC, dwarf64=True)[0] == GCC_64


def test_records_across_units_go_where_offsets_are_those_of_the_section() -> None:
    across = (0x401200, 0x210, 0x120)  # callee in the third unit, caller in the second
    section, order = encode_dcall(DirectCalls.of([*RECORDS, across]), STARTS, ENDS)
    assert order.tolist() == [2, 0, 1]
    calls = parse_dcall(section, "a.out")
    assert records(calls) == [across, *RECORDS]
    assert [unit.debug_info for unit in calls.units] == [0, 0x100]


def test_a_record_without_a_caller_stays_without_one() -> None:
    rows = [(0x30, 0x110, 0x120), (0x20, 0x110, 0), (0x10, 0x10, 0)]
    section, order = encode_dcall(DirectCalls.of(rows), STARTS, ENDS)
    assert records(parse_dcall(section, "a.out")) == [rows[idx] for idx in order] == [rows[2], rows[1], rows[0]]


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("address_size", [4, 8])
def test_what_is_written_is_read(dialect: Dialect, dwarf64: bool, address_size: int) -> None:
    rng = random.Random(3)
    starts = np.arange(0, 2**31, 2**25, dtype=np.uint64)
    rows = [
        (rng.randrange(1, 2**32), rng.randrange(2**31), rng.choice((0, rng.randrange(1, 2**31)))) for _ in range(2000)
    ]
    calls = DirectCalls.of(rows)
    options = {"dialect": dialect, "dwarf64": dwarf64, "address_size": address_size}
    section, order = encode_dcall(calls, starts, starts + np.uint64(2**25), **options)  # type: ignore[arg-type]
    again = parse_dcall(section, "a.out")
    assert records(again) == [rows[idx] for idx in order]
    assert {unit.dialect for unit in again.units} == {dialect}
    assert sorted(order.tolist()) == list(range(2000))
    shuffled = rng.sample(rows, len(rows))
    assert encode_dcall(DirectCalls.of(shuffled), starts, starts + np.uint64(2**25), **options)[0] == section  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ((0, 0x110, 0x120), {}, "record 0 has call site 0"),
        ((1 << 32, 0x110, 0x120), {"address_size": 4}, "call site 0x100000000 does not fit 4 bytes"),
        ((1 << 32, 0x110, 0x120), {"dialect": Dialect.GCC}, "call site 0x100000000 does not fit 4 bytes"),
        ((1, 0x280, 0x120), {}, "DIE 0x280 lies in no unit"),
        ((1, 0x110, 0x280), {}, "DIE 0x280 lies in no unit"),
    ],
)
def test_what_the_format_cannot_say_is_not_written(
    row: tuple[int, int, int], options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        encode_dcall(DirectCalls.of([row]), STARTS, ENDS, **options)  # type: ignore[arg-type]


def test_a_unit_beyond_four_gigabytes_needs_64_bit_dwarf() -> None:
    starts, ends = np.array([2**32], np.uint64), np.array([2**33], np.uint64)
    calls = DirectCalls.of([(1, 2**32 + 11, 2**32 + 20)])
    with pytest.raises(ValueError, match="unit at 0x100000000 of .debug_info needs 64-bit DWARF"):
        encode_dcall(calls, starts, ends)
    assert records(parse_dcall(encode_dcall(calls, starts, ends, dwarf64=True)[0], "x")) == records(calls)
