"""Functions that are folded into a weak definition which another definition has replaced, so that it has no symbol."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.program import Program, icf
from tests.e2e.workshop import GCC_MOLD, GOLD, LLD_ALONE, MOLD, Toolchain, Workshop

CLANG_GOLD = Toolchain("clang", "gold")
GCC_LLD = Toolchain("gcc", "lld")
SOME = [GOLD, CLANG_GOLD, GCC_LLD, MOLD]
LOSES = {
    "a.cpp": """
    extern volatile int total;
    static NOINLINE void leaf() { SAMPLE(); total += 1; }
    __attribute__((weak)) NOINLINE void pick() { leaf(); total += 3; }

    namespace { NOINLINE void mine() { leaf(); total += 3; } }
    void ea() { mine(); total += 2; }
    """,
    "b.cpp": """
    extern volatile int total;
    NOINLINE void pick() { SAMPLE(); total += 2; }
    void eb() { pick(); total += 3; }
    """,
    "main.cpp": """
    volatile int total;
    void ea(), eb();
    int main() { ea(); total += 1; eb(); total += 2; return 0; }
    """,
}
STACKS = ["-Os", "-fno-omit-frame-pointer"]


def build(workshop: Workshop, flags: list[str], evidence: str, *, is_last: bool) -> Program:
    """A program whose kept copy of the code is from a.cpp, behind or before all other code."""
    objects = workshop.compile(LOSES, *STACKS, *flags)
    return linked(workshop, [objects[1], objects[0], *objects[2:]] if is_last else objects, evidence)


def linked(workshop: Workshop, objects: list[Path], evidence: str) -> Program:
    objects = [*objects, workshop.sampler()]
    program = workshop.program(objects)
    if evidence == "link":
        done = workshop.link_with_pass(program, objects, *workshop.toolchain.link_flags, "-Wl,--icf=all")
        assert done.returncode == 0, done.stderr
    elif evidence == "pass":
        program.add_tables(*workshop.pass_options(program))
    return program


@pytest.mark.parametrize("toolchain", [GOLD, CLANG_GOLD, LLD_ALONE, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize(("flags", "is_last"), [("-g1", True), ("-g0 -fno-asynchronous-unwind-tables", False)])
@pytest.mark.parametrize("evidence", ["none", "link"])
def test_code_that_has_lost_its_symbol_is_not_the_previous_functions(
    workshop: Workshop, flags: str, evidence: str, is_last: bool
) -> None:
    """It follows `frame_dummy` of the C runtime, whose symbol has no size, if a.o comes first."""
    program = build(workshop, flags.split(), evidence, is_last=is_last)
    program.check_names()
    for stack in program.stacks():
        inside = [f"{int(frame, 16) - 1:#x}" for frame in stack.split()[1:] if frame != "?"]
        assert "frame_dummy" not in icf("symbolize", "-e", program.folded, *inside)


# the linker folds both into the definition that lost; its report names that one, whose symbol is elsewhere
KEPT = {
    **LOSES,
    "a.cpp": LOSES["a.cpp"].replace(
        "void ea() { mine();",
        "NOINLINE void other() { leaf(); total += 3; } void ea() { mine(); total += 1; other();",
    ),
}


@pytest.mark.parametrize("toolchain", [GOLD, CLANG_GOLD, GCC_LLD, MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_a_report_of_a_definition_that_lost(workshop: Workshop, level: str) -> None:
    program = workshop.program([*workshop.compile(KEPT, *STACKS, level), workshop.sampler()])
    program.add_tables("--icf-report", program.report)
    program.check()
    frames = [stack[2] for stack in program.resolve()[:2]]
    if level == "-g":
        assert [frame["name"] for frame in frames] == ["(anonymous namespace)::mine()", "other()"]
    else:
        assert {*frames[0]["candidate_names"]} >= {"(anonymous namespace)::mine()", "other()"}


@pytest.mark.parametrize("toolchain", SOME, ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g", "-g1"])
@pytest.mark.parametrize("evidence", ["none", "pass", "link"])
def test_a_function_has_no_lines_of_the_definition_that_it_is_folded_with(
    workshop: Workshop, level: str, evidence: str
) -> None:
    program = build(workshop, [level], evidence, is_last=False)
    found = lines_of(program, "_ZN12_GLOBAL__N_14mineEv")
    assert found <= {("a.cpp", 6), None}
    if (workshop.toolchain, evidence) == (GCC_LLD, "none"):
        assert found == {("a.cpp", 6)}


ELSEWHERE = {
    "a.cpp": """
    extern volatile int total;
    void leaf() { SAMPLE(); total += 1; }
    LINKAGE __attribute__((weak)) NOINLINE void pick() { leaf(); total += 3; }
    """,
    "c.cpp": """
    extern volatile int total;
    void leaf();

    namespace { NOINLINE void mine() { leaf(); total += 3; } }
    void ea() { mine(); total += 2; }
    """,
    "b.cpp": LOSES["b.cpp"].replace("NOINLINE void pick", "LINKAGE NOINLINE void pick"),
    "main.cpp": LOSES["main.cpp"],
}


@pytest.mark.parametrize("toolchain", SOME, ids=str, indirect=True)
@pytest.mark.parametrize(("linkage", "level"), [("", "-g0"), ("", "-g"), ('extern "C"', "-g")])
@pytest.mark.parametrize("evidence", ["none", "pass", "link"])
def test_a_definition_that_lost_describes_no_function_of_another_unit(
    workshop: Workshop, linkage: str, level: str, evidence: str
) -> None:
    """The linker keeps its code."""
    sources = {name: text.replace("LINKAGE", linkage) for name, text in ELSEWHERE.items()}
    mine = sources.pop("c.cpp")
    objects = workshop.compile(sources, *STACKS)
    objects[1:1] = workshop.compile({"c.cpp": mine}, *STACKS, level)
    program = linked(workshop, objects, evidence)
    if (workshop.toolchain, evidence, level) != (GOLD, "pass", "-g"):  # whose image has the source name of `mine` alone
        program.check_names()
    assert lines_of(program, "_ZN12_GLOBAL__N_14mineEv") <= {("c.cpp", 5), None}
    assert lines_of(program, "_Z2ebv") <= {("b.cpp", 4), None}


def lines_of(program: Program, function: str) -> set[tuple[str, int] | None]:
    """The files and lines that frames of a function have, None where they have none."""
    return {
        (Path(frame["file"]).name, frame["line"]) if frame["file"] else None
        for frames, truths in zip(program.resolve(), program.truth(), strict=True)
        for frame, truth in zip(frames, truths, strict=True)
        if function in truth
    }


TWICE = {
    "a.cpp": """
    extern volatile int total;
    __attribute__((weak)) NOINLINE void pick() { SAMPLE(); total += 3; }
    void ea() { pick(); total += 2; }
    """,
    "b.cpp": """
    extern volatile int total;

    __attribute__((weak)) NOINLINE void pick() { SAMPLE(); total += 3; }
    void eb() { pick(); total += 3; }
    """,
}


@pytest.mark.parametrize("toolchain", [LLD_ALONE, GCC_LLD, MOLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_a_function_has_no_lines_of_the_equal_definition_that_lost(workshop: Workshop, level: str) -> None:
    linked_first = workshop.compile({"a.cpp": TWICE["a.cpp"]}, *STACKS, level)
    others = workshop.compile({"b.cpp": TWICE["b.cpp"], "main.cpp": LOSES["main.cpp"]}, *STACKS)
    program = linked(workshop, [*linked_first, *others], "link")
    assert lines_of(program, "_Z4pickv") == {("a.cpp", 3) if level == "-g" else None}
    assert lines_of(program, "_Z2ebv") == {("b.cpp", 5)}


CLONES = """
    extern volatile int total;
    volatile int total;
    static NOINLINE void done(int n) { SAMPLE(); total += n; }
    static inline __attribute__((always_inline)) void red(int n) { done(n); total += 1; }
    static inline __attribute__((always_inline)) void blue(int n) { done(n); total += 1; }
    static NOINLINE void with(void (*f)(int), int n) { f(n); total += 1; }
    NOINLINE void enter(int n) { with(red, n); total += 1; with(blue, n); total += 2; }
    int main(int n, char **) { enter(n); return 0; }
