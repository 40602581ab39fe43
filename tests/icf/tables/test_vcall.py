"""`.debug_vcall` byte by byte, in both dialects and all widths."""

from __future__ import annotations

import pytest

from icf.errors import FormatError
from icf.tables.vcall import Dialect, VirtualCalls, encode_vcall, parse_vcall

RECORDS = [(0x401136, 2), (0x40114B, 200)]
PROPOSAL = bytes.fromhex(
    "15000000"  # unit_length 21
    "04"  # version, one byte
    "08"  # address_size
    "3611400000000000 02"  # call site 0x401136, slot 2
    "4b11400000000000 c801"  # call site 0x40114b, slot 200
)
PROPOSAL_64 = bytes.fromhex(
    "ffffffff 0d00000000000000"  # 64-bit DWARF, unit_length 13
    "04"  # version
    "04"  # address_size
    "36114000 02"  # call site 0x401136, slot 2
    "4b114000 c801"  # call site 0x40114b, slot 200
)
GCC = bytes.fromhex(
    "0e000000"  # unit_length 14
    "0400"  # version, two bytes
    "08"  # address_size; labels have the width of an offset
    "36114000 02"  # call site 0x401136, slot 2
    "4b114000 c801"  # call site 0x40114b, slot 200
)
GCC_64 = bytes.fromhex(
    "ffffffff 1600000000000000"  # 64-bit DWARF, unit_length 22
    "0400"  # version
    "08"  # address_size
    "3611400000000000 02"  # call site 0x401136, slot 2
    "4b11400000000000 c801"  # call site 0x40114b, slot 200
)
LAYOUTS = [
    (PROPOSAL, Dialect.PROPOSAL, False, 8),
    (PROPOSAL_64, Dialect.PROPOSAL, True, 4),
    (GCC, Dialect.GCC, False, 8),
    (GCC_64, Dialect.GCC, True, 8),
]
UNITS = [layout[0] for layout in LAYOUTS]


def records(calls: VirtualCalls) -> list[tuple[int, int]]:
    return list(zip(calls.call_site.tolist(), calls.vtable_slot.tolist(), strict=True))


@pytest.mark.parametrize(("unit", "dialect", "dwarf64", "address_size"), LAYOUTS)
def test_each_dialect_and_width_is_read_and_written(
    unit: bytes, dialect: Dialect, dwarf64: bool, address_size: int
) -> None:
    calls = parse_vcall(unit, "a.out")
    assert records(calls) == RECORDS
    assert calls.units[0].dialect is dialect
    section, order = encode_vcall(
        VirtualCalls.of(RECORDS[::-1]), dialect=dialect, dwarf64=dwarf64, address_size=address_size
    )
    assert section == unit
    assert order.tolist() == [1, 0]


def test_units_of_all_kinds_follow_each_other() -> None:
    calls = parse_vcall(b"".join(UNITS), "a.out")
    assert records(calls) == RECORDS * 4
    assert calls.unit_row == (0, 2, 4, 6)


def test_a_call_site_of_zero_is_no_caller_record() -> None:
    section, _ = encode_vcall(VirtualCalls.of([(0, 7), *RECORDS]))
    assert records(parse_vcall(section, "a.out")) == [(0, 7), *RECORDS]


def test_no_bytes_are_no_records() -> None:
    assert len(parse_vcall(b"", "a.out")) == 0
    assert encode_vcall(VirtualCalls.of([]))[0] == b""


@pytest.mark.parametrize(
    ("unit", "size_bytes"), [(unit, size_bytes) for unit in UNITS for size_bytes in range(1, len(unit))]
)
def test_every_truncation_is_refused(unit: bytes, size_bytes: int) -> None:
    problem = r"(needs \d bytes, \d are left|unit length is \d+, \d+ bytes are left)"
    with pytest.raises(FormatError, match=rf"a\.out: \.debug_vcall\+0x[0-9a-f]+: {problem}$"):
        parse_vcall(unit[:size_bytes], "a.out")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("02000000 05 08", r"\+0x4: unit has version 5, only 4 is known"),
        ("03000000 04 00 05", r"\+0x4: unit has no address size of 4 or 8 where either dialect keeps it"),
        ("0b000000 04 08 3611400000000000 82", r"\+0xf: needs 1 bytes, 0 are left"),
        ("08000000 04 08 361140000000", r"\+0x6: needs 8 bytes, 6 are left"),
        ("10000000 04 04 36114000 ffffffffffffffffff7f", r"\+0xa: ULEB128 does not fit 64 bits"),
    ],
)
def test_broken_rules_are_named(data: str, message: str) -> None:
    with pytest.raises(FormatError, match=r"^a\.out: \.icf_vcall" + message):
        parse_vcall(bytes.fromhex(data), "a.out", ".icf_vcall")


def test_a_site_that_does_not_fit_is_not_written() -> None:
    with pytest.raises(ValueError, match="call site 0x100000000 does not fit 4 bytes"):
        encode_vcall(VirtualCalls.of([(1 << 32, 0)]), dialect=Dialect.GCC)
