"""Lines of stdin as addr2line and llvm-symbolizer read them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unwind.symbolize.requests import Request, parse_number, read_addresses, read_hexadecimal, read_request

U64 = (1 << 64) - 1


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("1146", 0x1146),
        ("0x1146", 0x1146),
        (" 0X1146 ", 0x1146),
        ("1146 1149", 0x1146),
        ("beef", 0xBEEF),
        ("", 0),
        ("add", 0xADD),  # also where there is a function of that name
        ("0xmain", 0),
        ("1146x", 0x1146),
        ("0x1146+1", 0x1146),
        ("+1146", 0),
        ("f" * 30, U64),
    ],
)
def test_addr2line_reads_hexadecimal(line: str, address: int) -> None:
    assert read_hexadecimal(line) == Request(address=address)


@pytest.mark.parametrize(
    ("line", "symbol", "offset"),
    [
        ("main", "main", 0),
        (" main 4", "main", 0),
        ("main+0x4", "main", 4),
        ("add+10", "add", 10),
        ("main+x", "main", 0),
    ],
)
def test_addr2line_reads_names(line: str, symbol: str, offset: int) -> None:
    assert read_hexadecimal(line) == Request(symbol=symbol, offset=offset)


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("0x1146", Request(address=0x1146)),
        ("4422", Request(address=4422)),
        ("01146", Request(address=0o1146)),
        ("  0x1146 ", Request(address=0x1146)),
        ("CODE 0x1146", Request(address=0x1146)),
        ("DATA 0x1146", Request(address=0x1146, is_data=True)),
        ("0x1146 0x1149", Request(address=0x1146)),
        ("main", Request(symbol="main")),
        ("CODE main", Request(symbol="main")),
        ("main+4", Request(symbol="main", offset=4)),
        ("main+0x14", Request(symbol="main", offset=0x14)),
        ("main+010", Request(symbol="main", offset=8)),
        ("main+08", Request(symbol="main+08")),
        ("operator+", Request(symbol="operator+")),
        ("-1", Request(symbol="-1")),
        ("CODE", Request(symbol="CODE")),
        ("", Request()),
        ("   ", Request()),
    ],
)
def test_with_an_image_a_line_is_an_address_or_a_function(line: str, request_: Request) -> None:
    assert read_request(line, image_is_known=True) == request_


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("0x114g", "'0x114g': 0x114g is not an address"),
        ("0xfffffffffffffffff", "'0xfffffffffffffffff': 0xfffffffffffffffff is not an address"),
        ("1_0", "'1_0': 1_0 is not an address"),
        ("FILE:shop 0x1", "'FILE:shop 0x1': the image is that of -e"),
        ("FRAME 0x4000", "'FRAME 0x4000': FRAME is not known here, CODE and DATA are"),
        ("DATA main", "'DATA main': main is not an address"),
    ],
)
def test_what_cannot_be_asked_is_said(line: str, problem: str) -> None:
    assert read_request(line, image_is_known=True) == Request(problem=problem)


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("/usr/bin/shop 0x1139", Request(image="/usr/bin/shop", address=0x1139)),
        ("shop main", Request(image="shop", symbol="main")),
        ('"my shop" 0x1139', Request(image="my shop", address=0x1139)),
        ("'my shop'0x1139", Request(image="my shop", address=0x1139)),
        ("CODE 'my shop' 0x1139", Request(image="my shop", address=0x1139)),
        ("FILE:shop 0x1139", Request(image="shop", address=0x1139)),
        ('FILE:"my shop" 17', Request(image="my shop", address=17)),
        ("BUILDID:4f1a 0x1139", Request(build_id="4f1a", address=0x1139)),
        ("0x1139", Request(problem="'0x1139': is not an image and an address: write 'IMAGE ADDRESS', or -e IMAGE")),
        (
            "CODE 0x1139",
            Request(problem="'CODE 0x1139': is not an image and an address: write 'IMAGE ADDRESS', or -e IMAGE"),
        ),
        ("", Request()),
    ],
)
def test_without_an_image_a_line_names_it(line: str, request_: Request) -> None:
    assert read_request(line, image_is_known=False) == request_


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("0x10", 16),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("99", 99),
        (str(U64), U64),
        (str(U64 + 1), None),
        ("09", None),
        ("0x", None),
        ("0x-1", None),
        ("0x_1", None),
        (" 1", None),
        ("+1", None),
        ("1e3", None),
        ("\u0661", None),
    ],
)
def test_numbers(text: str, value: int | None) -> None:
    assert parse_number(text) == value


@settings(deadline=None)
@given(
    st.lists(st.text("019abfxXo_+ \u0663", max_size=5) | st.integers(0, 2 * U64).map(hex), min_size=1), st.booleans()
)
def test_addresses_that_are_read_together_are_those_of_each(lines: list[str], is_gnu: bool) -> None:
    together = read_addresses(lines, is_gnu)
    if together is not None:
        each = [read_hexadecimal(line) if is_gnu else read_request(line, True) for line in lines]
        assert each == [Request(address=address) for address in together]


def test_numbers_are_read_together() -> None:
    assert read_addresses(["0x1146", "4422", "0"], False) == [0x1146, 4422, 0]
    assert read_addresses(["0x1146", "1149"], True) == [0x1146, 0x1149]
    assert read_addresses(["0x1146", "main"], False) is None
    assert read_addresses(["0x1146", ""], True) is None
    assert read_addresses(["0x1" + "0" * 16], False) is None