"""


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["none", "pass", "link"])
def test_what_is_inlined_in_one_clone_is_not_said_of_another(workshop: Workshop, evidence: str) -> None:
    """gcc clones `with` for `red` and for `blue`; gold drops the symbol of one of both, not its description."""
    objects = workshop.compile({"main.cpp": CLONES}, "-O3", "-fno-ipa-icf")
    program = linked(workshop, objects, evidence)
    assert b"_ZL4withPFviEi.constprop.1" in objects[0].read_bytes()
    inlined = [{each["name"] for frame in stack for each in frame["inlines"]} for stack in program.resolve()]
    assert len(inlined) == 2
    assert "blue" not in "".join(inlined[0]) and "red" not in "".join(inlined[1])


UNIT = """
    extern volatile int total;
    %(lines)s
    inline NOINLINE int help(int *p, int n) { SAMPLE(); total += *p; return total; }
    inline NOINLINE int aid(int *p, int n) { SAMPLE(); total += *p + %(aid)d; return total; }
    int %(name)s(int n) { return %(how)s; }
"""
UNITS = {
    "a.cpp": UNIT % {"name": "ea", "lines": "", "aid": 0, "how": "help(&n, 7) + aid(&n, 7)"},
    "b.cpp": UNIT % {"name": "eb", "lines": "\n\n", "aid": 0, "how": "aid(&n, 7) + 3 * help(&n, 7)"},
    "main.cpp": "volatile int total; int ea(int), eb(int); int main(int n, char **) { return ea(n) == eb(n); }",
}
ALONE = {name: text.replace("*p + 0", "*p + 1") for name, text in UNITS.items()}


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("sources", [UNITS, ALONE], ids=["merged", "alone"])
def test_a_clone_has_no_line_where_units_have_its_function_from_different_lines(
    workshop: Workshop, sources: dict[str, str]
) -> None:
    program = linked(workshop, workshop.compile(sources, "-fno-ipa-icf"), "link")
    assert b"_Z4helpPii.isra.0" in program.folded.read_bytes()
    program.check()
    assert lines_of(program, "_Z4helpPii") == {None}
