"""With the objects of the link at hand no debug information is needed, and no report of what the linker dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.e2e.dumps import classes
from tests.e2e.program import Program
from tests.e2e.workshop import GCC_MOLD, GOLD, LLD_ALONE, MOLD, Toolchain, Workshop

DROPPING = pytest.mark.parametrize(
    "toolchain", [GOLD, replace(GOLD, compiler="clang"), MOLD, GCC_MOLD], ids=str, indirect=True
)

# in both files a static function cut, which calls another function each; templates, and a table of functions
PEEL = """
    extern int total;
    template <class T> NOINLINE void taste(T *a) { SAMPLE(); *a += 3; }
    static NOINLINE void %(peel)s(int *a) { SAMPLE(); *a += 1; }
    static NOINLINE void cut(int *a) { %(peel)s(a); *a += 2; }
    static NOINLINE void %(peel)s_twice(int *a) { cut(a); cut(a); *a += 4; }
    static void (*volatile const steps[])(int *) = {cut, %(peel)s_twice};
    NOINLINE void %(fruit)s() {
        cut(&total); %(peel)s_twice(&total); taste((%(type)s *)&total);
        if (total < 0) steps[1](&total);
        ++total;
    }
"""
SOURCES = {
    "apples.cpp": PEEL % {"fruit": "apples", "peel": "peel", "type": "unsigned"},
    "pears.cpp": PEEL % {"fruit": "pears", "peel": "wash", "type": "int"},
    "main.cpp": "int total; void apples(); void pears(); int main() { apples(); pears(); return 0; }",
}
NAMED = "_ZL4peelPi _ZL4washPi _ZL10peel_twicePi _ZL10wash_twicePi _ZL3cutPi _Z5tasteIjEvPT_ _Z5tasteIiEvPT_".split()


@DROPPING
@pytest.mark.parametrize("debug", ["-g", "-g1", "-g0"])
def test_every_direct_call_is_named(workshop: Workshop, debug: str) -> None:
    program = workshop.build(SOURCES, flags=[debug])
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    verdicts = program.check()
    assert {name: verdicts[name] for name in NAMED} == dict.fromkeys(NAMED, {"unique"})
    (cut,) = [found for found in classes(program) if found["members"][0]["linkage_name"] == "_ZL3cutPi"]
    assert [member["linkage_name"] for member in cut["members"]] == ["_ZL3cutPi", "_ZL3cutPi"]


@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE, Toolchain("gcc", "lld"), MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("way", ["hidden", "version script"])
def test_callers_that_are_local_in_the_image_only(workshop: Workshop, way: str) -> None:
    script = workshop.folder / "exports"
    script.write_text("{ global: main; local: *; };")
    ways = {"hidden": (["-fvisibility=hidden"], []), "version script": ([], [f"-Wl,--version-script={script}"])}
    flags, link_flags = ways[way]
    program = workshop.build(SOURCES, ["-g0", *flags], link_flags)
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    verdicts = program.check()
    assert {name: verdicts[name] for name in NAMED} == dict.fromkeys(NAMED, {"unique"})


LOST = {
    "fruit.cpp": """
        extern int total;
        __attribute__((section(".text.apples"))) NOINLINE static void apples(int n) { total += n; }
        __attribute__((section(".text.pears"))) NOINLINE static void pears(int n) { total += n; }
        __attribute__((weak)) void eat() { total += 7; }
        void peel(int n) { apples(n); pears(n); eat(); }
    """,
    "pears.cpp": "int total; void eat() { total += 9; }",
}


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_what_an_object_calls_is_known_though_a_weak_function_of_its_section_lost(workshop: Workshop) -> None:
    objects = workshop.compile(LOST, "-fno-function-sections", "-g0", "-fPIC")
    library, report = workshop.link("library.so", objects, "all", ["-shared", "-nostdlib"])
    program = Program(library, library, report)
    program.add_tables("--objects", *objects)
    bodies = [{member["linkage_name"] for member in body["members"]} for body in classes(program)]
    assert {"_ZL6applesi", "_ZL5pearsi"} in bodies
