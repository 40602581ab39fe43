"""What pyelftools finds in an image, shaped like the results of the scan: the second opinion of its tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

FUNCTIONS = ("DW_TAG_subprogram", "DW_TAG_entry_point")
TYPES = tuple(f"DW_TAG_{kind}_type" for kind in ("class", "structure", "union", "enumeration", "array", "subroutine"))
SITES = ("DW_TAG_call_site", "DW_TAG_GNU_call_site")
ADDRESS_FORMS = ("DW_FORM_addr", "DW_FORM_addrx", *(f"DW_FORM_addrx{n}" for n in range(1, 5)), "DW_FORM_GNU_addr_index")
UNIT_REFERENCES = ("DW_FORM_ref1", "DW_FORM_ref2", "DW_FORM_ref4", "DW_FORM_ref8", "DW_FORM_ref_udata")


@dataclass(frozen=True)
class Named:
    """The end of a chain of origins; strings empty and numbers 0 where nothing is said."""

    name: bytes
    linkage_name: bytes
    external: bool
    root: int
    decl_line: int
    decl_file: int


@dataclass
class Truth:
    """Everything of one image."""

    units: list[dict[str, Any]] = field(default_factory=list)
    functions: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    sites: list[tuple[int, int, int, int]] = field(default_factory=list)
    named: dict[int, Named] = field(default_factory=dict)


def read_truth(path: Path) -> Truth:
    """functions: (DIE, part, low, high, origin, unit); sites: (pc, origin, caller, flags)."""
    truth = Truth()
    with path.open("rb") as file:
        info = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
        for number, cu in enumerate(info.iter_CUs()):
            top = cu.get_top_DIE()
            truth.units.append(_unit(cu, top))
            if cu.header.get("unit_type", "DW_UT_compile") not in ("DW_UT_type", "DW_UT_split_type"):
                _walk(truth, cu, top, number, 0)
        dies = {row[0] for row in truth.functions} | {row[1] for row in truth.sites}
        truth.named = {die: _named(info, die) for die in dies}
    return truth


def value(die: Any, name: str, default: Any = 0) -> Any:
    found = die.attributes.get(f"DW_AT_{name}")
    return default if found is None else found.value


def address(die: Any, name: str) -> int | None:
    found = die.attributes.get(f"DW_AT_{name}")
    return int(found.value) if found is not None and found.form in ADDRESS_FORMS else None


def origin_of(die: Any, *names: str) -> int:
    """The offset in .debug_info that a reference gives, 0 for none."""
    for name in names:
        found = die.attributes.get(f"DW_AT_{name}")
        if found is None:
            continue
        if found.form in UNIT_REFERENCES:
            return int(found.raw_value) + int(die.cu.cu_offset)
        if found.form == "DW_FORM_ref_addr":
            return int(found.raw_value)
    return 0


def _unit(cu: Any, top: Any) -> dict[str, Any]:
    return {
        "offset": cu.cu_offset,
        "end": cu.cu_offset + cu.size,
        "die": top.offset,
        "version": cu["version"],
        "address_size": cu["address_size"],
        "offset_size": cu.dwarf_format() // 8,
        "stmt_list": value(top, "stmt_list", None),
        "name": value(top, "name", b""),
        "comp_dir": value(top, "comp_dir", b""),
        "low_pc": address(top, "low_pc") or 0,
        "language": value(top, "language"),
        "dwo_name": value(top, "dwo_name", b"") or value(top, "GNU_dwo_name", b""),
    }


def _walk(truth: Truth, cu: Any, die: Any, unit: int, caller: int) -> None:
    inside = caller
    if die.tag in FUNCTIONS:
        rows = list(_ranges(cu, die))
        origin = origin_of(die, "abstract_origin", "specification")
        truth.functions += [(die.offset, part, low, high, origin, unit) for part, (low, high) in enumerate(rows)]
        inside = die.offset if "DW_AT_low_pc" in die.attributes or "DW_AT_ranges" in die.attributes else 0
    elif die.tag in TYPES:
        inside = 0
    elif die.tag in SITES:
        origin = origin_of(die, "call_origin", "abstract_origin")
        tail = 1 if value(die, "call_tail_call", False) or value(die, "GNU_tail_call", False) else 0
        pc = next((pc for name in ("call_return_pc", "low_pc") if (pc := address(die, name)) is not None), None)
        call_pc = address(die, "call_pc")
        if origin and (pc is not None or call_pc is not None):
            flags = tail | (2 if pc is None else 0) | (0 if caller else 4)
            truth.sites.append(((call_pc or 0) if pc is None else pc, origin, caller, flags))
    for child in die.iter_children():
        _walk(truth, cu, child, unit, inside)


def _ranges(cu: Any, die: Any) -> Iterator[tuple[int, int]]:
    if "DW_AT_ranges" in die.attributes:
        base = address(cu.get_top_DIE(), "low_pc") or 0
        lists = die.dwarfinfo.range_lists()
        for entry in lists.get_range_list_at_offset(value(die, "ranges"), cu):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
                continue
            shift = 0 if entry.is_absolute else base
            if entry.begin_offset < entry.end_offset:
                yield entry.begin_offset + shift, entry.end_offset + shift
        return
    low = address(die, "low_pc")
    if low is not None:
        high = address(die, "high_pc")
        yield low, low + value(die, "high_pc") if high is None else high


def _named(info: Any, offset: int) -> Named:
    name = linkage = b""
    external = False
    line = file = 0
    while True:
        die = info.get_DIE_from_refaddr(offset)
        name = name or value(die, "name", b"")
        linkage = linkage or value(die, "linkage_name", b"") or value(die, "MIPS_linkage_name", b"")
        external = external or bool(value(die, "external", False))
        line, file = line or value(die, "decl_line"), file or value(die, "decl_file")
        origin = origin_of(die, "abstract_origin", "specification")
        if not origin:
            return Named(name, linkage, external, offset, line, file)
        offset = origin
