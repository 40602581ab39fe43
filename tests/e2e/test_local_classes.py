"""Classes of one name that two units have for themselves: a vtable holds the methods of its own unit.

The source files may have one name, too (`a/unit.cpp` and `b/unit.cpp`). Debug information may know one of the classes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.e2e.workshop import GCC_MOLD, LLD, LLD_ALONE, MOLD, Toolchain, Workshop
from tests.support.toolchain import tool

GCC_LLD = Toolchain("gcc", "lld")
CLANG_GOLD = Toolchain("clang", "gold")
MAIN = """
    volatile int total;
    void ea(int), eb(int);
    int main(int n, char **) { ea(n); total += 1; eb(n); total += 2; return 0; }
"""
HEAD = "extern volatile int total; static NOINLINE void LEAF(int n) { SAMPLE(); total += n; } "
ONE_NAME, TWO_NAMES = ("a_unit.cpp", "b_unit.cpp"), ("ua.cpp", "ub.cpp")


def built(
    workshop: Workshop, names: tuple[str, str], texts: tuple[str, str], levels: tuple[str, str], evidence: str
) -> tuple[Program, list[Path]]:
    """A program with tables of two sources, each under its name without the part before `_`."""
    objects = [
        _compiled(workshop, name, text, level, words)
        for name, text, level, words in zip(
            names, texts, levels, ({"LEAF": "red", "ENTRY": "ea"}, {"LEAF": "blue", "ENTRY": "eb"}), strict=True
        )
    ]
    return linked(workshop, objects, evidence), objects


def linked(workshop: Workshop, units: list[Path], evidence: str) -> Program:
    objects = [*units, *workshop.compile({"main.cpp": MAIN}), workshop.sampler()]
    program = workshop.program(objects)
    if evidence == "link":
        done = workshop.link_with_pass(program, objects, *workshop.toolchain.link_flags, "-Wl,--icf=all")
        assert done.returncode == 0, done.stderr
    else:
        program.add_tables()
    return program


def _compiled(workshop: Workshop, name: str, text: str, level: str, words: Mapping[str, str]) -> Path:
    source = HEAD + text
    for word, meaning in words.items():
        source = source.replace(word, meaning)
    (made,) = workshop.compile({name.rpartition("_")[2]: source}, level)
    return made.rename(workshop.folder / f"{name}.o")


HERE = """
    namespace {
        struct V { virtual void a() { total += 5; } virtual void b() { LEAF(1); total += 8; } };
        struct Q { virtual void go() { LEAF(1); total += 8; } };
        V *volatile v; Q *volatile q;
        NOINLINE void call(V *p) { p->b(); total += 3; }
    }
    void ENTRY(int) { V x; v = &x; call(v); total += 1; Q y; q = &y; q->go(); total += 2; }
"""


@pytest.mark.parametrize("toolchain", [LLD_ALONE, LLD, GCC_LLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["image", "link"])
@pytest.mark.parametrize("levels", [("-g", "-g0"), ("-g0", "-g"), ("-g", "-g1")], ids="".join)
def test_a_slot_of_a_class_in_debug_information_is_not_one_of_its_namesake(
    workshop: Workshop, evidence: str, levels: tuple[str, str]
) -> None:
    program, _ = built(workshop, ONE_NAME, (HERE, HERE), levels, evidence)
    program.check()


@pytest.mark.parametrize("toolchain", [MOLD, CLANG_GOLD, GCC_MOLD], ids=str, indirect=True)
def test_objects_of_two_units_with_one_name(workshop: Workshop) -> None:
    program, _ = built(workshop, ONE_NAME, (HERE, HERE), ("-g", "-g0"), "link")
    program.check()


@pytest.mark.parametrize("toolchain", [LLD_ALONE, LLD], ids=str, indirect=True)
def test_the_method_of_a_class_is_of_the_file_of_its_vtable(workshop: Workshop) -> None:
    program, _ = built(workshop, TWO_NAMES, (HERE, HERE), ("-g", "-g0"), "image")
    found = program.check()
    assert found["_ZN12_GLOBAL__N_11V1bEv"] == {"unique"}


OVERRIDES = """
    namespace {
        struct V { virtual void a() { total += 5; } virtual void b() { total += 8; } };
        struct W : V { void b() override { SAMPLE_OBJECT(); total += 9; } };
        V *volatile v;
        NOINLINE void call(V *p) { p->b(); total += 3; }
    }
    void ENTRY(int) { V x; W y; v = &x; call(v); total += 1; v = &y; call(v); total += 2; }
"""
INHERITS = """
    namespace {
        struct V { virtual void a() { total += 5; } virtual void b() { SAMPLE_OBJECT(); total += 9; } };
        struct W : V { void a() override { total += 7; } };
        V *volatile v;
        NOINLINE void call(V *p) { p->b(); total += 4; }
    }
    void ENTRY(int) { W y; v = &y; call(v); total += 2; }
