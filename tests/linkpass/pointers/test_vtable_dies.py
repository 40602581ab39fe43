"""DW_TAG_GNU_vtable, read back by pyelftools."""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from icf.dwarf.constants import DW_TAG_GNU_vtable
from icf.elf.image import Image
from icf.tables.load import load_tables
from linkpass.pipeline import Options, run_pass
from tests.e2e.workshop import GOLD, LLD, Toolchain
from tests.linkpass.programs import build


@pytest.mark.parametrize("flags", [(), ("-g0",)], ids=" ".join)
@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str)
def test_location_and_class(toolchain: Toolchain, flags: tuple[str, ...], tmp_path: Path) -> None:
    link = build(tmp_path, toolchain, flags=flags)
    run_pass(str(link.image), Options())
    with Image.open(link.image) as image:
        vtables = load_tables(image).icf.vtables
        symbols = {int(image.symbols.value[row]): image.symbols.name(row) for row in range(image.symbols.count)}
    assert {symbols[vtable.group] for vtable in vtables} >= {"_ZTV9AppleCart", "_ZTV8PearCart"}
    with link.image.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
        for vtable in vtables:
            die = dwarf.get_DIE_from_refaddr(vtable.die)
            assert die.tag in (DW_TAG_GNU_vtable, f"DW_TAG_user_{DW_TAG_GNU_vtable:x}")
            assert bytes(die.attributes["DW_AT_location"].value) == b"\3" + vtable.vaddr.to_bytes(8, "little")
            named = die if "-g0" in flags else die.get_DIE_from_attribute("DW_AT_type")
            name = named.attributes["DW_AT_name"].value.decode()
            assert symbols[vtable.group] == f"_ZTV{len(name)}{name}"
            assert "-g0" in flags or named.tag in ("DW_TAG_structure_type", "DW_TAG_class_type")
