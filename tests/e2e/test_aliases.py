"""Functions that the compiler has merged: symbols of one place in an object are members, and a call names one of them.

clang makes the destructor of a class that adds nothing an alias of its base's, gcc (-fipa-icf) one of two equal
destructors an alias of the other. The relocation of a call still has the name that the source calls.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.program import Program, icf
from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, MOLD, Toolchain, Workshop

CLASSES = """
    struct Base { Base(); ~Base(); char *text; };
    struct Derived : Base { Derived(); ~Derived(); };
    struct Apple { Apple(); ~Apple(); };
    struct Pear { Pear(); ~Pear(); };
    extern int total;
"""
SOURCES = {
    "classes.cpp": CLASSES
    + """
    int total;
    Base::Base() { ++total; } Base::~Base() { SAMPLE(); ++total; }
    Derived::Derived() { total += 2; } Derived::~Derived() {}
    Apple::Apple() { total += 3; } Apple::~Apple() { SAMPLE(); total += 3; }
    Pear::Pear() { total += 4; } Pear::~Pear() { SAMPLE(); total += 3; }
    """,
    "main.cpp": CLASSES
    + """
    NOINLINE void of_base() { Base b; ++total; }
    NOINLINE void of_derived() { Derived d; --total; }
    NOINLINE void of_apple() { Apple a; total += 2; }
    NOINLINE void of_pear() { Pear p; total -= 2; }
    int main() { of_base(); of_derived(); of_apple(); of_pear(); return total == 77; }
    """,
}
CALLED = {  # by whom
    "clang": {"of_base()": "Base::~Base()", "of_derived()": "Derived::~Derived()"},
    "gcc": {"of_apple()": "Apple::~Apple()", "of_pear()": "Pear::~Pear()"},
}
GCC_LLD = Toolchain("gcc", "lld")
CLANG_GOLD = Toolchain("clang", "gold")
GCC_MOLD = Toolchain("gcc", "mold")
ALL = [LLD_ALONE, CLANG_GOLD, MOLD, GCC_LLD, GOLD, GCC_MOLD]


def build(workshop: Workshop) -> Program:
    return workshop.build(SOURCES, flags=["-fipa-icf"] if workshop.toolchain.compiler == "gcc" else [])


def objects(workshop: Workshop) -> list[Path]:
    return [workshop.folder / name for name in ("classes.o", "main.o", "sampler.o")]


def called(program: Program, compiler: str) -> dict[str, tuple[str | None, list[str]]]:
    """The name of the function that each of the callers has called, and its candidates."""
    return {
        outer["name"]: (inner["name"], inner["candidates"])
        for frames in program.resolve()
        for inner, outer in zip(frames, frames[1:], strict=False)
        if outer["name"] in CALLED[compiler] and inner["name"] != "record_stack"
    }


def check(program: Program, compiler: str) -> None:
    assert {caller: name for caller, (name, _) in called(program, compiler).items()} == CALLED[compiler]
    names = set(CALLED[compiler].values())
    (address,) = {frames[1]["address"] for frames in program.resolve() if frames[1]["name"] in names}
    line = icf("symbolize", "-p", "-f", "-e", program.folded, address)
    assert all(name in line for name in names), line
    listed = icf("disasm", "-e", program.folded, *[caller.partition("(")[0] for caller in CALLED[compiler]])
    for name in names:
        assert f"; {name}  [1 of 2, " in listed
    icf("verify", program.folded)


@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_with_objects_the_relocation_of_the_caller_decides(workshop: Workshop) -> None:
    program = build(workshop)
    program.add_tables("--objects", *objects(workshop))
    check(program, workshop.toolchain.compiler)


@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_icf_link_names_what_is_called(workshop: Workshop) -> None:
    program = build(workshop)
    assert workshop.link_with_pass(program, objects(workshop), "-Wl,--icf=all").returncode == 0
    check(program, workshop.toolchain.compiler)


@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_annotated_objects_name_what_is_called(workshop: Workshop) -> None:
    program = build(workshop)
    icf("annotate", *objects(workshop))
    workshop.link("program", objects(workshop), "all")
    program.add_tables()
    check(program, workshop.toolchain.compiler)


@pytest.mark.parametrize("toolchain", [LLD, Toolchain("gcc", "lld", LLD.link_flags)], ids=str, indirect=True)
def test_relocations_in_the_image_name_what_is_called(workshop: Workshop) -> None:
    program = build(workshop)
    program.add_tables()
    check(program, workshop.toolchain.compiler)


@pytest.mark.parametrize("toolchain", ALL, ids=str, indirect=True)
def test_the_report_of_the_linker_does_not_make_aliases_one_function(workshop: Workshop) -> None:
    program = build(workshop)
    program.add_tables("--icf-report", program.report)
    compiler = workshop.toolchain.compiler
    for caller, (name, candidates) in called(program, compiler).items():
        assert name == CALLED[compiler][caller] or (name is None and len(candidates) == 2)
