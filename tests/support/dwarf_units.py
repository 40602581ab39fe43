"""Debug information as bytes: abbreviation tables and units from their fields, and an image that holds them.

    sections = {
        ".debug_abbrev": table((1, CU, True, [(NAME, 0x08)]), (2, SUBPROGRAM, False, [(LOW_PC, 0x01)])),
        ".debug_info": unit(b"\\x01a.c\\0" b"\\x02" + u64(0x1000) + b"\\0"),
    }
    functions = read(sections).functions

`read` reads with both builds of the kernels, which must agree in everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from icf.dwarf import _abbrev, _ranges, _scan, _tombstones, _unit_headers
from icf.dwarf.dies import Dies, read_dies, resolve
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from tests.support.builds import uncompiled
from tests.support.elf import Elf, Part
from tests.support.line_tables import sleb, uleb

CU, TU, SKELETON, PARTIAL, SUBPROGRAM, ENTRY_POINT, CALL_SITE = 0x11, 0x41, 0x4A, 0x3C, 0x2E, 0x03, 0x48
NAMESPACE, BLOCK, INLINED, STRUCTURE, VARIABLE = 0x39, 0x0B, 0x1D, 0x13, 0x34
SIBLING, NAME, STMT_LIST, LOW_PC, HIGH_PC, LANGUAGE = 0x01, 0x03, 0x10, 0x11, 0x12, 0x13
ORIGIN, DECL_COLUMN, DECL_FILE, DECL_LINE, DECLARATION, EXTERNAL = 0x31, 0x39, 0x3A, 0x3B, 0x3C, 0x3F
SPECIFICATION, RANGES, LINKAGE_NAME, STR_BASE, ADDR_BASE, RNGLISTS_BASE = 0x47, 0x55, 0x6E, 0x72, 0x73, 0x74
RETURN_PC, CALL_ORIGIN, CALL_PC, TAIL_CALL = 0x7D, 0x7F, 0x81, 0x82
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 2**24 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**56 + 3, 2**60, 2**61, 2**63 - 1,
         2**63, 2**64 - 8, 2**64 - 1)  # fmt: skip


def uint(value: int, size_bytes: int) -> bytes:
    """Little-endian."""
    return (value % (1 << 8 * size_bytes)).to_bytes(size_bytes, "little")


def u32(value: int) -> bytes:
    return uint(value, 4)


def u64(value: int) -> bytes:
    return uint(value, 8)


def table(*declarations: tuple[int, int, bool, Sequence[tuple[int, ...]]]) -> bytes:
    """An abbreviation table from (code, tag, has children, attributes); an attribute is (number, form[, constant])."""
    out = b""
    for code, tag, children, attributes in declarations:
        out += uleb(code) + uleb(tag) + bytes([children])
        for number, form, *constant in attributes:
            out += uleb(number) + uleb(form) + b"".join(sleb(value) for value in constant)
        out += b"\0\0"
    return out + b"\0"


def unit(
    dies: bytes,
    version: int = 5,
    *,
    abbrev: int = 0,
    dwarf64: bool = False,
    address_size: int = 8,
    unit_type: int = 1,
    extra: bytes = b"",
) -> bytes:
    """One unit; `extra` are the header's last fields, which some types have."""
    offset = uint(abbrev, 8 if dwarf64 else 4)
    if version >= 5:
        rest = uint(version, 2) + bytes([unit_type, address_size]) + offset + extra + dies
    else:
        rest = uint(version, 2) + offset + bytes([address_size]) + dies
    return (b"\xff\xff\xff\xff" + u64(len(rest)) if dwarf64 else u32(len(rest))) + rest


def image_of(sections: Mapping[str, bytes]) -> Image:
    """An image with these sections, in memory."""
    return Image("a.out", memoryview(Elf([Part(name, content=content) for name, content in sections.items()]).build()))


def one_die(debug: DebugInfo, offset: int) -> Dies:
    """The columns of one DIE."""
    return read_dies(debug, np.array([offset], np.uint64))


_PURE = {kernel: uncompiled(kernel) for kernel in (_abbrev, _ranges, _scan, _tombstones, _unit_headers)}


@contextmanager
def uncompiled_kernels() -> Iterator[None]:
    """What is read in here is read by the kernels as plain Python."""
    replaced = {
        "icf.dwarf.units.compile_tables": _PURE[_abbrev].compile_tables,
        "icf.dwarf.units.unit_headers": _PURE[_unit_headers].unit_headers,
        "icf.dwarf.units.scan": _PURE[_scan].scan,
        "icf.dwarf.restored.find_tombstones": _PURE[_tombstones].find_tombstones,
        "icf.dwarf.restored.put_words": _PURE[_tombstones].put_words,
        "icf.dwarf.range_lists._ranges": _PURE[_ranges],
    }
    patches = [patch(name, function) for name, function in replaced.items()]
    try:
        for one in patches:
            one.start()
        yield
    finally:
        patch.stopall()


@dataclass
class Reading:
    """Everything that is read of an image, as plain numbers."""

    debug: DebugInfo
    units: list[list[int]]
    functions: list[tuple[int, ...]]  # DIE, part, low, high, origin, unit
    sites: list[tuple[int, ...]]  # pc, origin, caller, flags
    dies: list[tuple[int, ...]]  # a row of columns as in Dies for each asked offset
    identities: list[tuple[int, ...]]
    errors: list[str]

    def names(self) -> list[bytes]:
        """The names of the functions and of what is called, in the order of their DIEs."""
        return [self.debug.string(row[0]) for row in self.identities]

    def plain(self) -> list[object]:
        return [self.units, self.functions, self.sites, self.dies, self.identities, self.errors]


def read_once(image: Image, more: Sequence[int] = ()) -> Reading:
    """All functions, call sites, the DIEs of both and those at `more`, their names, the units and their errors."""
    debug = open_debug(image)
    scan = scan_functions(debug, 1)
    f, s = scan.functions, scan.sites
    asked = np.unique(np.concatenate([f.die, s.origin, np.array(more, np.uint64)]))
    dies, identity = read_dies(debug, asked), resolve(debug, asked)
    return Reading(
        debug=debug,
        units=debug.units.tolist(),
        functions=list(zip(*(c.tolist() for c in (f.die, f.part, f.low, f.high, f.origin, f.unit)), strict=True)),
        sites=list(zip(*(c.tolist() for c in (s.pc, s.origin, s.caller, s.flags)), strict=True)),
        dies=list(zip(*(column.tolist() for column in dies), strict=True)),
        identities=list(zip(*(column.tolist() for column in identity), strict=True)),
        errors=[str(error) for error in debug.errors()],
    )


def read(sections: Mapping[str, bytes], more: Sequence[int] = ()) -> Reading:
    """As `read_once`, by both builds of the kernels."""
    image = image_of(sections)
    reading = read_once(image, more)
    with uncompiled_kernels():
        assert read_once(image, more).plain() == reading.plain()
    return reading
