"""`.line.icf_dcall`: its bytes, what comes back, and what is refused."""

from __future__ import annotations

import zlib

import pytest

from icf.errors import FormatError
from icf.tables.annotated_unit import parse_annotations
from icf.tables.annotation import (
    ADDRESSES_AT,
    FIELD,
    GOT_FIELD,
    THREAD_FIELD,
    WIDE_FIELD,
    Function,
    Operand,
    checksum,
    encode_annotation,
)

OPERANDS = (
    Operand(1, FIELD, "_Z1gv"),
    Operand(9, GOT_FIELD),
    Operand(300, WIDE_FIELD),
    Operand(310, FIELD, "_ZL1hv", True),
    Operand(400, THREAD_FIELD),
)
FUNCTIONS = (
    Function("_Z1fv", ("_Z1fv.alias", "\udcff"), False, 420, 7, 16, 0xDEADBEEF, OPERANDS),
    Function("_ZL1hv", (), True, 1, 9, 0, 0, ()),
)
UNIT = encode_annotation("f.cpp", FUNCTIONS)


def with_rest(rest: bytes, functions: int = 1, size_bytes: int | None = None) -> bytes:
    """A unit with other inflated bytes."""
    packed = b"ZLIB" + (len(rest) if size_bytes is None else size_bytes).to_bytes(8, "big") + zlib.compress(rest)
    body = b"\x01" + functions.to_bytes(4, "little") + bytes(8 * functions) + packed
    return len(body).to_bytes(4, "little") + body


def parse(section: bytes) -> None:
    parse_annotations(memoryview(section), "a.out")


def test_functions_come_back_as_they_were() -> None:
    linked = bytearray(UNIT + UNIT)
    linked[ADDRESSES_AT + 8 : ADDRESSES_AT + 16] = (0x401136).to_bytes(8, "little")  # what a linker fills in
    first, second = parse_annotations(memoryview(linked), "a.out")
    assert first.address.tolist() == [0, 0x401136] and second.address.tolist() == [0, 0]
    for unit in (first, second):
        assert unit.source == "f.cpp" and [unit.function(idx) for idx in range(2)] == list(FUNCTIONS)
        assert [unit.name(idx) for idx in range(2)] == ["_Z1fv", "_ZL1hv"]


def test_the_bytes_of_a_unit() -> None:
    unit = encode_annotation("a.c", [Function("f", (), True, 3, 2, 0, 0x01020304, (Operand(1, GOT_FIELD, "g"),))])
    rest = (
        bytes.fromhex(
            "00 00 01 08"  # source at 0, no aliases, one operand, a pool of 8 bytes
            "04 07 02 00 00 01"  # name at 4, size 3 and local, section 2, offset 0, no aliases, one operand
            "04030201"  # checksum
            "05"  # 1 behind the start, kind 1
            "0e"  # name at 6, not local
        )
        + b"a.c\0f\0g\0"
    )
    packed = b"ZLIB" + len(rest).to_bytes(8, "big") + zlib.compress(rest, 6)
    body = b"\x01" + b"\x01\0\0\0" + bytes(8) + packed  # version, one function, its address
    assert unit == len(body).to_bytes(4, "little") + body


def test_what_a_linker_may_change_is_not_in_the_checksum() -> None:
    code = bytes(range(1, 40))
    assert checksum(code, (Operand(10, FIELD),)) == checksum(code[:10] + b"abcd" + code[14:], (Operand(10, FIELD),))
    assert checksum(code, (Operand(10, FIELD),)) != checksum(code[:9] + b"x" + code[10:], (Operand(10, FIELD),))
    assert checksum(code, (Operand(10, GOT_FIELD),)) == checksum(
        code[:7] + bytes(7) + code[14:], (Operand(10, GOT_FIELD),)
    )
    for kind in range(4):
        assert checksum(code, (Operand(0, kind), Operand(37, kind))) == checksum(
            bytes(2) + code[2:-1] + b"\xff", (Operand(0, kind), Operand(37, kind))
        )


@pytest.mark.parametrize("size_bytes", range(1, len(UNIT)))
def test_every_truncation_is_refused(size_bytes: int) -> None:
    with pytest.raises(FormatError, match=r"^a\.out: \.line\.icf_dcall\+0x[0-9a-f]+: "):
        parse(UNIT[:size_bytes])


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (b"\x05\0\0\0\x02\0\0\0\0", r"\+0x4: unit has version 2, only 1 is known"),
        (b"\x05\0\0\0\x01\xff\xff\xff\xff", r"\+0x5: unit counts 4294967295 functions, 0 bytes are left"),
        (with_rest(b"", 0, 1 << 40), r"compressed bytes cannot hold the announced 1099511627776 bytes"),
        (with_rest(b"\0\xff\xff\x7f\0"), r"\+0x0: annotation of an object: a number has no end"),
        (with_rest(b"\0\xff\xff\x7f\0\0" + bytes(10 + 4)), r"2097151 numbers in 4 bytes"),
        (with_rest(b"\0\0\0\x01" + bytes(8)), r"1 checksums in 2 bytes"),
        (with_rest(b"\0\0\0\x02" + bytes(6) + bytes(4) + b"a"), r"strings of 2 bytes, 1 are left"),
        (with_rest(b"\0\0\0\x01" + bytes(6) + bytes(4) + b"a"), r"strings of 1 bytes, 1 are left"),
        (with_rest(b"\x05\0\0\x01" + bytes(6) + bytes(4) + b"\0"), r"name at 5 of 1 bytes"),
        (with_rest(b"\0\0\0\x01" + bytes(5) + b"\x01" + bytes(4) + b"\0"), r"do not add up to 0"),
    ],
)
def test_units_that_break_a_rule(section: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        parse(section)
