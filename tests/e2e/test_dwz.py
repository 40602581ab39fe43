"""Debug information that dwz has compressed: partial units, and a supplementary file for several images."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.dumps import statements
from tests.e2e.fruit import FRUIT, FRUITS, toolchains
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD_ALONE, Workshop
from tests.support.toolchain import run, tool

PART = (
    "#include <map>\n#include <string>\n"
    + """
    extern int total;
    int size_of_%(name)s(const char *text) {
        std::map<std::string, std::string> words;
        words[text] = "%(name)s";
        return words.size() + total;
    }
"""
)
SOURCES = {"main.cpp": FRUIT} | {f"{name}.cpp": PART % {"name": name} for name in ("one", "two")}
FLAGS = ("-gdwarf-4", "-fPIE")  # dwz does not read what clang writes as DWARF 5


def build_both(workshop: Workshop, *flags: str) -> tuple[Program, Path]:
    """A program, and a copy of its folded image that has tables."""
    program = workshop.build(SOURCES, flags or FLAGS)
    whole = Path(shutil.copy(program.folded, program.folded.with_name("whole")))
    icf("pass", whole)
    return program, whole


def compress(program: Program, *options: str) -> Path:
    """Move what both images have to a supplementary file in a folder beside them."""
    folder = program.folded.with_name("sup")
    folder.mkdir()
    run(tool("dwz"), *options, "-m", folder / "common", "-r", program.folded, program.unfolded)
    forms = run("readelf", "--debug-dump=abbrev", program.folded).stdout
    assert "ref_alt" in forms or "ref_sup" in forms
    return folder / "common"


def assert_same(program: Program, whole: Path) -> None:
    assert statements(program.folded) == statements(whole)
    assert "all agree with the code" in icf("verify", program.folded)
    verdicts = program.check()
    assert {name: verdicts[name] for name in FRUITS} == dict.fromkeys(FRUITS, {"unique"})
    lines = {frame["linkage_name"]: frame["line"] for frames in program.resolve() for frame in frames}
    assert all(lines[name] for name in FRUITS)


@toolchains(GOLD, LLD_ALONE)
def test_partial_units(workshop: Workshop) -> None:
    program, whole = build_both(workshop)
    run(tool("dwz"), program.folded)
    assert "DW_TAG_partial_unit" in run("readelf", "--debug-dump=info", program.folded).stdout
    program.add_tables()
    assert_same(program, whole)


@toolchains(GOLD, LLD_ALONE)
@pytest.mark.parametrize("options", [(), ("--dwarf-5",)], ids=str)
def test_a_supplementary_file(workshop: Workshop, options: tuple[str, ...]) -> None:
    flags = ("-gdwarf-5", "-fPIE") if options and workshop.toolchain.compiler == "gcc" else FLAGS
    program, whole = build_both(workshop, *flags)
    compress(program, *options)
    link = ".debug_sup" if options else ".gnu_debugaltlink"
    assert link in run("readelf", "-SW", program.folded).stdout
    program.add_tables()
    assert_same(program, whole)


@toolchains(GOLD)
def test_a_supplementary_file_of_a_debug_file_elsewhere(workshop: Workshop, tmp_path: Path) -> None:
    program, whole = build_both(workshop)
    common = compress(program)
    debug = program.folded.with_name("program.debug")
    run(tool("eu-strip"), "-f", debug, program.folded)
    root = tmp_path / "root"
    root.mkdir()
    common.rename(root / common.name)
    icf("pass", program.folded, "--debug-root", root)
    assert statements(program.folded) == statements(whole)


@toolchains(GOLD)
def test_without_the_right_supplementary_file_nothing_is_guessed(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    program, _ = build_both(workshop)
    common = compress(program)
    before = program.folded.read_bytes()
    moved = common.rename(common.with_name("moved"))
    icf("pass", program.folded, status=1)
    assert "sup/common: supplementary file not found" in capsys.readouterr().err
    run(tool("objcopy"), "--remove-section=.note.gnu.build-id", moved, common)
    icf("pass", program.folded, status=1)
    assert f"{common}: does not belong to {program.folded}: build id " in capsys.readouterr().err
    assert program.folded.read_bytes() == before
