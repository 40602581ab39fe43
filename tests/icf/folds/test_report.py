"""Reports of `--print-icf-sections`: real ones, mixed ones, broken ones, and ones made on the spot."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from icf.elf.archive import MissingFileError
from icf.errors import FormatError
from icf.folds.report import FoldedSections, IcfReport, SectionRef, function_name, parse_icf_report
from tests.support.toolchain import tool

SAMPLES = Path(__file__).parents[3] / "testdata" / "icf-reports"


def folded(kept: tuple[str, str], *removed: tuple[str, str]) -> FoldedSections:
    return FoldedSections(SectionRef(*kept), tuple(SectionRef(*ref) for ref in removed))


LEFT, RIGHT, SHAPES = "libshapes.a(left.o)", "libthin.a(right.o)", "libshapes.a(shapes.o)"
EXPECTED = [
    folded((LEFT, ".text._Z4lefti"), (RIGHT, ".text._Z5righti")),
    folded((SHAPES, ".text._ZNK5Shape4areaEi"), (SHAPES, ".text._ZNK5Shape4edgeEi")),
    folded(("main.o", ".text._Z5twiceIiET_PS0_"), ("main.o", ".text._Z5twiceIjET_PS0_")),
    folded(("main.o", ".text._Z5twiceIlET_PS0_"), ("main.o", ".text._Z5twiceImET_PS0_")),
    folded(("main.o", ".text._ZL4stepi"), (LEFT, ".text._ZL4stepi"), (RIGHT, ".text._ZL4stepi")),
]
EMPTY_TEXT = folded(("main.o", ".text"), (LEFT, ".text"), (SHAPES, ".text"), (RIGHT, ".text"))


@pytest.mark.parametrize("linker", ["gold", "lld", "mold"])
def test_each_linker_tells_of_the_same_folds(linker: str) -> None:
    classes = parse_icf_report(SAMPLES / f"{linker}.txt")
    assert [entry for entry in classes if entry.has_function_name] == EXPECTED
    assert [entry for entry in classes if not entry.has_function_name] == ([EMPTY_TEXT] if linker == "lld" else [])


@pytest.mark.slow
def test_the_linkers_of_this_machine_still_print_what_is_checked_in(tmp_path: Path) -> None:
    for command in ("g++", "ld.gold", "ld.lld", "mold"):
        tool(command)
    subprocess.run(["sh", SAMPLES / "build.sh", tmp_path], check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    for linker in ("gold", "lld", "mold"):
        classes = parse_icf_report(tmp_path / f"{linker}.txt")
        assert [entry for entry in classes if entry.has_function_name] == EXPECTED


def test_text_bytes_and_path_are_the_same() -> None:
    path = SAMPLES / "mold.txt"
    assert parse_icf_report(path.read_text()) == EXPECTED
    assert parse_icf_report(path.read_bytes()) == EXPECTED
    assert parse_icf_report(str(path)) == EXPECTED
    assert parse_icf_report("") == []
    with pytest.raises(MissingFileError):
        parse_icf_report(str(path) + ".absent")


@pytest.mark.parametrize("linker", ["gold", "lld", "mold"])
def test_a_report_can_come_line_by_line(linker: str) -> None:
    text = (SAMPLES / f"{linker}.txt").read_text()
    report = IcfReport("ld")
    for line in text.splitlines(keepends=True):
        report.add(line)
    assert report.classes() == parse_icf_report(text)
    with pytest.raises(FormatError, match=rf"^ld: icf report\+{len(text.encode()) + 2:#x}: line names no section"):
        report.add("x\nselected section a.o\n")


def test_all_reports_in_one_build_log() -> None:
    log = "[1/2] c++ -o program\nld: warning: unused\n" + "".join(
        f"{(SAMPLES / f'{linker}.txt').read_text()}[2/2] done: x.o:(.text.y)\r\n" for linker in ("gold", "lld", "mold")
    )
    assert parse_icf_report(log) == [*EXPECTED[:2], EMPTY_TEXT, *EXPECTED[2:]]


def test_merges_are_transitive_and_independent_of_order() -> None:
    lines = [
        f"ld.gold: ICF folding section '.text.{removed}' in file 'a.o' into '.text.{kept}' in file 'a.o'"
        for kept, removed in ("bc", "ab", "cd", "xy")
    ]
    expected = [
        folded(("a.o", ".text.a"), ("a.o", ".text.b"), ("a.o", ".text.c"), ("a.o", ".text.d")),
        folded(("a.o", ".text.x"), ("a.o", ".text.y")),
    ]
    rng = random.Random(1)
    for _ in range(20):
        assert parse_icf_report("\n".join(rng.sample(lines, len(lines)))) == expected


def test_a_ring_of_merges_ends() -> None:
    line = "ICF folding section '.text.{}' in file 'a.o' into '.text.{}' in file 'a.o'\n"
    report = line.format("a", "b") + line.format("b", "c") + line.format("c", "a")
    assert parse_icf_report(report) == [
        folded(("a.o", ".text.a"), ("a.o", ".text.b"), ("a.o", ".text.c")),
    ]


def test_odd_files_and_sections() -> None:
    report = (
        "selected section out dir/a:(b).o:(.text.f)\n"
        "  removing identical section lib(1).a(m.o):(.text.g)\n"
        "ld.lld: selected section lto.tmp:(.text.unlikely._Z1hv)\n"
        "ld.lld:   removing identical section lto.tmp:(.text.unlikely._Z1iv)\n"
        "selected section a.o:(.text.)\n"
        "  removing identical section a.o:(.text.)\n"
        "ICF folding section '.text.j' in file 'it's.o' into '.text.k' in file 'lib.a(k.o)'\n"
    )
    assert parse_icf_report(report) == [
        folded(("lib.a(k.o)", ".text.k"), ("it's.o", ".text.j")),
        folded(("lto.tmp", ".text.unlikely._Z1hv"), ("lto.tmp", ".text.unlikely._Z1iv")),
        folded(("out dir/a:(b).o", ".text.f"), ("lib(1).a(m.o)", ".text.g")),
    ]


@pytest.mark.parametrize(
    ("section", "name"),
    [
        (".text._Z3foov", "_Z3foov"),
        (".text.main", "main"),
        (".text", ""),
        (".text.", ""),
        (".text.hot.", ""),
        (".text.unlikely", ""),
        (".text.unlikely._Z3foov", "_Z3foov"),
        (".text.hot._Z3foov", "_Z3foov"),
        (".text.startup.main", "main"),
        (".text.exit._GLOBAL__sub_D_x", "_GLOBAL__sub_D_x"),
        (".text.split._Z3foov", "_Z3foov"),
        (".text.unknown._Z3foov", "_Z3foov"),
        (".text.sorted.12._Z3foov", "_Z3foov"),
        (".text._Z3foov.constprop.0", "_Z3foov.constprop.0"),
        (".ltext._Z3foov", "_Z3foov"),
        (".gnu.linkonce.t._Z3foov", "_Z3foov"),
        (".rodata.str", ""),
        (".init", ""),
    ],
)
def test_function_names(section: str, name: str) -> None:
    assert function_name(section) == name
    assert SectionRef("a.o", section).has_function_name == bool(name)


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("x\n  removing identical section a.o:(.text.f)\n", r"\+0x2: section is removed before one is selected"),
        ("selected section a.o\n", r"\+0x0: line names no section as file:\(section\): 'selected section a\.o'"),
        ("\nselected section :(.text.f)\n", r"\+0x1: line names no section as file:\(section\): 'selected"),
        ("ICF folding section '.text.f' in file 'a.o'\n", r"\+0x0: line names no two sections: \"ICF folding"),
    ],
)
def test_a_report_without_head_or_form_is_refused(report: str, message: str) -> None:
    with pytest.raises(FormatError, match=rf"^<report>: icf report{message}"):
        parse_icf_report(report)
