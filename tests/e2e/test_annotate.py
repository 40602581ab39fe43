"""`icf annotate` and `icf cc`: what objects know survives the link, with any linker and at any debug level."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.tables import ANNOTATION_SECTION
from tests.e2e.link_sources import SOURCES
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GCC_MOLD, GOLD, LLD_ALONE, MOLD, Workshop
from tests.support.icf_command import icf_command
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool

CHAINS = [
    GOLD,
    dataclasses.replace(GOLD, compiler="clang"),
    LLD_ALONE,
    dataclasses.replace(LLD_ALONE, compiler="gcc"),
    MOLD,
    GCC_MOLD,
]
EVERY = pytest.mark.parametrize("toolchain", CHAINS, ids=str, indirect=True)
STATICS = ("_ZL4peelPi", "_ZL4washPi", "_ZL3cutPi", "_ZL5slicePi")
TYPES = """
    extern int total;
    template <class T> struct List {
        T *last; int size;
        NOINLINE int grow(T *item) { SAMPLE(); last = item; return ++size; }
        NOINLINE int add(T *item) { int n = grow(item); return n + 1; }
    };
"""
COMDAT = {
    "one.cpp": TYPES + "struct One {}; NOINLINE int one() { List<One> l{}; One o; return l.add(&o) + 1; }",
    "two.cpp": TYPES + "struct Two {}; struct One {}; NOINLINE int two() { List<Two> l{}; Two o; List<One> m{}; One p;"
    " return l.add(&o) + m.add(&p); }",
    "main.cpp": "int total; int one(); int two(); int main() { return one() + two() - 7; }",
}


def built(
    workshop: Workshop, sources: dict[str, str], flags: tuple[str, ...] = (), link_flags: tuple[str, ...] = ()
) -> Program:
    """The program from annotated objects; the objects are gone before the pass."""
    objects = [*workshop.compile(sources, *flags), workshop.sampler()]
    before, _ = workshop.link("plain", objects, "all", link_flags)
    icf("annotate", *objects)
    folded, report = workshop.link("program", objects, "all", link_flags)
    unfolded, _ = workshop.link("program.unfolded", objects, "none", link_flags)
    assert function_bytes(before) == function_bytes(folded)  # it makes no difference to folding
    for path in objects:
        path.unlink()
    return Program(folded, unfolded, report)


def function_bytes(path: Path) -> int:
    with Image.open(path) as image:
        return sum(section.size_bytes for section in image.sections if section.name == ".text")


@EVERY
@pytest.mark.parametrize(
    ("debug", "collects"), [("-g", ()), ("-g1", ("-Wl,--gc-sections",)), ("-g0", ())], ids=["g", "g1-gc", "g0"]
)
def test_every_direct_call_is_named(workshop: Workshop, debug: str, collects: tuple[str, ...]) -> None:
    dead = {"dead.cpp": "extern int total; static NOINLINE void rot(int *a) { *a += 9; } void dead() { rot(&total); }"}
    program = built(workshop, SOURCES | dead, (debug,), collects)
    icf("pass", program.folded)
    verdicts = program.check()
    for name in (*STATICS, "_Z6applesv", "_Z5pearsv"):
        assert verdicts[name] <= {"unique", "unmerged"}, name
    assert sum(verdicts[name] == {"unique"} for name in STATICS) >= (2 if "gold" in str(workshop.toolchain) else 4)
    with Image.open(program.folded) as image:
        assert image.named(ANNOTATION_SECTION) is None
        assert bytes(image.contents(".debug_dcall"))


@EVERY
def test_copies_that_the_linker_discards_are_no_trouble(workshop: Workshop) -> None:
    program = built(workshop, COMDAT, link_flags=("-Wl,--gc-sections",))
    icf("pass", program.folded)
    verdicts = program.check()
    for name in ("One", "Two"):
        assert verdicts[f"_ZN4ListI3{name}E4growEPS0_"] == verdicts[f"_ZN4ListI3{name}E3addEPS0_"] == {"unique"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE], ids=str, indirect=True)
def test_a_second_annotation_changes_nothing_and_an_incremental_link_keeps_it(workshop: Workshop) -> None:
    objects = workshop.compile(SOURCES)
    icf("annotate", *objects)
    once = [path.read_bytes() for path in objects]
    icf("annotate", *objects)
    assert [path.read_bytes() for path in objects] == once
    run(tool("ld.bfd"), "-r", *objects, "-o", workshop.folder / "all.o")
    image, _ = workshop.link("program", [workshop.folder / "all.o", workshop.sampler()], "all")
    assert " table" in icf("pass", image)
    assert "all agree with the code" in icf("verify", image)


@pytest.mark.parametrize("toolchain", [LLD_ALONE], ids=str, indirect=True)
def test_code_that_is_not_the_functions_own_is_not_believed(workshop: Workshop) -> None:
    """An inline function that another object has compiled otherwise: the linker keeps the first copy."""
    shared = """
        extern int total;
        NOINLINE void left(); NOINLINE void right();
        inline NOINLINE void both() { %s; ++total; }
    """
    sides = "int total; NOINLINE void left() { SAMPLE(); ++total; } NOINLINE void right() { SAMPLE(); ++total; } "
    sources = {
        "a.cpp": shared % "left()" + "NOINLINE void a() { both(); total += 2; }",
        "b.cpp": shared % "right()" + "NOINLINE void b() { both(); total += 3; }",
        "main.cpp": sides + "void a(); void b(); int main() { a(); b(); return 0; }",
    }
    program = built(workshop, sources)
    icf("pass", program.folded)
    assert program.check()["_Z4leftv"] == {"unique"}


def test_what_cannot_be_annotated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, empty, linked = tmp_path / "text.o", tmp_path / "empty.o", tmp_path / "linked"
    text.write_text("no object at all\n")
    run(tool("as"), "-o", empty, os.devnull)
    shutil.copy(ROOT / "testdata" / "corrupt" / "tiny", linked)
    before = {path: path.read_bytes() for path in (text, empty, linked)}
    icf("annotate", text, status=1)
    assert capsys.readouterr().err.startswith(f"icf: error: {text}: ELF header+0x0: not an ELF file")
    icf("annotate", linked, status=1)
    assert "needs a relocatable object" in capsys.readouterr().err
    archive = tmp_path / "lib.a"
    run("ar", "rcs", archive, empty)
    icf("annotate", archive, status=1)
    assert capsys.readouterr().err.endswith(": is an archive\nhint: annotate its objects before ar packs them\n")
    icf("annotate", tmp_path / "none", status=1)
    assert capsys.readouterr().err == f"icf: error: {tmp_path}/none: No such file or directory\n"
    icf("annotate", empty)
    assert capsys.readouterr().err.startswith(f"icf: {empty}: has no function")
    assert {path: path.read_bytes() for path in before} == before


# icf cc


def annotated(path: Path) -> bool:
    with Image.open(path, allow_rel=True) as image:
        return image.named(ANNOTATION_SECTION) is not None


def cc(folder: Path, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*icf_command(), "cc", *options, "--", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / f"{name}.cpp").write_text(f"int other(); int {name}() {{ return other() + 1; }}\n")
    (tmp_path / "bad.cpp").write_text("int f( {\n")
    (tmp_path / "older.o").write_bytes(b"older")
    (tmp_path / "words.rsp").write_text("-c one.cpp -o fromfile.o\n")
    return tmp_path


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize(
    ("words", "objects"),
    [
        ("-O2 -c one.cpp -o out.o", ["out.o"]),
        ("-O2 -c one.cpp -oout.o", ["out.o"]),
        ("-O2 -c one.cpp two.cpp", ["one.o", "two.o"]),
        ("-O2 -x c++ -include two.cpp -c one.cpp", ["one.o"]),
        ("-O2 @words.rsp", ["fromfile.o"]),
        ("-O2 -MD -MF deps.d -c ./two.cpp", ["two.o"]),
    ],
)
def test_compiled_objects_are_annotated(compiler: str, words: str, objects: list[str], sources: Path) -> None:
    done = cc(sources, tool(compiler), *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in sources.glob("*.o")) == sorted([*objects, "older.o"])
    assert all(annotated(sources / name) for name in objects)


@pytest.mark.parametrize(
    "words", ["-S one.cpp -o one.s", "-E one.cpp -o one.ii", "-fsyntax-only one.cpp", "-shared -fPIC one.cpp -o one.so"]
)
def test_other_commands_are_run_as_they_are(words: str, sources: Path) -> None:
    plain = subprocess.run([tool("g++"), *words.split()], cwd=sources, capture_output=True, text=True)
    made = {path.name: path.read_bytes() for path in sources.iterdir()}
    done = cc(sources, tool("g++"), *words.split())
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert {path.name: path.read_bytes() for path in sources.iterdir()} == made


def test_a_compile_that_fails_says_so_in_its_own_words(sources: Path) -> None:
    plain = subprocess.run([tool("g++"), "-c", "bad.cpp"], cwd=sources, capture_output=True, text=True)
    done = cc(sources, tool("g++"), "-c", "bad.cpp")
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr) and plain.returncode
    assert cc(sources, "no-such-compiler", "-c", "one.cpp").stderr.startswith("icf: error: no-such-compiler: ")
    assert cc(sources).returncode == 2


def test_an_object_that_cannot_be_annotated_stays_as_it_was_compiled(sources: Path) -> None:
    words = f"{tool('g++')} -m32 -c -x assembler {os.devnull} -o small.o".split()
    done = cc(sources, *words)
    assert done.returncode == 0 and "32-bit ELF is not handled" in done.stderr and "not annotated" in done.stderr
    assert cc(sources, *words, options=("--strict",)).returncode == 1


def test_bitcode_is_left_alone(sources: Path) -> None:
    done = cc(sources, tool("clang++"), "-flto", "-c", "one.cpp")
    assert (done.returncode, done.stderr) == (0, "")
    assert (sources / "one.o").read_bytes()[:2] == b"BC"


def test_no_library_of_columns_is_imported(tmp_path: Path) -> None:
    """`icf cc` runs once for each object: the import of numpy alone would take longer than its work."""
    source = tmp_path / "one.cpp"
    source.write_text("int two(); int one() { return two() + 1; }")
    check = "import sys; from icf import cli; assert not cli.main(sys.argv[1:]); assert 'numpy' not in sys.modules"
    command = [sys.executable, "-c", check, "cc", "--strict", "--", tool("g++"), "-c", str(source), "-o", "one.o"]
    run(*command, folder=tmp_path)
    with Image.open(tmp_path / "one.o", allow_rel=True) as image:
        assert image.named(ANNOTATION_SECTION) is not None
