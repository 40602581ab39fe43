"""Functions of one name in several units that call different ones: what is known of one is not said of the other.

Their source files have one name, too (`a/unit.cpp` and `b/unit.cpp`), or they are clones that gcc has made of an inline
function for certain arguments, which each unit has for itself. In C a local function may have the name of a global one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.e2e.workshop import GCC_MOLD, GOLD, LLD, LLD_ALONE, MOLD, Toolchain, Workshop
from tests.support.toolchain import run, tool

CLANG_GOLD = Toolchain("clang", "gold")
GCC_LLD = Toolchain("gcc", "lld")
GCC_LLDR = Toolchain("gcc", "lld", ("-Wl,--emit-relocs",))
LEAVES = """
    extern volatile int total;
    NOINLINE void red(int n) { SAMPLE(); total += n; }
    NOINLINE void blue(int n) { SAMPLE(); total += n; }
    NOINLINE void green(int n) { SAMPLE(); total += n; }
"""
USES = "extern volatile int total; void red(int), blue(int), green(int); "


def main_of(*entries: str) -> str:
    calls = " ".join(f"{entry}(n); total += 1;" for entry in entries)
    declared = " ".join(f"void {entry}(int);" for entry in entries)
    return f"volatile int total; {declared} {LEAVES} int main(int n, char **) {{ {calls} return 0; }}"


def built(
    workshop: Workshop, sources: Mapping[str, str], main: str, flags: Sequence[str]
) -> tuple[Program, list[Path]]:
    """A program of sources, each under its name without the part before `_`."""
    objects = []
    for name, source in sources.items():
        (made,) = workshop.compile({name.rpartition("_")[2]: source}, *flags)
        objects.append(made.rename(workshop.folder / f"{name}.o"))
    objects += workshop.compile({"main.cpp": main}, *flags)
    objects.append(workshop.sampler())
    folded, report = workshop.link("program", objects, "all")
    unfolded, _ = workshop.link("program.unfolded", objects, "none")
    return Program(folded, unfolded, report), objects


def add_tables(workshop: Workshop, evidence: str, program: Program, objects: Sequence[Path]) -> None:
    if evidence == "link":
        done = workshop.link_with_pass(program, objects, *workshop.toolchain.link_flags, "-Wl,--icf=all")
        assert done.returncode == 0, done.stderr
    else:
        program.add_tables(*(("--icf-report", program.report) if evidence == "report" else ()))


def unit(text: str, **words: str) -> str:
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return USES + text


STEP = "namespace { NOINLINE void step(int n) { CALL(n); total += 1; } } void ENTRY(int n) { step(n); total += 1; }"
TWO_FILES = {
    "a_unit.cpp": unit(STEP, CALL="red", ENTRY="ea"),
    "b_unit.cpp": unit(STEP, CALL="blue", ENTRY="eb"),
}


@pytest.mark.parametrize("toolchain", [LLD, LLD_ALONE, GCC_LLD, GCC_LLDR, GOLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["image", "report", "link"])
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_two_local_symbols_of_one_name_and_file_are_two_functions(
    workshop: Workshop, evidence: str, level: str
) -> None:
    if (workshop.toolchain.linker, evidence) == ("mold", "image"):
        pytest.skip("mold's image is not enough")
    program, objects = built(workshop, TWO_FILES, main_of("ea", "eb"), [level])
    if evidence == "link" and workshop.toolchain == LLD:
        pytest.skip("the objects are enough")
    add_tables(workshop, evidence, program, objects)
    program.check()


HOPS = {
    "a_unit.cpp": unit("""
        static NOINLINE void hop(int n) { red(n); total += 2; total += 3; }
        namespace { NOINLINE void step(int n) { hop(n); total += 1; } }
        void ea(int n) { step(n); total += 1; hop(n); total += 1; }
    """),
    "b_unit.cpp": unit("""
        namespace { NOINLINE void step(int n) { blue(n); total += 1; } }
        static NOINLINE void twin(int n) { red(n); total += 1; }
        void eb(int n) { twin(n); total += 1; step(n); total += 1; }
    """),
    "c_unit.cpp": unit("""
        static NOINLINE void hop(int n) { red(n); total += 2; total += 3; }
        void ec(int n) { hop(n); total += 1; hop(n + 1); total += 1; }
    """),
}


@pytest.mark.parametrize("toolchain", [GOLD, GCC_MOLD, GCC_LLD], ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_what_an_object_says_of_one_function_makes_no_member_of_another(workshop: Workshop, level: str) -> None:
    """The code of both `step` is the same; that of b.o, in a body of its own, calls `blue`."""
    program, objects = built(workshop, HOPS, main_of("ea", "eb", "ec"), [level])
    add_tables(workshop, "link", program, objects)
    found = program.check()
    assert found["_ZL3hopi"] <= {"unique", "ambiguous"}  # whose it is, a's or c's, is not always known
    for frame in chain(*program.resolve()):
        assert not {"_ZL3hopi", "hop"} & set(frame["candidates"]) or "_Z4bluei" not in frame["candidates"]


BAR = """
    inline NOINLINE void bar(int k, int n) {
      if (k == 3) red(n); else if (k == 7) blue(n); else green(n);
      total += 1;
    }
    void ENTRY(int n) { bar(K, n); total += 1; bar(K, n + 2); total += 1; }
