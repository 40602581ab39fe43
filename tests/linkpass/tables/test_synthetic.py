"""Declarations for functions without debug information: they are there, and no tool has anything to say of them."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import pytest

from icf.dwarf.columns import DECLARATION, NAME
from icf.dwarf.dies import resolve
from icf.dwarf.opening import open_debug
from icf.elf.image import Image
from icf.model import MemberFlag
from icf.tables.load import load_tables
from linkpass.pipeline import Options, run_pass
from linkpass.tables.synthetic import UNIT_NAME, make_synthetic_unit
from tests.e2e.workshop import GOLD, LLD, Toolchain
from tests.linkpass.programs import BASE, FOUR, FRUIT, OTHER, SOURCES, build
from tests.support.dwarf_units import one_die
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool

SHOP = ROOT / "testdata" / "shop"


def complaints(path: Path) -> dict[str, str]:
    """What each tool says of an image, without its name."""
    commands = {
        "llvm-dwarfdump": ("llvm-dwarfdump", "--verify"),
        "readelf": ("readelf", "-aW", "--debug-dump=info,abbrev,line,ranges,str,aranges"),
        "eu-elflint": ("eu-elflint", "--gnu-ld"),
        "eu-readelf": ("eu-readelf", "--debug-dump=info"),
        "gdb": (
            "gdb",
            "-nx",
            "-batch",
            "-ex",
            "info functions sell_",
            "-ex",
            "info line main",
            "-ex",
            "ptype List<Apple>",
        ),
    }
    found = {}
    for name, (command, *options) in commands.items():
        done = run(tool(command), *options, path, check=False)
        text = done.stderr if "readelf" in name else done.stdout + done.stderr
        if name == "llvm-dwarfdump":
            text = "\n".join(line for line in text.splitlines() if line.startswith(("error", "warning")))
        found[name] = text.replace(str(path), "IMAGE")
    return found


@pytest.mark.parametrize(
    ("toolchain", "flags"),
    [*product(FOUR, [("-g0",)]), *product([GOLD, LLD], [(), ("-gdwarf-4",)])],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_other_tools_say_nothing_new(toolchain: Toolchain, flags: tuple[str, ...], tmp_path: Path) -> None:
    link = build(tmp_path, toolchain, flags=flags)
    out = tmp_path / "out"
    summary = run_pass(str(link.image), Options(out=str(out)))
    before, after = complaints(link.image), complaints(out)
    if flags == ("-g0",):
        assert summary.declarations_added > 10
        assert not after["llvm-dwarfdump"] and not after["readelf"] and not after["eu-readelf"]
    else:
        assert after == before


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_every_member_has_a_die_of_its_name(toolchain: Toolchain, tmp_path: Path) -> None:
    link = build(tmp_path, toolchain, flags=("-g0",))
    run_pass(str(link.image), Options(icf_report=str(link.report)))
    with Image.open(link.image) as image:
        table = load_tables(image).icf
        debug = open_debug(image)
        members = [member for fold in table.classes for member in fold.members]
        assert all(member.flags & MemberFlag.SYNTHETIC for member in members)
        assert len({member.die for member in members}) == len(members)
        for member in members:
            die = one_die(debug, member.die)
            assert int(die.flags[0]) & DECLARATION
            assert debug.string(int(die.linkage_name[0])) == member.name.encode()
            assert debug.string(int(debug.units[int(die.unit[0]), NAME])) == UNIT_NAME.encode()
        assert not debug.errors()


@pytest.mark.parametrize("toolchain", [GOLD, LLD], ids=str)
def test_objects_without_debug_info_beside_others(toolchain: Toolchain, tmp_path: Path) -> None:
    # the functions of other.cpp are declared, those of fruit.cpp have their own DIEs
    sources = {"fruit.cpp": FRUIT, "other.cpp": OTHER, "base.cpp": BASE}
    sources["bare.cpp"] = "".join(
        f'__asm__(".section .text.{name},\\"ax\\",@progbits; .globl {name}; .type {name},@function; {name}: ret;"\n'
        f'        ".size {name},1");\n'
        for name in ("bare", "nude")
    )
    sources["fruit.cpp"] = sources["fruit.cpp"].replace(
        "int from_other(int);", 'int from_other(int); extern "C" void bare(), nude();'
    )
    sources["fruit.cpp"] = sources["fruit.cpp"].replace(
        "    helper();\n    return sum", "    helper(); bare(); nude();\n    return sum"
    )
    link = build(tmp_path, toolchain, sources)
    run_pass(str(link.image), Options())
    with Image.open(link.image) as image:
        tables = load_tables(image)
        flags = {member.name: member.flags for fold in tables.icf.classes for member in fold.members}
    assert flags["bare"] & flags["nude"] & MemberFlag.SYNTHETIC
    assert not flags["_Z11wash_applesv"] & MemberFlag.SYNTHETIC
    assert {"bare", "nude"} <= {tables.die_name(die) for die in tables.direct.callee_die.tolist()} or toolchain is GOLD


def test_an_earlier_unit_is_found_and_replaced(tmp_path: Path) -> None:
    link = build(tmp_path, LLD, SOURCES, flags=("-g0",))
    with Image.open(link.image) as image:
        fresh = make_synthetic_unit(image, open_debug(image), [("a", False), ("b", False)])
    run_pass(str(link.image), Options())
    with Image.open(link.image) as image:
        again = make_synthetic_unit(image, open_debug(image), [("a", False), ("b", False)])
        assert again == fresh
        assert make_synthetic_unit(image, open_debug(image), []).info_keep_bytes == fresh.info_keep_bytes
    assert fresh.dies == (fresh.info_keep_bytes + fresh.info.index(b"\x02a\0a\0"), fresh.dies[1])


def test_names_of_any_bytes_are_kept(tmp_path: Path) -> None:
    path = Path(shutil.copy(SHOP / "shop.gold", tmp_path))
    names = ["plain", "_Z3foov", "\udcff\udc80", "é", "", "x" * 70_000]
    with Image.open(path) as image:
        unit = make_synthetic_unit(image, open_debug(image), [(name, False) for name in names])
        assert unit.info_keep_bytes == len(image.contents(".debug_info"))
    assert len(unit.dies) == len(names) and list(unit.dies) == sorted(set(unit.dies))
    assert b"_Z3foov\0foo()\0" in unit.info and b"\xff\x80\0" in unit.info
    assert int.from_bytes(unit.info[:4], "little") == len(unit.info) - 4


def test_foreign_names_of_the_last_unit_are_not_ours(tmp_path: Path) -> None:
    path = Path(shutil.copy(SHOP / "shop.gold", tmp_path))
    with Image.open(path) as image:
        debug = open_debug(image)
        assert resolve(debug, debug.units[:0, 0]).root.tolist() == []
        assert make_synthetic_unit(image, debug, [("f", False)]).abbrev_keep_bytes == len(
            image.contents(".debug_abbrev")
        )