"""


@pytest.mark.parametrize("toolchain", [LLD_ALONE, LLD], ids=str, indirect=True)
@pytest.mark.parametrize("names", [ONE_NAME, TWO_NAMES], ids=lambda names: names[0])
@pytest.mark.parametrize("level", ["-g", "-g0"])
def test_the_class_of_another_unit_overrides_nothing(workshop: Workshop, names: tuple[str, str], level: str) -> None:
    """Which `W::b` is in the body: that of the unit whose vtable it is, or the other one?"""
    program, _ = built(workshop, names, (OVERRIDES, INHERITS), (level, level), "image")
    program.check()
    found = program.check(with_vptrs=True)
    if names == TWO_NAMES:
        assert found["_ZN12_GLOBAL__N_11V1bEv"] == found["_ZN12_GLOBAL__N_11W1bEv"] == {"unique"}


ONE_ORDER = """
    namespace {
        struct V { virtual void a() { total += 5; } virtual void b() { LEAF(1); total += 8; }
                   virtual void c() { total += 3; } };
        V *volatile v;
        NOINLINE void call(V *p) { p->b(); total += 3; }
    }
    void ENTRY(int) { V x; v = &x; call(v); total += 1; }
"""
OTHER_ORDER = """
    namespace {
        struct V { virtual void a() { total += 5; } virtual void c() { LEAF(1); total += 8; }
                   virtual void b() { LEAF(1); total += 8; } };
        V *volatile v;
        NOINLINE void call(V *p) { p->c(); total += 4; }
        NOINLINE void call_b(V *p) { p->b(); total += 5; }
    }
    void ENTRY(int) { V x; v = &x; call(v); total += 1; call_b(v); total += 2; }
"""


@pytest.mark.parametrize("toolchain", [LLD_ALONE, GCC_LLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("levels", [("-g", "-g0"), ("-g0", "-g"), ("-g", "-g1")], ids="".join)
@pytest.mark.parametrize("texts", [(ONE_ORDER, OTHER_ORDER), (OTHER_ORDER, ONE_ORDER)], ids=["bc", "cb"])
def test_classes_of_one_name_with_their_methods_in_other_slots(
    workshop: Workshop, levels: tuple[str, str], texts: tuple[str, str]
) -> None:
    evidence = "image" if workshop.toolchain.linker == "lld" else "link"
    program, _ = built(workshop, ONE_NAME, texts, levels, evidence)
    program.check()


LATER = """
    namespace {
        struct V { virtual void a() { total += 5; } virtual void c() { LEAF(1); total += 8; }
                   virtual void b() { total += 9; } };
        V *volatile v;
        NOINLINE void call(V *p) { p->c(); total += 4; }
    }
    void ENTRY(int) { V x; v = &x; call(v); total += 1; }
"""


@pytest.mark.parametrize("toolchain", [LLD_ALONE, MOLD, CLANG_GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("other", [OTHER_ORDER, LATER], ids=["other", "later"])
def test_an_object_without_the_name_of_its_source_file(workshop: Workshop, other: str) -> None:
    """Its local symbols seem to be of the object before it."""
    one, other = (text.replace("LEAF(1)", "SAMPLE_OBJECT()") for text in (ONE_ORDER, other))
    _, objects = built(workshop, TWO_NAMES, (one, other), ("-g", "-g"), "link")
    subprocess.run([tool("strip"), "-g", str(objects[1])], check=True)
    program = linked(workshop, objects, "link")
    program.check()
    program.check(with_vptrs=True)


UNNAMED = """
    static struct { virtual void a() { total += 5; } virtual void b() { LEAF(1); total += 8; } } one;
    static struct { virtual void go() { LEAF(1); total += 8; } } two;
    static decltype(one) *volatile v; static decltype(two) *volatile q;
    static NOINLINE void call(decltype(one) *p) { p->b(); total += 3; }
    void ENTRY(int) { v = &one; call(v); total += 1; q = &two; q->go(); total += 2; }
"""


@pytest.mark.parametrize("toolchain", [LLD_ALONE, GCC_LLD], ids=str, indirect=True)
@pytest.mark.parametrize("names", [ONE_NAME, TWO_NAMES], ids=lambda names: names[0])
@pytest.mark.parametrize("levels", [("-g", "-g0"), ("-g0", "-g")], ids="".join)
def test_classes_without_a_name(workshop: Workshop, names: tuple[str, str], levels: tuple[str, str]) -> None:
    program, _ = built(workshop, names, (UNNAMED, UNNAMED), levels, "image")
    program.check()
