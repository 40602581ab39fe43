"""The inlined calls that the scan finds are those that pyelftools finds, with both builds of the kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile

from icf.dwarf import inlines
from icf.dwarf.inlines import InlineScan, scan_inlines
from icf.dwarf.opening import open_debug
from icf.elf.image import Image
from tests.support.dwarf_programs import build
from tests.support.dwarf_units import uncompiled_kernels
from tests.support.paths import ROOT

CODE = [
    *[("gcc", ("-O2", f"-gdwarf-{version}")) for version in (2, 3, 4, 5)],
    *[("clang", ("-O2", f"-gdwarf-{version}")) for version in (2, 3, 4, 5)],
    ("gcc", ("-O2", "-gdwarf-5", "-gdwarf64")),
    ("clang", ("-O2", "-gdwarf-5", "-gline-tables-only")),
    ("clang", ("-O2", "-gdwarf-5", "-fbasic-block-sections=all")),
]
Node = tuple[object, ...]


def _ranges(dwarf: DWARFInfo, die: DIE) -> list[tuple[int, int]]:
    """The ranges of a DIE, those without code left out."""
    if "DW_AT_ranges" in die.attributes:
        lists: Any = dwarf.range_lists()
        base = die.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
        base_pc = base.value if base else 0
        found = []
        offset = die.attributes["DW_AT_ranges"].value
        for entry in lists.get_range_list_at_offset(offset, cu=die.cu):
            if hasattr(entry, "base_address"):
                base_pc = entry.base_address
                continue
            shift = 0 if getattr(entry, "is_absolute", False) else base_pc
            found.append((entry.begin_offset + shift, entry.end_offset + shift))
        return [(low, high) for low, high in found if low < high]
    if "DW_AT_low_pc" not in die.attributes or "DW_AT_high_pc" not in die.attributes:
        return []
    low, high = die.attributes["DW_AT_low_pc"].value, die.attributes["DW_AT_high_pc"]
    end = high.value if high.form == "DW_FORM_addr" else low + high.value
    return [(low, end)] if low < end else []


def truth(path: Path) -> list[Node]:
    """Function, DIE of the inlined call around, origin, ranges and place of each inlined call, by pyelftools."""
    found: list[Node] = []

    def walk(die: DIE, function: int, around: Node | None) -> None:
        if die.tag == "DW_TAG_subprogram":
            has_code = "DW_AT_low_pc" in die.attributes or "DW_AT_ranges" in die.attributes
            function, around = (die.offset if has_code else -1), None
        elif die.tag == "DW_TAG_inlined_subroutine" and function >= 0:
            values = [die.attributes[f"DW_AT_call_{part}"].value if f"DW_AT_call_{part}" in die.attributes else 0
                      for part in ("file", "line", "column")]  # fmt: skip
            origin = die.get_DIE_from_attribute("DW_AT_abstract_origin").offset
            around = (function, around and around[1:3], origin, tuple(_ranges(dwarf, die)), *values)
            found.append(around)
        for child in die.iter_children():
            walk(child, function, around)

    with path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        for unit in dwarf.iter_CUs():
            walk(unit.get_top_DIE(), -1, None)
    return found


def plain(scan: InlineScan) -> list[Node]:
    """The same of a scan."""
    nodes, ranges = scan.nodes, scan.node_ranges
    of: dict[int, list[tuple[int, int]]] = {}
    for owner, low, high in zip(ranges.owner.tolist(), ranges.low.tolist(), ranges.high.tolist(), strict=True):
        of.setdefault(owner, []).append((low, high))
    found: list[Node] = []
    for row in range(len(nodes.origin)):
        up = int(nodes.up[row])
        around = found[row - up] if up else None
        place = (int(column[row]) for column in (nodes.call_file, nodes.call_line, nodes.call_column))
        function, origin = int(scan.functions.die[nodes.function[row]]), int(nodes.origin[row])
        found.append((function, around and around[1:3], origin, tuple(of.get(row, ())), *place))
    return found


@pytest.mark.parametrize(("compiler", "flags"), CODE, ids=str)
def test_programs(compiler: str, flags: tuple[str, ...]) -> None:
    path = build(compiler, flags)
    expected = truth(path)
    assert expected
    with Image.open(path) as image:
        debug = open_debug(image, inlines=True)
        for threads in (1, 2):
            scan = scan_inlines(debug, threads)
            assert sorted(plain(scan), key=repr) == sorted(expected, key=repr)
            functions = scan.functions
            assert functions.first_node[0] == 0 and functions.last_node[-1] == len(expected)
            counts = np.bincount(scan.nodes.function, minlength=len(functions.die))
            assert (functions.last_node - functions.first_node).tolist() == counts.tolist()
        if flags in (("-O2", "-gdwarf-5"), ("-O2", "-gdwarf-2")):
            with uncompiled_kernels():
                assert plain(scan_inlines(open_debug(image, inlines=True), 1)) == plain(scan)


def test_functions_within_functions_and_small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    path = build("gcc", ("-O2", "-gdwarf-5"))
    with Image.open(path) as image:
        debug = open_debug(image, inlines=True)
        whole = plain(scan_inlines(debug, 1))

        monkeypatch.setattr(inlines, "_INLINED", inlines._INLINED._replace(functions=(2, 7), rows=(1, 6)))
        assert plain(scan_inlines(debug, 1)) == whole


def test_no_debug_information(tmp_path: Path) -> None:
    with Image.open(ROOT / "testdata/shop/shop.gold") as image:
        debug = open_debug(image, inlines=True)
        debug.units = debug.units[:0]
        scan = scan_inlines(debug)
        assert len(scan.functions.die) == len(scan.nodes.origin) == len(scan.node_ranges.low) == 0
