"""Other ways to build than `-O2 -g`: debug levels, LTO, no optimisation, another machine."""

from __future__ import annotations

import pytest

from tests.e2e.dumps import classes
from tests.e2e.program import Program
from tests.e2e.workshop import AARCH64_MOLD, GCC_MOLD, GOLD, LLD, LLD_ALONE, MOLD, Toolchain, Workshop

# callers that fold, of callees that fold, in two files that look alike
FRUIT = {
    "apples.cpp": """
        extern int total;
        NOINLINE void wash_apples() { SAMPLE(); ++total; }
        NOINLINE void apples() { wash_apples(); ++total; }
    """,
    "pears.cpp": """
        extern int total;
        NOINLINE void wash_pears() { SAMPLE(); ++total; }
        NOINLINE void pears() { wash_pears(); ++total; }
    """,
    "main.cpp": """
        int total;
        void apples(); void pears(); void wash_pears();
        int main() { apples(); pears(); wash_pears(); apples(); return total != 7; }
    """,
}
FRUITS = ("_Z6applesv", "_Z5pearsv", "_Z11wash_applesv", "_Z10wash_pearsv")


def assert_all_named(program: Program) -> None:
    assert len(program.merged()) == 4
    verdicts = program.check()
    assert {name: verdicts[name] for name in FRUITS} == dict.fromkeys(FRUITS, {"unique"})


def toolchains(*chosen: Toolchain) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("toolchain", chosen, ids=str, indirect=True)


gold = toolchains(GOLD)

# clean-up code of both goes to `.cold` parts, which fold; what is left of the two differs
CLEAN_UP = """
    int total;
    struct Crate { NOINLINE ~Crate() { SAMPLE(); ++total; } };
    NOINLINE void apples(int n) { Crate crate; if (n) throw n; total += 3; }
    NOINLINE void pears(int n) { Crate crate; if (n) throw n; total += 4; }
    int main() {
        try { apples(1); } catch (int) { total += 5; }
        try { pears(2); } catch (int) { total += 6; }
        return 0;
    }
"""


@gold
@pytest.mark.parametrize("debug", ["-g", "-g1"])
def test_a_folded_cold_part_is_found_by_debug_information(workshop: Workshop, debug: str) -> None:
    program = workshop.build_with_tables(CLEAN_UP, flags=[debug])
    assert program.merged() == {frozenset({"_Z6applesi"}), frozenset({"_Z5pearsi"})}
    verdicts = program.check()
    assert "unmerged" not in verdicts["_Z6applesi"] | verdicts["_Z5pearsi"]


@gold
def test_where_a_cold_part_may_have_vanished_nothing_is_claimed(workshop: Workshop) -> None:
    program = workshop.build_with_tables(CLEAN_UP, flags=["-g0"])
    assert len(program.merged()) == 2
    parts = [frame for frames in program.resolve() for frame in frames if "_Z6applesi.cold" in frame["candidates"]]
    assert [part["verdict"] for part in parts] == ["ambiguous", "ambiguous"]


# with -g1 both functions are `grow`; lld keeps the first, whose symbol comes second
BOX = """
    static inline int plus(int a, int b) { volatile int sum = a; return sum + b; }
    template <class T> struct Box { int grow(int n); };
    template <class T> NOINLINE int Box<T>::grow(int n) { SAMPLE(); return plus(n, 1); }
    struct Apple;
    struct Pear;
    int eat(int n);
"""
BOXES = {
    "main.cpp": f"""{BOX}
        extern template struct Box<Pear>;
        extern template struct Box<Apple>;
        int main(int argc, char **) {{ return Box<Pear>().grow(argc) + eat(argc) + Box<Apple>().grow(argc) == 0; }}
    """,
    "boxes.cpp": f"""{BOX}
        template struct Box<Apple>;
        template struct Box<Pear>;
        NOINLINE int eat(int n) {{ return plus(Box<Apple>().grow(n), 7) + Box<Pear>().grow(n); }}
    """,
}


@toolchains(LLD_ALONE)
def test_debug_information_that_fits_several_symbols_names_none(workshop: Workshop) -> None:
    verdicts = workshop.build_with_tables(BOXES, flags=["-g1"]).check()
    assert verdicts["_ZN3BoxI5AppleE4growEi"] == verdicts["_ZN3BoxI4PearE4growEi"] == {"ambiguous"}


