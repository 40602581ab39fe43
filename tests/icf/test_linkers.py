"""The record of each linker against what the linker does, and that nothing else knows linkers by name."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.elf.types import STT_FILE, STT_FUNC
from icf.linkers import BFD, GOLD, LINKERS, UNKNOWN, HiddenSymbols, KeptSymbols, Linker, linker_named
from tests.support.paths import ROOT
from tests.support.toolchain import link, linker_options, run, tool

PACKAGES = ("icf", "linkpass", "unwind")
KNOWS_NAMES = ROOT / "icf" / "linkers.py"

FIRST = """
__attribute__((visibility("hidden"), noinline)) int hidden(int x) { return x * 7 + 3; }
static __attribute__((noinline)) int local_one(int x) { return x / 5 + 1; }
__attribute__((noinline)) int global_one(int x) { return x % 11 - 8; }
int first(int x) { return hidden(x) + local_one(x) + global_one(x); }
"""
SECOND = """
int first(int);
static __attribute__((noinline)) int local_two(int x) { return x / 5 + 1; }
__attribute__((noinline)) int global_two(int x) { return x % 11 - 8; }
int main(int argc, char **) { return first(argc) + local_two(argc) + global_two(argc); }
"""

every_linker = pytest.mark.parametrize("linker", LINKERS, ids=lambda linker: linker.name)


def objects(folder: Path) -> list[Path]:
    found = []
    for name, source in (("first", FIRST), ("second", SECOND)):  # as the symbols of files are to be called
        (folder / f"{name}.cpp").write_text(source)
        compiler = tool("g++")
        found.append(folder / f"{name}.o")
        run(compiler, "-O1", "-g", "-ffunction-sections", "-c", folder / f"{name}.cpp", "-o", found[-1])
    return found


@every_linker
def test_symbols_are_kept_and_placed_as_the_record_says(linker: Linker, tmp_path: Path) -> None:
    folding = ["-Wl,--icf=all"] if linker.folds_functions else []
    with Image.open(link(tmp_path / "program", linker.name, *objects(tmp_path), *folding)) as image:
        assert image.linker == linker
        symbols = image.symbols
        functions = {symbols.name(row): row for row in range(len(symbols)) if symbols.type[row] == STT_FUNC}
        known = {name for name in functions if "_one" in name or "_two" in name}
        local, other = {name for name in known if "local" in name}, {name for name in known if "global" in name}
        if linker.folds_functions:
            assert len({int(symbols.value[functions[name]]) for name in known}) == 2
            assert linker.kept_symbols is KeptSymbols.SOME or len(other) == 2
            assert linker.kept_symbols is KeptSymbols.SOME or len(local) == 1 + (linker.kept_symbols is KeptSymbols.ALL)
        else:
            assert (len(local), len(other)) == (2, 2)
            assert len({int(symbols.value[functions[name]]) for name in known}) == 4
        hidden = functions["_Z6hiddeni"]
        files = [symbols.name(row) for row in range(hidden) if symbols.type[row] == STT_FILE]
        if linker.hidden_symbols is HiddenSymbols.WITH_THEIR_FILE:
            assert files[-1] == "first.cpp"
        elif linker.hidden_symbols is HiddenSymbols.AFTER_NAMELESS_FILE:
            assert files[-1] == ""
        elif linker.hidden_symbols is HiddenSymbols.AFTER_ALL_FILES:
            assert "first.cpp" in files and files[-1] not in ("first.cpp", "")
            assert not any(symbols.type[row] == STT_FILE for row in range(hidden, len(symbols)))


@every_linker
def test_options_are_known_as_the_record_says(linker: Linker, tmp_path: Path) -> None:
    given = objects(tmp_path)

    def takes(option: str) -> bool:
        try:
            link(tmp_path / "program", linker.name, *given, f"-Wl,{option}")
        except AssertionError:
            return False
        return True

    assert takes("--icf=all") == linker.folds_functions or linker == BFD  # which may ignore what it does not know
    assert takes("--color-diagnostics") == linker.colours
    if linker.folds_functions:
        assert takes("--keep-unique=main") != linker.lacks_keep_unique


@every_linker
def test_the_report_has_a_format_that_is_read(linker: Linker, tmp_path: Path) -> None:
    if not linker.folds_functions:
        return
    compiler, path = tool("clang++"), tmp_path / "program"
    link(path, linker.name, *objects(tmp_path))  # skips where the linker is missing
    command = [compiler, *linker_options(linker.name, tool(f"ld.{linker.name}")), "-Wl,--icf=all,--print-icf-sections"]
    done = subprocess.run(
        [*command, *objects(tmp_path), "-o", path],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": "/usr/bin"},
    )
    text, start = (done.stderr, "ICF folding section") if linker == GOLD else (done.stdout, "selected section")
    assert start in text


def test_a_name_that_is_not_known_gives_the_unknown_linker() -> None:
    assert [linker_named(linker.name) for linker in LINKERS] == list(LINKERS)
    assert linker_named("wild") is linker_named("") is UNKNOWN


def comparisons_with_names(source: str) -> Iterator[int]:
    """Yield the lines in which the name of a linker is a string that something may be compared with."""
    names = {linker.name for linker in LINKERS}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in names:
            yield node.lineno


def test_nothing_else_compares_names_of_linkers() -> None:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if file != KNOWS_NAMES:
                assert list(comparisons_with_names(file.read_text())) == [], file


@pytest.mark.parametrize(
    "planted", ['image.linker == "gold"', 'image.linker in ("lld", "mold")', 'match linker:\n    case "bfd": pass']
)
def test_a_planted_comparison_is_found(planted: str) -> None:
    assert list(comparisons_with_names(planted))