"""
CLONES = {"a.cpp": unit(BAR, ENTRY="ea", K="3"), "b.cpp": unit(BAR, ENTRY="eb", K="7")}


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, GCC_LLDR, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["image", "report", "link"])
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_clones_for_other_arguments_call_others(workshop: Workshop, evidence: str, level: str) -> None:
    if (workshop.toolchain.linker, evidence) == ("mold", "image"):
        pytest.skip("mold's image is not enough")
    program, objects = built(workshop, CLONES, main_of("ea", "eb"), [level, "-O3"])
    assert b"_Z3barii.constprop.0" in program.folded.read_bytes()
    add_tables(workshop, evidence, program, objects)
    found = program.check()
    if workshop.toolchain == GCC_LLD and level == "-g":
        assert (found["_Z3redi"], found["_Z4bluei"]) == ({"unique"}, {"unique"})


DRIVE = """
    struct ops { void (*open)(int); long (*sum)(int, long, long); void (*close)(int); };
    static NOINLINE void open_a(int n) { red(n); total += 1; }
    static NOINLINE void open_b(int n) { blue(n); total += 1; }
    static NOINLINE long sum_a(int n, long a, long b) { total += n; return a + b; }
    static NOINLINE void close_a(int n) { green(n); total += 1; }
    static const ops a = {open_a, sum_a, close_a}, b = {open_b, sum_a, close_a};
    static NOINLINE void drive(const ops *o) { o->open(1); total += 1; o->sum(2, 3l, 4l); o->close(2); }
    static NOINLINE void again(const ops *o) { o->open(1); total += 1; o->sum(2, 3l, 4l); o->close(2); }
    void ea(int) { drive(&a); again(&a); drive(&b); again(&b); total += 1; }
"""


@pytest.mark.parametrize("toolchain", [LLD, LLD_ALONE, CLANG_GOLD, MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["image", "report", "link"])
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_clones_of_clang_for_functions_that_are_passed(workshop: Workshop, evidence: str, level: str) -> None:
    """`drive.specialized.1` calls `open_a`, and `drive.specialized.2`, which DWARF calls `drive` as well, `open_b`."""
    if (workshop.toolchain.linker, evidence) == ("mold", "image"):
        pytest.skip("mold's image is not enough")
    program, objects = built(workshop, {"a.cpp": unit(DRIVE)}, main_of("ea"), [level])
    if b".specialized.2" not in objects[0].read_bytes():
        pytest.skip("this clang makes no such clones")
    if evidence == "link" and workshop.toolchain == LLD:
        pytest.skip("the objects are enough")
    add_tables(workshop, evidence, program, objects)
    if (workshop.toolchain.linker, evidence, level) == ("gold", "image", "-g0"):
        program.check_names()  # gold left no trace of some
    else:
        program.check()


METHOD = """
    namespace { struct C { static NOINLINE void s(int n) { FIRST(n); total += 1; SECOND(n); total += 1; } }; }
    static NOINLINE void s(int n) { C::s(n); total += 1; }
    void ENTRY(int n) { s(n); total += PLUS; }
