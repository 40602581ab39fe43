"""`icf dump`: golden output, and names of foreign tables from real debug information.

A golden test is two files: `dump-folds.cmd` holds the arguments and `dump-folds.out` what they print:
stdout, stderr, and the exit status.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from icf.cli import main
from icf.model import (
    ALL_MEMBERS,
    ClassFlag,
    DieOffset,
    FoldClass,
    Member,
    MemberFlag,
    MemberRef,
    TailCall,
    Vaddr,
    Vtable,
    VtableSlot,
)
from icf.tables.dcall import Dialect, DirectCalls, encode_dcall
from icf.tables.icftable import IcfTable
from icf.tables.icfwriter import encode_icf
from icf.tables.vcall import VirtualCalls, encode_vcall
from tests.support.elf import Elf, Part
from tests.support.toolchain import compile_object, link, run, tool

GOLDEN = Path(__file__).parent / "golden"
DEBUG_STR = b"\0_Z5twiceIiET_PS0_\0_Z5twiceIjET_PS0_\0"
UNITS = np.array([0], np.uint64), np.array([0x1000], np.uint64)
DIRECT = DirectCalls.of(
    [
        (0x401196, 0x12F, 0x2F0),  # main calls twice<int>
        (0x4011A5, 0x163, 0x2F0),  # main calls twice<unsigned>
        (0x40116B, 0x12F, 0x1A0),  # left calls twice<int>, and right, which shares its body, the other one
        (0x40116B, 0x163, 0x1C8),
        (0x4011C0, 0x300, 0),  # a callee that no table names, and no caller
    ]
)
VIRTUAL = VirtualCalls.of([(0x4011B0, 2), (0x4011B9, 12)])


def fold_table(record_count: int) -> IcfTable:
    fold = ClassFlag.MEMBERS_COMPLETE | ClassFlag.CALLS_COMPLETE | ClassFlag.ADDRESS_TAKEN_KNOWN
    return IcfTable(
        (
            FoldClass(
                Vaddr(0x401150),
                8,
                (
                    Member("_Z5twiceIiET_PS0_", DieOffset(0x12F), MemberFlag.KEPT),
                    Member("_Z5twiceIjET_PS0_", DieOffset(0x163), MemberFlag.ADDRESS_TAKEN | MemberFlag.SYNTHETIC),
                ),
                fold,
            ),
            FoldClass(
                Vaddr(0x401160),
                1,
                (
                    Member("_Z4leftv", DieOffset(0x1A0), MemberFlag.KEPT),
                    Member("_ZL5rightv", DieOffset(0x1C8), MemberFlag.LOCAL),
                    Member("_ZN5ShapeD2Ev", DieOffset(0), MemberFlag.VIRTUAL, ("_ZN5ShapeD1Ev",)),
                    Member("esc\x1b[31m\udcff", DieOffset(0x1E0)),
                ),
                ClassFlag.NONE,
            ),
            FoldClass(Vaddr(0x401180), 48, (Member("main", DieOffset(0x2F0), MemberFlag.ADDRESS_TAKEN),), fold),
        ),
        (TailCall(Vaddr(0x401165), MemberRef(1, 1), MemberRef(0, 0)),),
        b"\2" * (record_count - 1) + b"\5",
        b"\4\6",
        vtables=(
            Vtable(
                Vaddr(0x403010),
                Vaddr(0x403000),
                (
                    VtableSlot(0, MemberRef(1, 2)),
                    VtableSlot(3, MemberRef(0, ALL_MEMBERS)),
                    VtableSlot(12, MemberRef(2, ALL_MEMBERS)),
                ),
                DieOffset(0x310),
            ),
        ),
    )


def write_images(folder: Path) -> None:
    names = {"_Z5twiceIiET_PS0_": 1, "_Z5twiceIjET_PS0_": 19}
    dcall, _ = encode_dcall(DIRECT, *UNITS)
    vcall, _ = encode_vcall(VIRTUAL)
    folds = encode_icf(fold_table(5), names)
    images = {
        "program": {".debug_str": DEBUG_STR, ".debug_dcall": dcall, ".debug_vcall": vcall, ".debug_icf": folds},
        "bare": {".comment": b"GCC\0"},
        "folds-only": {".debug_str": DEBUG_STR, ".debug_icf": encode_icf(IcfTable(), {})},
        "stale": {".debug_str": DEBUG_STR, ".debug_dcall": dcall, ".debug_icf": encode_icf(fold_table(4), names)},
        "gcc45": {
            ".debug_dcall": encode_dcall(DIRECT, *UNITS, dialect=Dialect.GCC)[0],
            ".debug_vcall": encode_vcall(VIRTUAL, dialect=Dialect.GCC)[0],
        },
        "corrupt": {".debug_dcall": dcall[:-1]},
    }
    for name, sections in images.items():
        parts = [Part(section, content=content) for section, content in sections.items()]
        (folder / name).write_bytes(Elf(parts).build())


@pytest.mark.parametrize("command", sorted(GOLDEN.glob("dump-*.cmd")), ids=lambda path: path.stem)
def test_golden(
    command: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    write_images(tmp_path)
    monkeypatch.chdir(tmp_path)
    status = main(command.read_text().split())
    captured = capsys.readouterr()
    got = f"{captured.out}{captured.err}exit {status}\n"
    expected = command.with_suffix(".out")
    if request.config.getoption("--update-golden"):
        expected.write_text(got)
    assert got == expected.read_text()


SOURCE = """
namespace geo {
__attribute__((noinline)) int area(int x) { __asm__ volatile(""); return x * 3; }
struct Box { __attribute__((noinline)) int edge(int x) const { __asm__ volatile(""); return x + area(x); } };
}
int main(int argc, char **) { return geo::Box().edge(argc) + geo::area(argc); }
"""


def test_a_foreign_table_has_its_names_from_debug_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table alone says DIE offsets; a concrete function has its name at the end of a chain of origins."""
    tool("objcopy")
    program = link(tmp_path / "program", "lld", compile_object(SOURCE, "-g", "-O1"))
    with program.open("rb") as file:
        (unit,) = [unit for unit in ELFFile(file).get_dwarf_info().iter_CUs() if unit["unit_length"] > 100]
        dies = [die for die in unit.iter_DIEs() if die.tag == "DW_TAG_subprogram"]
        start, end = unit.cu_offset, unit.cu_offset + unit["unit_length"] + unit.structs.initial_length_field_size()
    by_name = {}
    for die in dies:
        if "DW_AT_low_pc" in die.attributes:
            named = die
            while "DW_AT_name" not in named.attributes:
                attribute = (
                    "DW_AT_specification" if "DW_AT_specification" in named.attributes else "DW_AT_abstract_origin"
                )
                named = named.get_DIE_from_attribute(attribute)
            by_name[named.attributes["DW_AT_name"].value] = die.offset
    rows = [(0x201000, by_name[b"edge"], by_name[b"main"]), (0x201010, by_name[b"area"], by_name[b"edge"])]
    section, _ = encode_dcall(DirectCalls.of(rows), np.array([start], np.uint64), np.array([end], np.uint64))
    (tmp_path / "dcall").write_bytes(section)
    run("objcopy", "--add-section", f".debug_dcall={tmp_path}/dcall", program, tmp_path / "with-table")
    assert main(["dump", "--dcall", str(tmp_path / "with-table")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        ".debug_dcall: 2 direct calls of 2 callers",
        "",
        "main",
        "  0x0000000000201000  geo::Box::edge(int) const",
        "",
        "geo::Box::edge(int) const",
        "  0x0000000000201010  geo::area(int)",
    ]
    assert main(["dump", "--json", str(tmp_path / "with-table")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["direct_calls"][0] == {
        "call_site": "0x0000000000201000",
        "caller": "main",
        "caller_name": "main",
        "caller_die": f"{by_name[b'main']:#010x}",
        "callee": "_ZNK3geo3Box4edgeEi",
        "callee_name": "geo::Box::edge(int) const",
        "callee_die": f"{by_name[b'edge']:#010x}",
        "evidence": None,
    }
