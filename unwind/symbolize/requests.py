"""Requests: a line on stdin of `icf symbolize`, read as addr2line and llvm-symbolizer read it.

gnu     1139                          hexadecimal, with or without 0x
        main  add+3                   a function; without + a name that begins as a number does is one, of its digits
llvm    0x1139  4409  main  main+4    an address or a function of the image that -e names
        CODE 0x1139                   the same; FRAME asks for data that a symcache does not have
        DATA 0x4010                   a variable
        /usr/bin/shop 0x1139          of that image, if -e names none; a path with spaces in quotes, FILE: before it
        BUILDID:4f1a.. 0x1139         of an image by its build id
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_U64 = (1 << 64) - 1
_HEX_DIGITS = "0123456789abcdefABCDEF"
_KINDS = ("CODE", "DATA", "FRAME", "SYMBOL")
_FILE, _BUILD_ID = "FILE:", "BUILDID:"
_BASES = {"0x": 16, "0b": 2, "0o": 8}


class Request(NamedTuple):
    """An address, or a function by its name, of an image; or an error."""

    image: str = ""  # its path; "" that of -e
    build_id: str = ""
    address: int | None = None
    symbol: str = ""
    offset: int = 0  # from the begin of the function
    problem: str = ""
    is_data: bool = False  # a variable is asked for


def read_addresses(lines: Sequence[str], is_gnu: bool) -> list[int] | None:
    """Return the addresses, if all lines are numbers that either tool reads as Python does; None: read each alone."""
    text = "".join(lines)
    if not text.isalnum() or not text.isascii():
        return None
    try:
        addresses = list(map(int, lines, repeat(16 if is_gnu else 0)))
    except ValueError:
        return None
    return addresses if max(addresses) <= _U64 else None


def read_hexadecimal(line: str) -> Request:
    """Return the request in a line, as addr2line reads it."""
    text = line.lstrip()
    if text[:2] in ("0x", "0X"):
        text = text[2:]
    elif text[:1] not in _HEX_DIGITS or "+" in text:
        symbol, _, digits = text.split(maxsplit=1)[0].partition("+")
        if symbol:
            return Request(symbol=symbol, offset=parse_number(digits) or 0)
    digits = text[: len(text) - len(text.lstrip(_HEX_DIGITS))]
    return Request(address=min(int(digits or "0", 16), _U64))


def read_request(line: str, image_is_known: bool) -> Request:
    """Return the request in a line, as llvm-symbolizer reads it."""
    if image_is_known and (address := parse_number(line)) is not None:
        return Request(address=address)
    rest = line.strip()
    kind, behind = _first_word(rest)
    if kind in _KINDS and behind:
        if kind == "FRAME":
            return Request(problem=f"'{line}': FRAME is not known here, CODE and DATA are")
        rest = behind
    is_data = kind == "DATA" and bool(behind)
    image = build_id = ""
    if not image_is_known:
        image, build_id, behind = _image(rest)
        if not behind:
            return Request(
                problem=f"'{line}': is not an image and an address: write 'IMAGE ADDRESS', or -e IMAGE" if rest else ""
            )
        rest = behind
    elif rest.startswith((_FILE, _BUILD_ID)):
        return Request(problem=f"'{line}': the image is that of -e")
    place, _ = _first_word(rest)
    if not place:
        return Request()
    address = parse_number(place)
    if address is not None:
        return Request(image, build_id, address, is_data=is_data)
    if place[:1].isdigit() or is_data:
        return Request(problem=f"'{line}': {place} is not an address")
    symbol, _, digits = place.rpartition("+")
    offset = parse_number(digits) if symbol else None
    return Request(image, build_id, None, place) if offset is None else Request(image, build_id, None, symbol, offset)


def _image(text: str) -> tuple[str, str, str]:
    """Return the image at the start of a text by its path or else its build id, and the text after it."""
    is_marked = text.startswith((_FILE, _BUILD_ID)) and _first_word(text)[0] not in (_FILE, _BUILD_ID)
    mark = text[: text.index(":") + 1] if is_marked else ""
    text = text.removeprefix(mark)
    quote = text[:1]
    if quote in ("'", '"') and quote in text[1:]:
        name, _, behind = text[1:].partition(quote)
        behind = behind.lstrip()
    else:
        name, behind = _first_word(text)
    return ("", name, behind) if mark == _BUILD_ID else (name, "", behind)


def _first_word(text: str) -> tuple[str, str]:
    """Return the first word of a text, and the rest, both without spaces around them."""
    words = text.split(maxsplit=1)
    return (words[0] if words else ""), (words[1] if len(words) > 1 else "")


def parse_number(text: str) -> int | None:
    """Return a number of 64 bits: 0x.. hexadecimal, 0.. octal, else decimal; None for any other text."""
    if not text.isalnum() or not text.isascii():  # Python reads more than these tools: 1_000
        return None
    lead = text[:2].lower()
    try:
        if lead in _BASES:
            value = int(text[2:], _BASES[lead])
        else:
            value = int(text, 8 if text[:1] == "0" else 10)
    except ValueError:
        return None
    return value if value <= _U64 else None