"""
METHODS = {
    "a.cpp": unit(METHOD, FIRST="red", SECOND="red", ENTRY="ea", PLUS="1"),
    "b.cpp": unit("""
        namespace { NOINLINE void s(int n) { red(n); total += 1; blue(n); total += 1; } }
        void eb(int n) { s(n); total += 2; }
    """),
    "c.cpp": unit(METHOD, FIRST="green", SECOND="blue", ENTRY="ec", PLUS="3"),
}


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["report", "link"])
def test_a_reported_local_function_is_of_one_unit(workshop: Workshop, evidence: str) -> None:
    """gcc describes both `s` of b.cpp and the method of c.cpp as `s`; a report does not tell whose it has folded."""
    program, objects = built(workshop, METHODS, main_of("ea", "eb", "ec"), [])
    add_tables(workshop, evidence, program, objects)
    program.check()


INIT = """
    extern volatile int total; void red(int), blue(int);
    LINKAGE NOINLINE void init(int n) { CALL(n); total += 1; }
    void ENTRY(int n) { init(n); total += PLUS; init(n + 1); total += 1; }
"""


@pytest.mark.parametrize("toolchain", [GOLD, LLD, GCC_LLD, GCC_LLDR, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["image", "report", "link"])
@pytest.mark.parametrize(
    ("linkages", "levels"),
    [
        (("", "static"), ("-g", "-g")),
        (("", "static"), ("-g0", "-g")),
        (("static", ""), ("-g", "-g0")),
        (("static", ""), ("-g1", "-g1")),
        (("static", "static"), ("-g", "-g")),
        (("static", "static"), ("-g", "-g0")),
        (("static", "static"), ("-g0", "-g")),
    ],
    ids=str,
)
def test_functions_of_c_with_one_name(
    workshop: Workshop, evidence: str, linkages: tuple[str, str], levels: tuple[str, str]
) -> None:
    """The linker keeps the first one; its unit may be the one that has no debug information."""
    if (workshop.toolchain.linker, evidence) == ("mold", "image"):
        pytest.skip("mold's image is not enough")
    objects = []
    for at, (file, call, linkage, level) in enumerate(zip("ab", ("red", "blue"), linkages, levels, strict=True)):
        words = {"CALL": call, "ENTRY": f"e{file}", "LINKAGE": linkage, "PLUS": str(at + 1)}
        text = INIT
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        objects += workshop.compile({f"{file}.c": text}, "-x", "c", level)
    leaves = LEAVES.replace("NOINLINE void", 'extern "C" NOINLINE void')
    main = f'volatile int total; extern "C" {{ void ea(int), eb(int); }} {leaves}'
    main += "int main(int n, char **) { ea(n); total += 1; eb(n); total += 1; return 0; }"
    objects += [*workshop.compile({"main.cpp": main}), workshop.sampler()]
    program = workshop.program(objects)
    add_tables(workshop, evidence, program, objects)
    found = program.check()
    for stack, truths in zip(program.resolve(), program.truth(), strict=True):
        unit = "a" if any("red" in (truth or ()) for truth in truths) else "b"
        for frame in stack:  # a function without debug information has no line, not one of its namesake
            assert frame["name"] != "init" or not frame["file"] or Path(frame["file"]).stem == unit
    if evidence == "link" and levels == ("-g", "-g"):
        assert (found["red"], found["blue"]) == ({"unique"}, {"unique"})


CLONE = """
    extern volatile int total;
    extern char arena[];
    #define NOCLONE __attribute__((noclone))
    namespace { NOCLONE NOINLINE void LEAF(void *p) { asm volatile("" :: "r"(p)); SAMPLE(); total += 1; } }
    static NOINLINE void step(void *) { LEAF(arena); total += 2; LEAF(arena); total += 3; }
    void ENTRY(int) { step(arena); total += PLUS; }
