"""What a line on stdin of `icf symbolize` asks for, read as addr2line and llvm-symbolizer read it.

gnu     1139                          hexadecimal, with or without 0x; what is no number is 0
llvm    0x1139  4409  main  main+4    an address or a function of the image that -e names
        CODE 0x1139                   the same; DATA and FRAME ask for what a symcache does not have
        /usr/bin/shop 0x1139          of that image, if -e names none; a path with spaces in quotes, FILE: before it
        BUILDID:4f1a.. 0x1139         of an image by its build id
"""

from __future__ import annotations

import re
from typing import NamedTuple

_U64 = (1 << 64) - 1
# not compiled until they are needed: most lines are a number
_HEX = r"\s*(?:0[xX])?([0-9a-fA-F]+)"
_KIND = r"(CODE|DATA|FRAME|SYMBOL)(?:\s+|$)"
_IMAGE = r"""(FILE:|BUILDID:)?(?:"([^"]*)"|'([^']*)'|(\S+))\s*"""
_SYMBOL = r"(.+?)(?:\+(0[xX][0-9a-fA-F]+|[0-9]+))?"
_BASES = {"0x": 16, "0b": 2, "0o": 8}


class Request(NamedTuple):
    """An address, or a function by its name, of an image; or what is wrong."""

    image: str = ""  # its path; "" that of -e
    build_id: str = ""
    address: int | None = None
    symbol: str = ""
    offset: int = 0  # from where the function begins
    problem: str = ""


def read_hexadecimal(line: str) -> Request:
    """As addr2line reads it."""
    found = re.match(_HEX, line)
    return Request(address=min(int(found[1], 16), _U64) if found else 0)


def read_request(line: str, image_is_known: bool) -> Request:
    """As llvm-symbolizer reads it."""
    if image_is_known and (address := parse_number(line)) is not None:
        return Request(address=address)
    rest = line.strip()
    kind = re.match(_KIND, rest)
    if kind and rest[kind.end() :]:
        if kind[1] in ("DATA", "FRAME"):
            return Request(problem=f"'{line}': {kind[1]} is not known here, CODE is")
        rest = rest[kind.end() :]
    image = build_id = ""
    if not image_is_known:
        named = re.match(_IMAGE, rest)
        if named is None or named.end() == len(rest):
            return Request(problem=f"'{line}': no address behind the image" if rest else "")
        rest = rest[named.end() :]
        path = next(text for text in named.groups()[1:] if text is not None)
        image, build_id = ("", path) if named[1] == "BUILDID:" else (path, "")
    elif rest.startswith(("FILE:", "BUILDID:")):
        return Request(problem=f"'{line}': the image is that of -e")
    place = rest.split(maxsplit=1)[0] if rest else ""
    address = parse_number(place)
    if address is not None:
        return Request(image, build_id, address)
    if place[:1].isdigit():
        return Request(problem=f"'{line}': {place} is no address")
    symbol = re.fullmatch(_SYMBOL, place)
    if symbol is None:
        return Request()
    return Request(image, build_id, None, symbol[1], int(symbol[2] or "0", 0))


def parse_number(text: str) -> int | None:
    """A number of 64 bits: 0x.. hexadecimal, 0.. octal, else decimal; None for what is none."""
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
