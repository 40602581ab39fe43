"""Unit headers of `.debug_dcall` and `.debug_vcall`, and the two dialects they come in.

The proposal's header, and what GCC 4.5's `-fenable-icf-debug` (the only producer there ever was) wrote:

    proposal                                      GCC 4.5
    unit_length    4, or 0xffffffff + 8           the same
    version        1 byte, 4                      2 bytes, 4
    debug_info     4 or 8 (.debug_dcall only)     the same
    address_size   1 byte                         the same
    call_site      address_size bytes             4 or 8 bytes: the width of an offset
    ULEB128        callee DIE, or vtable slot     the same

No field names the dialect, so the reader infers it from the bytes, for each unit on its own, since a linker
concatenates units of different producers. Let `w` be the width of an offset, and count from the version byte:

    bytes                  0     1         1+w     2+w
    proposal, .debug_dcall 4     debug_info ...    address_size
                                           ^ 1+w holds address_size, 4 or 8
    GCC, .debug_dcall      4     0         ...     ^ 2+w holds it

Both readings fit when byte 1 is 0 and the bytes 1+w and 2+w are both 4 or 8. GCC's producer wrote the
caller before the first call, so its entries begin with a zero label; read as the proposal's, such a
unit would begin with a call site of 8 or less. One zero label therefore settles it. In `.debug_vcall`
there is no debug_info: byte 1 is either the address size, or the zero of a two-byte version.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from icf.reader import Reader

VERSION = 4
_WIDTHS = (4, 8)
_DWARF64 = 0xFFFFFFFF
_RESERVED = 0xFFFFFFF0


class Dialect(Enum):
    """The producer whose layout a unit has; see the module."""

    PROPOSAL = "proposal"
    GCC = "gcc"


class CallUnit(NamedTuple):
    """One contribution: its header, and the half-open range of the section that its entries fill."""

    offset: int  # of unit_length, in the section
    dialect: Dialect
    offset_size: int  # 8 in 64-bit DWARF
    address_size: int
    debug_info: int  # offset of the unit that DIE offsets are relative to; 0 in .debug_vcall
    start: int
    end: int

    @property
    def site_size(self) -> int:
        """Return the width of a call site in bytes."""
        return self.offset_size if self.dialect is Dialect.GCC else self.address_size


def parse_units(buffer: memoryview, path: str, section: str, *, has_debug_info: bool) -> list[CallUnit]:
    """Return the headers of all contributions, in file order."""
    reader = Reader(buffer, path, section)
    units = []
    while reader.remaining:
        unit = _parse_unit(reader, has_debug_info)
        units.append(unit)
        reader.pos = unit.end
    return units


def unit_header(
    dialect: Dialect, offset_size: int, address_size: int, debug_info: int | None, entries_size_bytes: int
) -> bytes:
    """Return the header of a contribution with that many bytes of entries; `debug_info` is None in `.debug_vcall`."""
    body = VERSION.to_bytes(2 if dialect is Dialect.GCC else 1, "little")
    if debug_info is not None:
        if debug_info >> (8 * offset_size):
            raise ValueError(f"unit at {debug_info:#x} of .debug_info needs 64-bit DWARF")
        body += debug_info.to_bytes(offset_size, "little")
    body += bytes([address_size])
    unit_length = len(body) + entries_size_bytes
    if offset_size == 8:
        return _DWARF64.to_bytes(4, "little") + unit_length.to_bytes(8, "little") + body
    if unit_length >= _RESERVED:
        raise ValueError(f"unit of {unit_length} bytes needs 64-bit DWARF")
    return unit_length.to_bytes(4, "little") + body


def _parse_unit(reader: Reader, has_debug_info: bool) -> CallUnit:
    offset = reader.pos
    unit_length, offset_size = reader.u32(), 4
    if unit_length == _DWARF64:
        unit_length, offset_size = reader.u64(), 8
    elif unit_length >= _RESERVED:
        raise reader.error(f"unit length {unit_length:#x} is reserved", offset)
    if unit_length > reader.remaining:
        raise reader.error(f"unit length is {unit_length}, {reader.remaining} bytes are left", offset)
    body = reader.pos
    end = body + unit_length
    version = reader.u8() if unit_length else 0
    if version != VERSION:
        raise reader.error(f"unit has version {version}, only {VERSION} is known", body)
    reader.pos = body
    head = reader.take(min(unit_length, 3 + 2 * offset_size))  # enough to recognize the dialect
    dialect = _dialect(bytes(head), offset_size if has_debug_info else 0, offset_size)
    if dialect is None:
        raise reader.error("unit has no address size of 4 or 8 where either dialect keeps it", body)
    reader.pos = body + (2 if dialect is Dialect.GCC else 1)
    debug_info = reader.uint(offset_size) if has_debug_info else 0
    address_size = reader.u8()
    return CallUnit(offset, dialect, offset_size, address_size, debug_info, reader.pos, end)


def _dialect(head: bytes, debug_info_size: int, site_size: int) -> Dialect | None:
    """Return the dialect of a unit that begins with `head`: up to and including GCC's first label."""
    as_proposal = 1 + debug_info_size
    as_gcc = 2 + debug_info_size
    proposal = head[as_proposal : as_proposal + 1] in (b"\x04", b"\x08")
    gcc = head[as_gcc : as_gcc + 1] in (b"\x04", b"\x08") and head[1] == 0
    if proposal and gcc:
        label = head[as_gcc + 1 : as_gcc + 1 + site_size]
        return Dialect.PROPOSAL if label.strip(b"\0") else Dialect.GCC
    if proposal:
        return Dialect.PROPOSAL
    return Dialect.GCC if gcc else None