"""
AS_IT_IS = ("-fno-ipa-icf", "-fno-ipa-cp", "-fno-ipa-sra")


@pytest.mark.parametrize("toolchain", [GOLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["report", "link"])
@pytest.mark.parametrize("levels", [("-g", "-g0"), ("-g0", "-g0")], ids=str)
@pytest.mark.parametrize("name", ["unit.cpp", "other.cpp"])
def test_a_clone_is_not_of_a_function_of_that_name_in_another_object(
    workshop: Workshop, evidence: str, levels: tuple[str, str], name: str
) -> None:
    """`step.constprop.0` of one object calls `red`, `step` of the other `blue`; their code is the same."""
    first, second = (
        CLONE.replace("LEAF", leaf).replace("ENTRY", entry).replace("PLUS", plus)
        for leaf, entry, plus in (("red", "ea", "4"), ("blue", "eb", "5"))
    )
    (clone,) = workshop.compile({"unit.cpp": first}, "-fno-ipa-icf", levels[0])
    clone = clone.rename(workshop.folder / "clone.o")
    (plain,) = workshop.compile({name: second}, *AS_IT_IS, levels[1])
    main = main_of("ea", "eb").replace(LEAVES, "char arena[9];")
    objects = [clone, plain, *workshop.compile({"main.cpp": main}), workshop.sampler()]
    program = workshop.program(objects)
    assert b"_ZL4stepPv.constprop.0" in clone.read_bytes()
    add_tables(workshop, evidence, program, objects)
    program.check()


STEPS = {
    "a.cpp": """
        namespace in_a { static NOINLINE void run(int n) { asm volatile("" :: "r"(n)); SAMPLE(); total += 1; } }
        static NOINLINE void step(int n) { asm volatile("" :: "r"(n)); SAMPLE(); total += 1; }
        void ea(int n) { step(n); total += 1; in_a::run(n); total += 2; }
    """,
    "b.cpp": """
        namespace in_b { static NOINLINE void run(int n) { asm volatile("" :: "r"(n)); SAMPLE(); total += 2; } }
        static NOINLINE void also(int n) { asm volatile("" :: "r"(n)); SAMPLE(); total += 2; }
        static NOINLINE void step(int n) { asm volatile("" :: "r"(n)); SAMPLE(); total += 2; }
        void eb(int n) { step(n); total += 1; in_b::run(n); total += 2; also(n); total += 3; }
    """,
}


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, GCC_MOLD, CLANG_GOLD, LLD, MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_classes_of_a_report_may_have_kept_functions_of_one_name(workshop: Workshop, level: str) -> None:
    """Both `step` were kept: a report does not tell which of its two classes is at which address."""
    sources = {name: f"extern volatile int total; {text}" for name, text in STEPS.items()}
    flags = ["-fno-ipa-icf"] if workshop.toolchain.compiler == "gcc" else []
    program, objects = built(workshop, sources, main_of("ea", "eb"), [level, *flags])
    add_tables(workshop, "report", program, objects)
    program.check()


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, CLANG_GOLD, MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["report", "link"])
@pytest.mark.parametrize(("level", "stripped"), [("-g", 0), ("-g0", 1)])
def test_an_object_without_local_symbols_has_functions_all_the_same(
    workshop: Workshop, evidence: str, level: str, stripped: int
) -> None:
    """Only the names of its sections show them, in the report; where gold kept them, nothing names the code."""
    objects = []
    for file, leaf in (("a", "red"), ("b", "blue")):
        text = STEP.replace("namespace {", "namespace { NOINLINE void LEAF(int n) { SAMPLE(); total += n; }")
        text = text.replace("LEAF", leaf).replace("CALL", leaf).replace("ENTRY", f"e{file}")
        text = text.replace("step(n); total += 1; }", f"step(n); total += {ord(file)}; }}")  # no one has ea's code
        objects += workshop.compile({f"{file}.cpp": f"extern volatile int total; {text}"}, level)
    run(tool("strip"), "-g", "--strip-unneeded", objects[stripped])
    objects += [*workshop.compile({"main.cpp": main_of("ea", "eb").replace(LEAVES, "")}), workshop.sampler()]
    program = workshop.program(objects)
    add_tables(workshop, evidence, program, objects)
    seen = set()
    for stack in program.resolve():  # in the stripped object the symbols tell no truth
        named = {frame["name"] for frame in stack if frame["name"]}
        may_be = named.union(*(frame["candidate_names"] for frame in stack))
        for entry, other in (("ea(int)", "blue"), ("eb(int)", "red")):
            if entry in may_be or entry.removesuffix("(int)") in may_be:
                seen.add(entry)
                assert not any(other in name for name in named)
    assert seen == {"ea(int)", "eb(int)"}


INLINES = """
    inline NOINLINE void shared(int n) { red(n); total += 1; }
    template <class T> NOINLINE void step(int n) {
      T::go(n);
      total += 3; }
    static NOINLINE void hop(int n) {
      struct Shop { static void go(int n) {
        shared(n); } };
      step<Shop>(n); total += 1; }
    void ENTRY(int n) { hop(n); total += 2; }
