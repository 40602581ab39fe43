"""Which data the units of an image define, from the bytes of locations, without a walk over DIEs.

    DW_AT_location of a variable         09 03 <address>          exprloc of 9 bytes: DW_OP_addr
                                         NN a1 <index>            or DW_OP_addrx: the unit's row of .debug_addr
    of an argument at a call site        01 55 09 03 <address>    the same after the location of a register

An argument shows only that a unit uses the data, as any unit may; such places do not count. Other bytes that look like
a location by chance do no harm, as the caller asks about few addresses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from icf.code.addresses import find_words
from icf.columns import U64
from icf.contents import Contents
from icf.dwarf.columns import ADDR_BASE, END, OFFSET
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image

_DW_OP_ADDR, _DW_OP_ADDRX, _DW_OP_REG0, _DW_OP_REG31, _DW_OP_BREG7, _DW_OP_FBREG = 0x03, 0xA1, 0x50, 0x6F, 0x77, 0x91
_ADDRESS_BYTES = 8
_PIECE_BYTES = 1 << 20


def find_defined(image: Image, debug: DebugInfo, vaddrs: U64) -> U64:
    """Return those of the ascending addresses at which a unit defines a variable."""
    if not len(vaddrs):
        return vaddrs
    info, table = image.debug.streamed(".debug_info"), image.debug.streamed(".debug_addr")
    found = set()
    for place, value in _words(info, vaddrs):
        head = bytes(info[max(place - 4, 0) : place])
        if head.endswith(bytes((1 + _ADDRESS_BYTES, _DW_OP_ADDR))) and not _is_argument(head[:-2]):
            found.add(value)
    for place, value in _words(table, vaddrs):
        if value not in found and any(_names_row(debug, info, unit, place) for unit in _units_of_row(debug, place)):
            found.add(value)
    return np.array(sorted(found), np.uint64)


def _words(contents: Contents, vaddrs: U64) -> Iterator[tuple[int, int]]:
    """Yield the places that hold one of the addresses in eight bytes, and which."""
    for start, piece in contents.pieces(_PIECE_BYTES, _ADDRESS_BYTES - 1):
        places, values = find_words(piece, 0, vaddrs, 1)
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            if piece[place : place + _ADDRESS_BYTES] == value.to_bytes(_ADDRESS_BYTES, "little"):
                yield start + place, value


def _is_argument(head: bytes) -> bool:
    """Return whether the two or three bytes before a location make it an argument's: a register, or a stack slot."""
    is_register = head[-2:-1] == b"\1" and _DW_OP_REG0 <= head[-1] <= _DW_OP_REG31
    return is_register or head[-2:-1] in (bytes((_DW_OP_BREG7,)), bytes((_DW_OP_FBREG,)))


def _units_of_row(debug: DebugInfo, place: int) -> list[int]:
    """Return the units whose part of .debug_addr holds `place`: those with the nearest start before it."""
    bases = debug.units[:, ADDR_BASE]
    before = bases[bases <= place]
    return np.flatnonzero(bases == before.max()).tolist() if len(before) else []


def _names_row(debug: DebugInfo, info: Contents, unit: int, place: int) -> bool:
    """Return whether a variable of the unit is at its row of .debug_addr that stands at `place`."""
    start, end, base = (int(debug.units[unit, column]) for column in (OFFSET, END, ADDR_BASE))
    row, encoded = (place - base) // _ADDRESS_BYTES, bytearray()
    while row >= 0x80:
        encoded.append(row & 0x7F | 0x80)
        row >>= 7
    encoded.append(row)
    location = bytes((1 + len(encoded), _DW_OP_ADDRX)) + encoded
    contents = bytes(info[start:end])
    at = contents.find(location)
    while at >= 0:
        if not _is_argument(contents[max(at - 2, 0) : at]):
            return True
        at = contents.find(location, at + 1)
    return False
