"""`icf link --distinct`: a program of which every frame has one name, and whose other functions are folded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from icf.elf.image import Image
from tests.e2e.fruit import STALLS
from tests.e2e.program import Program
from tests.e2e.workshop import GCC_MOLD, GOLD, LLD_ALONE, MOLD, Toolchain, Workshop
from tests.support.toolchain import run, tool

LINKERS = pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE, GCC_MOLD], ids=str, indirect=True)
ONE = pytest.mark.parametrize("toolchain", [LLD_ALONE], ids=str, indirect=True)
DISTINCT = ("--strict", "--distinct")

MARKET = {
    "main.cpp": STALLS
    + """
        int total;
        Of<Apple> apples; Of<Pear> pears;
        Stall *plum_stall();
        void visit(int), greet(int), wave(int);
        static NOINLINE void ripe(int n) { SAMPLE(); total += 4 * n; }
        static NOINLINE void green(int n) { SAMPLE(); total += 4 * n; }
        void (*chosen[])(int) = {ripe, green};
        int main() {
            Stall *stalls[] = {&apples, &pears, plum_stall()};
            for (Stall *stall : stalls) { stall->open(1); stall->close(2); }
            for (auto function : chosen) function(3);
            apples.clean(1); pears.clean(2);
            visit(1); greet(2); wave(3);
            return 0;
        }
    """,
    # in an archive by path, one that -l finds, a thin one
    "plums.cpp": STALLS + "Of<Plum> plums; Stall *plum_stall() { return &plums; }",
    "visit.cpp": """
        extern int total;
        static NOINLINE void ripe(int n) { SAMPLE(); total += 4 * n; }
        static void (*volatile ours)(int) = ripe;
        void visit(int n) { ours(n); ++total; }
    """,
    "greet.cpp": """
        extern int total;
        static NOINLINE void green(int n) { SAMPLE(); total += 4 * n; }
        static void (*volatile ours)(int) = green;
        void greet(int n) { ours(n); ++total; }
    """,
    "wave.cpp": """
        extern int total;
        static NOINLINE void hand(int n) { SAMPLE(); total += 4 * n; }
        static void (*volatile ours)(int) = hand;
        void wave(int n) { ours(n); ++total; }
    """,
}


def market(workshop: Workshop) -> tuple[Program, list[Path | str], list[str]]:
    """The market, folded and not; its inputs; the linker options for them."""
    program = workshop.build(MARKET)
    folder = workshop.folder
    run(tool("ar"), "rcs", "libplums.a", "plums.o", folder=folder)
    run(tool("ar"), "rcs", "libvisit.a", "visit.o", "wave.o", folder=folder)
    run(tool("ar"), "rcsT", "libgreet.a", "greet.o", folder=folder)
    inputs: list[Path | str] = ["main.o", "libplums.a", "-lvisit", "libgreet.a", folder / "sampler.o"]
    return program, inputs, ["-Wl,--icf=all", "-L."]


def code_bytes(image: Path) -> int:
    with Image.open(image) as file:
        return sum(section.size_bytes for section in file.sections if section.name == ".text")


@LINKERS
def test_every_frame_has_one_name(workshop: Workshop) -> None:
    program, inputs, options = market(workshop)
    folded_bytes, unfolded_bytes = code_bytes(program.folded), code_bytes(program.unfolded)
    first = workshop.link_with_pass(program, inputs, *options, wishes=DISTINCT)
    assert first.returncode == 0, first.stderr
    # 2 of 3 that are opened; 4 of 5 that are chosen; what closes stalls differs by what it counts
    said = re.search(r"(\d+) functions stay apart \((\d+) links\): .* ([\d,]+) are given back", first.stderr)
    assert said is not None and int(said[2]) in (2, 3), first.stderr
    assert "together" not in first.stderr and "icf-distinct-" not in first.stderr + first.stdout
    verdicts = {name: found for name, found in program.check().items() if name.startswith("_Z")}  # not the sampler's
    assert len(verdicts) >= 10 and all(verdict <= {"unique", "unmerged"} for verdict in verdicts.values()), verdicts
    assert program.merged()  # what is called directly is as folded as before
    assert folded_bytes < code_bytes(program.folded) < unfolded_bytes

    listed = json.loads((workshop.folder / "program.distinct").read_text())["functions"]
    assert len(listed) == int(said[1])
    names = {Path(name).name for name, *_ in listed}
    assert names <= {"main.o", "libplums.a(plums.o)", "libvisit.a(visit.o)", "libvisit.a(wave.o)", "greet.o"} | {
        name for name in names if "greet" in name
    }
    content = program.folded.read_bytes()
    again = workshop.link_with_pass(program, inputs, *options, wishes=DISTINCT)
    assert again.returncode == 0 and "(1 link)" in again.stderr
    assert program.folded.read_bytes() == content


@pytest.mark.parametrize("toolchain", [GOLD, MOLD, LLD_ALONE], ids=str, indirect=True)
def test_functions_that_are_one_section_stay_together(workshop: Workshop) -> None:
    fruit = """
        extern int total;
        extern "C" NOINLINE void apples(int n) { SAMPLE(); total += n; }
        extern "C" void red_apples(int) __attribute__((alias("apples")));
        extern "C" NOINLINE void pears(int n) { SAMPLE(); total += n; }
    """
    main = """
        int total;
        extern "C" void apples(int), red_apples(int), pears(int);
        void (*chosen[])(int) = {apples, red_apples, pears};
        int main() { for (auto function : chosen) function(1); return 0; }
    """
    program = workshop.build({"fruit.cpp": fruit, "main.cpp": main})
    done = workshop.link_with_pass(program, ["fruit.o", "main.o", "sampler.o"], "-Wl,--icf=all", wishes=DISTINCT)
    assert done.returncode == 0, done.stderr
    assert "1 function stays apart (2 links)" in done.stderr
    assert "1 set of functions stays together (one section of one object" in done.stderr
    assert "  apples = red_apples" in done.stderr
    assert program.check()["pears"] == {"unmerged"}


@ONE
def test_a_profile_chooses_what_is_kept_apart(workshop: Workshop) -> None:
    program, inputs, options = market(workshop)
    assert workshop.link_with_pass(program, inputs, *options, wishes=["--strict"]).returncode == 0
    frames = next(frames for frames in program.resolve() if "_ZL4handi" in frames[1]["candidates"])
    profile = workshop.folder / "stacks"
    profile.write_text(" ".join(frame["address"] or "?" for frame in frames) + "\n")
    done = workshop.link_with_pass(program, inputs, *options, wishes=["--strict", f"--distinct={profile}"])
    assert done.returncode == 0 and "3 functions stay apart (2 links)" in done.stderr, done.stderr
    listed = json.loads((workshop.folder / "program.distinct").read_text())["functions"]
    assert {symbol for _, symbol, *_ in listed} <= {"_ZL4ripei", "_ZL5greeni", "_ZL4handi"}

    done = workshop.link_with_pass(program, inputs, *options, wishes=["--strict", "--distinct=none"])
    assert done.returncode == 1 and "none" in done.stderr and "Traceback" not in done.stderr


@ONE
def test_a_list_is_never_taken_for_true(workshop: Workshop) -> None:
    program, inputs, options = market(workshop)
    kept = workshop.folder / "program.distinct"
    assert workshop.link_with_pass(program, inputs, *options, wishes=DISTINCT).returncode == 0
    good, image = kept.read_bytes(), program.folded.read_bytes()
    rows = json.loads(good)
    stale = [["main.o", "_Z4gonev", 8, ""], ["gone.o", "_Z4gonev", 8, ""], ["libvisit.a(gone.o)", "_Z4gonev", 8, ""]]
    for content in (b"{", b"", b'{"version": 1}', json.dumps(rows | {"functions": stale}).encode()):
        kept.write_bytes(content)
        done = workshop.link_with_pass(program, inputs, *options, wishes=DISTINCT)
        assert done.returncode == 0 and "(2 links)" in done.stderr, done.stderr
        assert kept.read_bytes() == good and program.folded.read_bytes() == image


@ONE
def test_a_link_that_fails_fails_as_it_is(workshop: Workshop) -> None:
    program, inputs, options = market(workshop)
    assert workshop.link_with_pass(program, inputs, *options, wishes=DISTINCT).returncode == 0
    plain = workshop.link_with_pass(program, [*inputs[:-1], "none.o"], *options)
    done = workshop.link_with_pass(program, [*inputs[:-1], "none.o"], *options, wishes=DISTINCT)
    assert done.returncode == plain.returncode != 0
    assert plain.stderr in done.stderr and "Traceback" not in done.stderr


@ONE
def test_names_in_files_are_the_users(workshop: Workshop) -> None:
    program, inputs, options = market(workshop)
    files = ["-Wl,-Map=link.map", "-Wl,--dependency-file=link.d"]
    assert workshop.link_with_pass(program, inputs, *options, *files, wishes=DISTINCT).returncode == 0
    for name in ("link.map", "link.d"):
        text = (workshop.folder / name).read_text()
        assert "main.o" in text and "icf-distinct-" not in text


def test_a_program_for_another_machine(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, Toolchain("clang-aarch64", "lld", ("-static",)))
    program = workshop.build(MARKET)
    objects = [*(tmp_path / f"{Path(name).stem}.o" for name in MARKET), tmp_path / "sampler.o"]
    done = workshop.link_with_pass(program, objects, "-Wl,--icf=all", "-static", wishes=DISTINCT)
    assert done.returncode == 0, done.stderr
    verdicts = {name: found for name, found in program.check().items() if name.startswith("_Z")}
    assert all(verdict <= {"unique", "unmerged"} for verdict in verdicts.values()), verdicts
