"""Declarations for functions that have no DIE in the image: thunks, assembly, no debug information, or split DWARF.

The tables name functions by DIEs, so these get some: one compile unit at the end of .debug_info whose DIEs
are artificial declarations, with their names in place. It has no code and no types, so that
debuggers pass over it. A unit that an earlier run has written is recognized by its name and replaced.

The unit describes the vtables of the tables, too, as the proposal's last section demands: DW_TAG_GNU_vtable, with
DW_AT_location the address point, and DW_AT_type the class; for a class without a DIE, DW_AT_name has its name.

    .debug_abbrev   ... tables of the image ... | ours
    .debug_info     ... units of the image  ... | header, compile unit, a subprogram each, 0
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import NamedTuple

from icf.demangle import demangle
from icf.dwarf.columns import NAME, OFFSET
from icf.dwarf.constants import DW_TAG_GNU_vtable
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image

UNIT_NAME = "<functions without debug information>"
_PRODUCER = "icf-toolchain"
_HEADER_BYTES = 11  # unit_length, version, abbreviation offset, address size

_VTABLE = bytes([0x80 | DW_TAG_GNU_vtable & 0x7F, 0x80 | DW_TAG_GNU_vtable >> 7 & 0x7F, DW_TAG_GNU_vtable >> 14]).hex()

_ABBREVIATIONS = bytes.fromhex(
    "01 11 01"  # 1: DW_TAG_compile_unit, has children
    "25 08 13 0b 03 08 00 00"  # producer string, language data1, name string
    "02 2e 00"  # 2: DW_TAG_subprogram
    "6e 08 03 08 34 19 3c 19 3f 19 00 00"  # linkage_name, name; artificial, declaration, external: present
    "03 2e 00"  # 3: the same without a linkage name
    "03 08 34 19 3c 19 3f 19 00 00"
    f"04 {_VTABLE} 00"  # 4: DW_TAG_GNU_vtable
    "02 18 49 10 00 00"  # location exprloc, type ref_addr
    f"05 {_VTABLE} 00"  # 5: the same of a class that has no DIE
    "02 18 03 08 00 00"  # location exprloc, name string
    "00"
)
_DW_OP_addr = b"\x03"


class VtableDie(NamedTuple):
    """The contents of a DW_TAG_GNU_vtable."""

    vaddr: int  # address point
    type_die: int  # of the class, an offset in .debug_info; 0 for none
    name: str  # of the class


class SyntheticUnit(NamedTuple):
    """The bytes to append, the sizes of the sections before them, and the offset of each declaration."""

    info: bytes
    abbrev: bytes
    info_keep_bytes: int
    abbrev_keep_bytes: int
    dies: tuple[int, ...]  # offsets in .debug_info, in the order of the names
    vtable_dies: tuple[int, ...]  # of the vtables, in their order


def make_synthetic_unit(
    image: Image, debug: DebugInfo, names: Sequence[tuple[str, bool]], vtables: Sequence[VtableDie] = ()
) -> SyntheticUnit:
    """Lay out declarations of `names`, and `vtables`; without any there is no unit, and an earlier one is removed.

    Each name comes with a flag: it is the source's name, and not a linkage name.
    """
    info_keep, abbrev_keep = _image_ends(image, debug)
    if not names and not vtables:
        return SyntheticUnit(b"", b"", info_keep, abbrev_keep, (), ())
    body = bytearray(b"\x01" + _string(_PRODUCER) + b"\x21" + _string(UNIT_NAME))  # 0x21: DW_LANG_C_plus_plus_14
    dies = []
    for name, is_source_name in names:
        dies.append(info_keep + _HEADER_BYTES + len(body))
        body += b"\x03" + _string(name) if is_source_name else b"\x02" + _string(name) + _string(demangle(name))
    vtable_dies = []
    for vaddr, type_die, name in vtables:
        vtable_dies.append(info_keep + _HEADER_BYTES + len(body))
        location = pack("<BcQ", 9, _DW_OP_addr, vaddr)
        body += b"\x04" + location + pack("<I", type_die) if type_die else b"\x05" + location + _string(name)
    body += b"\x00"
    header = pack("<IHIB", _HEADER_BYTES - 4 + len(body), 4, abbrev_keep, 8)
    return SyntheticUnit(header + bytes(body), _ABBREVIATIONS, info_keep, abbrev_keep, tuple(dies), tuple(vtable_dies))


def _string(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape") + b"\0"


def _image_ends(image: Image, debug: DebugInfo) -> tuple[int, int]:
    """Return where the image's own .debug_info and .debug_abbrev end."""
    info, abbrev = len(debug.info), len(image.contents(".debug_abbrev"))
    if len(debug.own_units) and debug.string(int(debug.own_units[-1, NAME])) == UNIT_NAME.encode():
        info = int(debug.own_units[-1, OFFSET])
        abbrev = int.from_bytes(debug.info[info + 6 : info + 10], "little")
    return info, abbrev
