"""Calls through registers that hold the address of one function (-fno-plt): which function a frame is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.e2e.program import Program
from tests.e2e.workshop import AARCH64, AARCH64_GOLD, GOLD, LLD, LLD_ALONE, MOLD, Workshop
from tests.support.icf_command import icf_command
from tests.support.toolchain import run, tool

NOPLT = "-fno-plt"
HEADER = """
    #define BOTH(NAME) void NAME##_apples(int); void NAME##_pears(int);
    extern int total;
    BOTH(wash) BOTH(sort)
    struct Crate { int n; ~Crate(); };
"""
CALLEES = f"""
    {HEADER}
    int total;
    void wash_apples(int n) {{ SAMPLE(); total += n; }}
    void wash_pears(int n) {{ SAMPLE(); total += n; }}
    void sort_apples(int n) {{ SAMPLE(); if (n == 2) throw n; total -= n; }}
    void sort_pears(int n) {{ SAMPLE(); if (n == 2) throw n; total -= n; }}
    Crate::~Crate() {{ SAMPLE(); total += n; }}
"""
# the compiler loads the address of each callee once, before the loop
LOOPS = f"""
    {HEADER}
    #define LOOP(KIND) NOINLINE int loop_##KIND(int n) {{ \\
        for (int i = 0; i < n; i++) {{ wash_##KIND(i); total += 1; wash_##KIND(i + 1); total += i; }} \\
        return n; }}
    LOOP(apples) LOOP(pears)
    int main() {{ return loop_apples(2) + loop_pears(2) - 4; }}
"""
# `changes` and `either` decide at run time, `catches` is entered by exceptions
UNDECIDED = f"""
    {HEADER}
    NOINLINE void either(int n) {{
        for (int i = 0; i < n; i++) {{
            void (*wash)(int) = i & 1 ? wash_apples : wash_pears;
            wash(i); total += 1; wash(i + 1); total += 1;
        }}
    }}
    NOINLINE void changes(int n) {{
        void (*wash)(int) = wash_apples, (*next)(int) = wash_pears;
        for (int i = 0; i < n; i++) {{
            wash(i); total += 1; wash(i + 1); total += 1;
            void (*last)(int) = wash; wash = next; next = last;
        }}
    }}
    NOINLINE void catches(int n) {{
        for (int i = 0; i < n; i++) {{
            try {{ Crate crate{{i}}; sort_apples(i); total += 1; sort_apples(i + 1); total += 1; }}
            catch (int x) {{ wash_apples(x); total += 1; wash_apples(x); }}
            try {{ Crate crate{{i}}; sort_pears(i); total += 1; sort_pears(i + 1); total += 1; }}
            catch (int x) {{ wash_pears(x); total += 1; wash_pears(x); }}
        }}
    }}
    int main() {{ either(3); changes(3); catches(3); return 0; }}
