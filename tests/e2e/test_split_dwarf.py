"""Split DWARF: functions that only .dwo files or a package describe, as if they were described in the image."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.dumps import statements
from tests.e2e.fruit import toolchains
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, Toolchain, Workshop
from tests.support.toolchain import run, tool

SHARED = """
    #include <stdio.h>
    extern int total;
    struct Apple {}; struct Pear {};
    template <class T> struct List {
        int seed = total;
        NOINLINE int grow(int by) { SAMPLE(); return total += by + seed; }
        NOINLINE int add(int by) { int got = grow(by + 1) + 3; total += got; return got; }
    };
"""
SOURCES = {
    "main.cpp": SHARED
    + """
    int total; int other(int);
    static NOINLINE int local(int by) { SAMPLE(); return total += by * 3; }
    namespace { struct Hidden { NOINLINE int call(int by) { int got = List<Apple>().add(by); return total += got; } }; }
    int main(int count, char **) {
        if (count > 5) { try { if (count > 9) throw count; } catch (int) { puts("cold"); } }
        total += Hidden().call(count) + List<Pear>().add(count) + local(count) + other(count);
        return total == 0;
    }
    """,
    "other.cpp": SHARED
    + """
    static NOINLINE int local(int by) { SAMPLE(); return total += by * 3; }
    int other(int by) { int got = List<Pear>().add(by) + local(by) + List<Apple>().grow(by); total += got; return got; }
    """,
}
EXTERNAL = {f"_ZN4ListI{kind}E{method}Ei" for kind in ("5Apple", "4Pear") for method in ("3add", "4grow")} | {"main"}
GCC_LLD = Toolchain("gcc", "lld", LLD.link_flags)
CLANG_GOLD = Toolchain("clang", "gold")


def build_both(workshop: Workshop, *flags: str) -> tuple[Program, Program]:
    """The same program with split DWARF, and without in a folder of its own."""
    whole_folder = workshop.folder / "whole"
    whole_folder.mkdir()
    whole = Workshop(whole_folder, workshop.toolchain).build_with_tables(SOURCES, flags)
    return workshop.build(SOURCES, [*flags, "-gsplit-dwarf"]), whole


@toolchains(GOLD, LLD, LLD_ALONE, GCC_LLD, CLANG_GOLD)
@pytest.mark.parametrize("version", ["4", "5"])
def test_the_same_tables_as_without(workshop: Workshop, version: str, capsys: pytest.CaptureFixture[str]) -> None:
    split, whole = build_both(workshop, f"-gdwarf-{version}")
    split.add_tables()
    assert ".dwo" not in capsys.readouterr().err
    assert statements(split.folded) == statements(whole.folded)
    assert "all agree with the code" in icf("verify", split.folded)
    assert split.check() == whole.check()
    places = [
        {(frame["linkage_name"], frame["file"], frame["line"]) for frames in program.resolve() for frame in frames}
        for program in (split, whole)
    ]
    # a name does not say which of the functions with internal linkage in all .dwo is meant
    lines = [{(name, line) for name, _, line in found if line is not None} for found in places]
    assert lines[0] <= lines[1]
    assert {name for name, _ in lines[0]} >= EXTERNAL


@toolchains(GOLD, LLD)
@pytest.mark.parametrize(("version", "packer"), [("4", "dwp"), ("4", "llvm-dwp"), ("5", "llvm-dwp")], ids=str)
def test_packages(workshop: Workshop, version: str, packer: str, capsys: pytest.CaptureFixture[str]) -> None:
    if workshop.toolchain.compiler == "gcc" and (version, packer) == ("5", "llvm-dwp"):
        pytest.skip("llvm-dwp does not read what gcc writes there")
    split, whole = build_both(workshop, f"-gdwarf-{version}")
    run(tool(packer), "-e", split.folded, "-o", f"{split.folded}.dwp")
    for path in workshop.folder.glob("*.dwo"):
        path.unlink()
    split.add_tables()
    assert ".dwo" not in capsys.readouterr().err
    assert statements(split.folded) == statements(whole.folded)


@toolchains(LLD)
@pytest.mark.parametrize("kind", ["zlib", "zstd"])
def test_compressed_and_moved(workshop: Workshop, kind: str) -> None:
    split, whole = build_both(workshop)
    elsewhere = workshop.folder / "elsewhere"
    elsewhere.mkdir()
    for path in workshop.folder.glob("*.dwo"):
        run(tool("llvm-objcopy"), f"--compress-debug-sections={kind}", path, elsewhere / path.name)
        path.unlink()
    split.add_tables("--debug-root", elsewhere)
    assert statements(split.folded) == statements(whole.folded)


@toolchains(LLD)
def test_dwo_sections_in_the_objects(workshop: Workshop) -> None:
    split = workshop.build(SOURCES, ["-gsplit-dwarf=single"])
    assert not list(workshop.folder.glob("*.dwo"))
    split.add_tables()
    assert {"unique"} == split.check()["_ZN4ListI5AppleE4growEi"]


@toolchains(GOLD, LLD)
def test_a_stripped_image_and_split_units(workshop: Workshop) -> None:
    split, whole = build_both(workshop)
    debug = split.folded.with_name("program.debug")
    run(tool("objcopy"), "--only-keep-debug", split.folded, debug)
    run(tool("strip"), split.folded)
    run(tool("objcopy"), f"--add-gnu-debuglink={debug}", split.folded)
    split.add_tables()
    assert statements(split.folded) == statements(whole.folded)
    assert "<functions without debug information>" in run("readelf", "--debug-dump=info", debug).stdout


@toolchains(GOLD, LLD)
@pytest.mark.parametrize("version", ["4", "5"])
def test_a_missing_file_is_said_and_its_functions_are_known_by_symbols(
    workshop: Workshop, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    split = workshop.build(SOURCES, ["-gsplit-dwarf", f"-gdwarf-{version}"])
    gone = workshop.folder / "other.dwo"
    gone.unlink()
    split.add_tables()
    says = capsys.readouterr().err
    assert f"icf: warning: {gone}: not found: its functions are known by their symbols only\n" in says
    split.check()


@toolchains(GOLD, LLD)
@pytest.mark.parametrize("version", ["4", "5"])
def test_a_file_of_another_compilation_is_not_read(
    workshop: Workshop, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    split = workshop.build(SOURCES, ["-gsplit-dwarf", f"-gdwarf-{version}"])
    shutil.copy(workshop.folder / "main.dwo", workshop.folder / "other.dwo")
    split.add_tables()
    says = capsys.readouterr().err
    assert f"icf: warning: {workshop.folder / 'other.dwo'}: is of another compilation: no unit has the id 0x" in says
    split.check()


@toolchains(LLD)
def test_damaged_files_are_said(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    split = workshop.build(SOURCES, ["-gsplit-dwarf"])
    path = workshop.folder / "other.dwo"
    path.write_bytes(path.read_bytes()[:100])
    split.add_tables()
    assert f"icf: warning: {path}: section headers+" in capsys.readouterr().err
    split.check()


DEEP = """
    volatile int total; struct A {}; struct B {}; struct C {};
    template <class T> struct In {
        static inline __attribute__((always_inline)) void deep(int n) { SAMPLE(); total += n; }
        static inline __attribute__((always_inline)) void mid(int n) { deep(n);
            deep(n + 1); total += 1; }
    };
    template <class T> NOINLINE void out(int n) { In<T>::mid(n);
        In<T>::deep(n); total += 2; }
    template <class T> NOINLINE void half(int n) {
        SAMPLE(); total += n;
        SAMPLE(); total += n + 1;
        total += 1; In<T>::deep(n);
        total += 2; }
    int main() {
        out<A>(1); total += 1; out<B>(2); total += 1; out<C>(3); total += 1; half<A>(1); total += 1; half<B>(1);
        total += 1; return 0; }
"""


@toolchains(GOLD, GCC_LLD, LLD)
def test_lines_and_inlined_functions_are_those_of_the_function(workshop: Workshop) -> None:
    """gcc's addresses do not stand in the order of the sequences, which all have one size here."""
    program = workshop.build(DEEP, ["-gsplit-dwarf"])
    program.add_tables()
    program.check()
    lines = DEEP.splitlines()
    for stack in program.resolve():
        frame = next(each for each in stack if each["name"] and ("out<" in each["name"] or "half<" in each["name"]))
        kind, name = frame["name"].partition("<")[2][0], frame["name"].partition("<")[0].rpartition(" ")[2]
        begin = next(at for at, line in enumerate(lines, 1) if f"NOINLINE void {name}(" in line)
        assert begin <= frame["line"] <= begin + (1 if name == "out" else 4)
        for inlined in frame["inlines"]:
            assert inlined["name"].startswith(f"In<{kind}>::")
            assert inlined["line"] <= 6  # In is declared before the others