"""


@pytest.mark.parametrize("toolchain", [GCC_LLD, GCC_LLDR, GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["none", "image"])
@pytest.mark.parametrize("level", ["-g", "-g1"])
def test_a_function_without_debug_information_has_no_lines_of_its_namesake(
    workshop: Workshop, evidence: str, level: str
) -> None:
    """The linker keeps the code of b/unit.cpp; a/unit.cpp has lines, and inlines `go` into `step`."""
    sources = {"b": (unit(INLINES, ENTRY="eb"), "-g0"), "a": (unit(INLINES, ENTRY="ea"), level)}
    objects = []
    for name, (source, wanted) in sources.items():
        (made,) = workshop.compile({"unit.cpp": source}, "-O3", wanted)
        objects.append(made.rename(workshop.folder / f"{name}.o"))
    objects += [*workshop.compile({"main.cpp": main_of("ea", "eb")}, "-g0"), workshop.sampler()]
    program = workshop.program(objects)
    if evidence != "none":
        add_tables(workshop, evidence, program, objects)
    for frames, truths in zip(program.resolve(), program.truth(), strict=True):
        is_own = any("_Z2eai" in truth for truth in truths)
        for frame, truth in zip(frames, truths, strict=True):
            if any("step" in name or "hop" in name for name in truth) and frame["file"]:
                assert is_own
                assert frame["line"] in {4, 5, 8, 9} and (frame["line"] != 8 or frame["inlines"])


PAIR = """
    extern volatile int total;
    static NOINLINE void FIRST(int n) { SAMPLE(); total += n; }
    static NOINLINE void SECOND(int n) { SAMPLE(); total += n; }
    static NOINLINE void step(int n) { FIRST(n); total += 1; }
    static NOINLINE void hop(int n) { SECOND(n); total += 1; }
    void ENTRY(int n) { step(n); total += PLUS; hop(n); total += 1; }
"""


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, GCC_MOLD, LLD_ALONE], ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_an_object_of_several_objects_has_several_source_files(workshop: Workshop, level: str) -> None:
    """`ld -r` joins a.o and b.o: what it has of a `step` may be of the other one."""
    kinds = (("a", "ra", "ba", "ea", "3"), ("b", "rb", "bb", "eb", "4"))
    sources = {}
    for file, *words in kinds:
        text = PAIR
        for word, meaning in zip(("FIRST", "SECOND", "ENTRY", "PLUS"), words, strict=True):
            text = text.replace(word, meaning)
        sources[f"{file}.cpp"] = text
    flags = AS_IT_IS if workshop.toolchain.compiler == "gcc" else ()
    parts = workshop.compile(sources, level, *flags)
    joined = workshop.folder / "joined.o"
    run(tool("ld"), "-r", "--unique", *parts, "-o", joined)
    main = main_of("ea", "eb").replace(LEAVES, "")
    objects = [joined, *workshop.compile({"main.cpp": main}), workshop.sampler()]
    program = workshop.program(objects)
    add_tables(workshop, "link", program, objects)
    program.check()