"""
APPLES, PEARS = "_Z11wash_applesi", "_Z10wash_pearsi"
FOUR = (APPLES, PEARS, "_Z11loop_applesi", "_Z10loop_pearsi")


def build(workshop: Workshop, main: str, *flags: str, linked_with_objects: bool) -> Program:
    sources: Mapping[str, str] = {"main.cpp": main, "callees.cpp": CALLEES}
    program = workshop.build(sources, [NOPLT, *flags])
    objects = [workshop.folder / name for name in ("main.o", "callees.o", "sampler.o")]
    if linked_with_objects:
        program.add_tables("--objects", *objects)
    else:
        program.add_tables(*workshop.pass_options(program))
    return program


CLANG_GOLD = replace(GOLD, compiler="clang")
GCC_LLD = replace(LLD, compiler="gcc")
with_objects = pytest.mark.parametrize(
    "toolchain", [CLANG_GOLD, LLD_ALONE, MOLD, GCC_LLD, GOLD], ids=str, indirect=True
)


@with_objects
def test_objects_name_what_each_caller_calls_through_a_register(workshop: Workshop) -> None:
    program = build(workshop, LOOPS, linked_with_objects=True)
    verdicts = program.check()
    assert len(program.merged()) == 4
    assert [verdicts[name] for name in FOUR] == 4 * [{"unique"}]


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_kept_relocations_name_what_the_kept_caller_calls(workshop: Workshop) -> None:
    program = build(workshop, LOOPS, linked_with_objects=False)
    verdicts = program.check()
    assert verdicts["_Z11loop_applesi"] == verdicts["_Z10loop_pearsi"] == {"unique"}
    assert "unique" in verdicts[APPLES]


@pytest.mark.parametrize("toolchain", [CLANG_GOLD, LLD_ALONE, MOLD], ids=str, indirect=True)
def test_without_both_the_names_stay_open(workshop: Workshop) -> None:
    program = build(workshop, LOOPS, linked_with_objects=False)
    verdicts = program.check()
    assert not {"unique"} & (verdicts[APPLES] | verdicts[PEARS])


@pytest.mark.parametrize("flags", [("-O2",), ("-O1",), ("-Os",)], ids=" ".join)
@with_objects
def test_what_the_path_decides_stays_open(workshop: Workshop, flags: tuple[str, ...]) -> None:
    program = build(workshop, UNDECIDED, *flags, linked_with_objects=True)
    verdicts = program.check()  # no name is wrong, and no true name is excluded
    assert "ambiguous" in verdicts[APPLES] | verdicts[PEARS]


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, replace(MOLD, compiler="gcc")], ids=str, indirect=True)
def test_a_cold_part_without_a_symbol_may_come_back(workshop: Workshop) -> None:
    """gcc puts what follows an unlikely condition elsewhere; -x leaves nothing that says where."""
    main = f"""
        {HEADER}
        void slow(int) __attribute__((cold));
        NOINLINE void pick(int n) {{
            void (*wash)(int) = wash_apples;
            if (__builtin_expect(n == 2, 0)) {{ slow(n); total += 7; wash = wash_pears; slow(n + 1); }}
            wash(n); total += 1; wash(n + 1); total += 2;
        }}
        int main() {{ pick(1); pick(2); return 0; }}
    """
    sources = {"main.cpp": main, "callees.cpp": CALLEES + "void slow(int n) { total *= n; }"}
    program = workshop.build(sources, [NOPLT, "-g0", "-fno-ipa-icf"], ["-Wl,-x"])
    program.add_tables("--objects", *(workshop.folder / name for name in ("main.o", "callees.o", "sampler.o")))
    assert program.check()[PEARS] == {"ambiguous"}


@pytest.mark.parametrize("toolchain", [AARCH64, AARCH64_GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("link_flags", [(), ("-Wl,-x",)], ids=["symbols", "no local symbols"])
def test_what_the_outliner_calls_may_change_any_register(workshop: Workshop, link_flags: tuple[str, ...]) -> None:
    """With -Oz clang moves equal code, as loads of addresses, into a function of its own kind."""
    functions = []
    for each in range(8):
        first = "pears" if each == 3 else "plums"
        washed = [f"wash_{first}({100 * each + at});" for at in (1, 2, 3)]
        washed += ["wash_apples(5);", *(f"wash_apples({100 * each + at});" for at in (4, 5))]
        functions.append(f"NOINLINE void all{each}() {{ {' '.join(washed)} total += {100 * each}; }}")
    plums = "void wash_plums(int);"
    main = f"{HEADER} {plums} {' '.join(functions)} int main() {{ {' '.join(f'all{each}();' for each in range(8))} }}"
    callees = f"{CALLEES} {plums} void wash_plums(int n) {{ SAMPLE(); total *= n; }}"
    program = workshop.build({"main.cpp": main, "callees.cpp": callees}, [NOPLT, "-fPIC", "-Oz"], link_flags)
    program.add_tables("--objects", *(workshop.folder / name for name in ("main.o", "callees.o", "sampler.o")))
    listing = run(tool("llvm-objdump"), "-d", workshop.folder / "main.o").stdout
    assert "OUTLINED_FUNCTION_0" in listing
    assert "ambiguous" in program.check()[APPLES]


@pytest.mark.parametrize("toolchain", [AARCH64_GOLD], ids=str, indirect=True)
def test_aarch64(workshop: Workshop) -> None:
    verdicts = build(workshop, LOOPS, "-fPIC", linked_with_objects=True).check()
    assert [verdicts[name] for name in FOUR] == 4 * [{"unique"}]


@pytest.mark.parametrize("toolchain", [AARCH64, AARCH64_GOLD], ids=str, indirect=True)
def test_what_the_path_decides_stays_open_on_aarch64(workshop: Workshop) -> None:
    verdicts = build(workshop, UNDECIDED, "-fPIC", linked_with_objects=True).check()
    assert "ambiguous" in verdicts[APPLES] | verdicts[PEARS]


def test_annotated_objects_name_the_callees(workshop: Workshop) -> None:
    sources = {"main.cpp": LOOPS, "callees.cpp": CALLEES}
    objects = workshop.compile(sources, NOPLT)
    run(*icf_command(), "annotate", *objects)
    objects.append(workshop.sampler(NOPLT))
    program = workshop.program(objects)
    program.add_tables()
    verdicts = program.check()
    assert verdicts[APPLES] == verdicts[PEARS] == {"unique"}