@toolchains(GOLD, LLD_ALONE)
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_a_local_function_that_calls_itself_needs_no_relocation(workshop: Workshop, debug: str) -> None:
    program = workshop.build(
        """
        int total;
        static NOINLINE void apples(int depth) { if (depth) apples(depth - 1); else SAMPLE(); total += depth; }
        static NOINLINE void pears(int depth) { if (depth) pears(depth - 1); else SAMPLE(); total += depth; }
        int main(int argc, char **) { apples(argc + 2); pears(argc + 2); return 0; }
        """,
        flags=[debug],
    )
    assert program.merged() == {frozenset({"_ZL6applesi"}), frozenset({"_ZL5pearsi"})}
    program.add_tables("--icf-report", program.report, "--objects", workshop.folder / "main.o")
    verdicts = program.check()
    assert verdicts["_ZL6applesi"] == verdicts["_ZL5pearsi"] == {"unique"}


@toolchains(GOLD, LLD_ALONE, MOLD)
@pytest.mark.parametrize("flags", [["-g0"], ["-g1"], ["-O0"]], ids=str)
def test_objects_tell_what_debug_information_does_not(workshop: Workshop, flags: list[str]) -> None:
    program = workshop.build(FRUIT, flags)
    objects = sorted(workshop.folder.glob("*.o"))
    program.add_tables(*workshop.pass_options(program), "--objects", *objects)
    assert_all_named(program)


@pytest.mark.parametrize(
    ("toolchain", "lto"),
    [(LLD_ALONE, "-flto=thin"), (LLD, "-flto=thin"), (GOLD, "-flto"), (GCC_MOLD, "-flto")],
    ids=lambda value: str(value),
    indirect=["toolchain"],
)
def test_link_time_optimisation_leaves_debug_information(workshop: Workshop, lto: str) -> None:
    assert_all_named(workshop.build_with_tables(FRUIT, [lto], [lto, "-O2", "-g", "-ffunction-sections"]))


@toolchains(GOLD, GCC_MOLD)
def test_what_gcc_compiles_in_link_time_optimisation_are_all_objects(workshop: Workshop) -> None:
    # those with the debug information of each source have no code
    program = workshop.build(FRUIT, ["-flto", "-g"], ["-flto", "-O2", "-ffunction-sections", "-save-temps"])
    objects = [*workshop.folder.glob("program.ltrans*.ltrans.o"), workshop.folder / "sampler.o"]
    assert len(objects) > 1
    program.add_tables("--objects", *objects)
    assert_all_named(program)


@pytest.mark.parametrize(
    ("toolchain", "lto"),
    [(LLD_ALONE, "-flto=thin"), (GOLD, "-flto"), (GCC_MOLD, "-flto"), (MOLD, "-flto")],
    ids=lambda value: str(value),
    indirect=["toolchain"],
)
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_icf_link_where_the_objects_are_gone_when_the_link_is_over(workshop: Workshop, lto: str, debug: str) -> None:
    program = workshop.build(FRUIT, [lto, debug], [lto, "-O2", debug, "-ffunction-sections"])
    objects = [*(workshop.folder / source.replace(".cpp", ".o") for source in FRUIT), workshop.folder / "sampler.o"]
    done = workshop.link_with_pass(program, objects, lto, "-O2", debug, "-ffunction-sections", "-Wl,--icf=all")
    assert done.returncode == 0
    assert "icf" not in done.stderr
    assert done.stdout == ""
    assert_all_named(program)


@toolchains(LLD)
def test_what_full_link_time_optimisation_makes_local_may_have_no_name(workshop: Workshop) -> None:
    # a relocation then names a section, and clang describes a callee of another unit by an empty DIE
    program = workshop.build_with_tables(FRUIT, ["-flto"], ["-flto", "-O2", "-g"])
    verdicts = program.check()
    assert not {"unmerged", "contradicted"} & set().union(*(verdicts[name] for name in FRUITS))


@toolchains(AARCH64_MOLD)
def test_thunks_that_the_linker_makes_are_missed_in_no_object(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    assert b"$thunk" in program.folded.read_bytes()
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    merged = [{member["linkage_name"] for member in found["members"]} for found in classes(program)]
    assert sorted(merged, key=sorted) == [{"_Z10wash_pearsv", "_Z11wash_applesv"}, {"_Z5pearsv", "_Z6applesv"}]
