"""Comparators of `qsort`, merged with others: the frame inwards of the C library is the one that it was given."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.modules import FOLDED, Modules, Part, Seen, build_modules
from tests.e2e.program import icf
from tests.e2e.workshop import AARCH64, AARCH64_MOLD, ALL, GOLD, LLD, MOLD, Toolchain, Workshop
from tests.support.toolchain import run, tool

_HEAD = """
    #include <search.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    static volatile int total;
    typedef int compare(const void *, const void *);
"""
_COMPARATORS = """
    extern "C" {
    NOINLINE static int by_age(const void *a, const void *b) { SAMPLE(); return *(const int *)a - *(const int *)b; }
    NOINLINE static int by_size(const void *a, const void *b) { SAMPLE(); return *(const int *)a - *(const int *)b; }
    NOINLINE int by_weight(const void *a, const void *b) { SAMPLE(); return *(const int *)a - *(const int *)b; }
    static int by_both(const void *a, const void *b) { total = 7; return by_age(a, b); }
    }
"""
PROGRAM = (
    _HEAD
    + _COMPARATORS
    + """
    NOINLINE void sort_ages(int *p) { qsort(p, 2, sizeof *p, by_age); total = 1; }
    NOINLINE void sort_sizes(int *p) { qsort(p, 2, sizeof *p, by_size); total = 2; }
    NOINLINE void sort_weights(int *p) { qsort(p, 2, sizeof *p, by_weight); total = 3; }
    NOINLINE void sort_both(int *p) { qsort(p, 2, sizeof *p, by_both); total = 4; }
    NOINLINE void merged_ages(int *p) { qsort(p, 2, sizeof *p, by_age); total = 5; }
    NOINLINE void merged_sizes(int *p) { qsort(p, 2, sizeof *p, by_size); total = 5; }
    NOINLINE void find_size(int *p) { size_t n = 2; total = lfind(p, p, &n, sizeof *p, by_size) != nullptr; }
    NOINLINE void calls_too(int *p) { total = by_age(p, p); qsort(p, 2, sizeof *p, by_size); total = 6; }
    int main(int argc, char **) {
        int p[2] = {3 + argc, 2};
        sort_ages(p); sort_sizes(p); sort_weights(p); sort_both(p);
        merged_ages(p); merged_sizes(p); find_size(p); calls_too(p);
        return total == 100;
    }
"""
)


def build(tmp_path: Path, toolchain: Toolchain, source: str, *others: Part) -> Modules:
    """Link a program with folding and without, and pass it with its object, if the image has no relocations."""
    workshop = Workshop(tmp_path, toolchain)
    needs = [part.name for part in others]
    modules = build_modules(workshop, [*others, Part("program", source, needs)], with_tables=False)
    path = modules.path("program")
    icf("pass", path, "--objects", tmp_path / "program.o", tmp_path / "sampler.o")
    icf("verify", path, "--second-reader")
    return modules


def comparators(stacks: list[list[Seen]], caller: str) -> list[Seen]:
    """Return the innermost frames of our program in the stacks of a function."""
    return [stack[1] for stack in stacks if any(caller in seen.truth for seen in stack[2:])]


@pytest.mark.parametrize("toolchain", ALL, ids=str)
def test_a_comparator_is_the_one_that_was_passed(toolchain: Toolchain, tmp_path: Path) -> None:
    stacks = build(tmp_path, toolchain, PROGRAM).check()
    for caller, name in (
        ("_Z9sort_agesPi", "by_age"),
        ("_Z10sort_sizesPi", "by_size"),
        ("_Z12sort_weightsPi", "by_weight"),
        ("_Z9sort_bothPi", "by_age"),
        ("_Z11merged_agesPi", "by_age"),
        ("_Z12merged_sizesPi", "by_size"),
        ("_Z9find_sizePi", "by_size"),
    ):
        found = comparators(stacks, caller)
        assert found, caller
        for seen in found:
            found_name = seen.frame["name"] and seen.frame["name"].partition("(")[0]
            assert (seen.frame["verdict"], found_name) == ("unique", name), (caller, seen.frame)


OPEN = (
    _HEAD
    + _COMPARATORS
    + """
    static void *page;
    static int next = PROT_NONE;
    extern "C" {
    // a comparator, which makes the page fault once its elements are moved, and a handler; of one body
    NOINLINE static int by_page(const void *, const void *) {
        SAMPLE(); mprotect(page, 4096, next); next = PROT_READ | PROT_WRITE; return 0;
    }
    NOINLINE static int repair(int) {
        SAMPLE(); mprotect(page, 4096, next); next = PROT_READ | PROT_WRITE; return 0;
    }
    }
    NOINLINE void sort_given(int *p, compare *by) { qsort(p, 2, sizeof *p, by); total = 1; }
    NOINLINE void sort_joined(int *p, bool is_size) { qsort(p, 2, sizeof *p, is_size ? by_size : by_age); total = 2; }
    static compare *volatile stored = by_size;
    NOINLINE void sort_stored(int *p) { qsort(p, 2, sizeof *p, stored); total = 3; }
    NOINLINE void sort_switched(int *p, int how) {
        compare *by = by_age;
        switch (how) {
            case 0: total = 9; by = by_size; break;
            case 1: total = 8; by = by_weight; break;
            case 2: total = 7; by = by_age; break;
            case 3: total = 5; by = by_weight; break;
            case 4: total = 3; by = by_size; break;
        }
        qsort(p, 2, sizeof *p, by);
        total = 4;
    }
    NOINLINE void sort_page() { qsort(page, 2, sizeof(int), by_page); total = 5; }
    int main(int argc, char **) {
        int p[2] = {3 + argc, 2};
        sort_given(p, by_age); sort_given(p, by_size); sort_given(p, by_weight);
        sort_joined(p, argc > 1); sort_joined(p, argc == 1); sort_stored(p);
        for (int how = 0; how < 6; ++how) sort_switched(p, how);
        signal(SIGSEGV, (void (*)(int))repair);
        page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sort_page();
        return total == 100;
    }
"""
)


@pytest.mark.parametrize("toolchain", ALL, ids=str)
def test_what_is_not_certain_stays_open(toolchain: Toolchain, tmp_path: Path) -> None:
    stacks = build(tmp_path, toolchain, OPEN).check()  # no name is wrong
    for caller in ("_Z10sort_givenPiPFiPKvS1_E", "_Z11sort_joinedPib", "_Z11sort_storedPi", "_Z13sort_switchedPii"):
        found = comparators(stacks, caller)
        assert {seen.verdict for seen in found} <= {"ambiguous", "narrowed"}, caller
        assert found, caller
    compared, handled = comparators(stacks, "_Z9sort_pagev")
    assert any("by_page" in name for name in compared.truth), compared
    assert any("repair" in name for name in handled.truth), handled
    if (toolchain.compiler, toolchain.linker) in (("clang", "mold"), ("clang", "gold")):  # do not merge them
        assert (handled.verdict, compared.verdict) == ("unmerged", "unmerged")
    else:
        assert handled.verdict in ("ambiguous", "narrowed"), handled
        assert compared.verdict == "unique", compared


@pytest.mark.parametrize("toolchain", [GOLD, LLD, MOLD], ids=str)
def test_a_module_that_replaces_the_import_may_call_anything(toolchain: Toolchain, tmp_path: Path) -> None:
    other = """
        #include <stddef.h>
        typedef int compare(const void *, const void *);
        extern "C" compare *before_sorting;
        compare *before_sorting;
        extern "C" void qsort(void *p, size_t, size_t, compare *by) { before_sorting(p, p); by(p, p); }
    """
    source = (
        _HEAD
        + _COMPARATORS
        + """
        extern "C" compare *before_sorting;
        NOINLINE void sort_ages(int *p) { qsort(p, 2, sizeof *p, by_age); total = 1; }
        NOINLINE void sort_sizes(int *p) { qsort(p, 2, sizeof *p, by_size); total = 2; }
        int main(int argc, char **) {
            int p[2] = {3 + argc, 2};
            before_sorting = by_weight;
            sort_ages(p); sort_sizes(p);
            return total == 100;
        }
        """
    )
    stacks = build(tmp_path, toolchain, source, Part("libsort.so", other)).check()
    found = [*comparators(stacks, "_Z9sort_agesPi"), *comparators(stacks, "_Z10sort_sizesPi")]
    assert len(found) == 4
    assert {seen.verdict for seen in found} <= {"ambiguous", "narrowed"}


def test_what_gcc_calls_by_the_got(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, GOLD)
    modules = build_modules(workshop, [Part("program", PROGRAM)], ["-fno-plt"], with_tables=False)
    icf("pass", modules.path("program"), "--objects", tmp_path / "program.o", tmp_path / "sampler.o")
    stacks = modules.check()
    assert [seen.frame["name"] for seen in comparators(stacks, "_Z10sort_sizesPi")] == ["by_size"]


@pytest.mark.parametrize("toolchain", [AARCH64_MOLD, replace(AARCH64, link_flags=())], ids=str)
def test_aarch64(toolchain: Toolchain, tmp_path: Path) -> None:
    tool("aarch64-linux-gnu-g++")  # for its libraries
    workshop = Workshop(tmp_path, toolchain)
    (compiled,) = workshop.compile({"program.cpp": PROGRAM}, "-O2")
    path, _ = workshop.link("program", [compiled, workshop.sampler()], "all")
    icf("pass", path, "--objects", compiled, tmp_path / "sampler.o")
    icf("verify", path, "--second-reader")
    rows = json.loads(icf("dump", "--dcall", "--json", path))["callbacks"]
    found = {(row["caller_name"], row["callee_name"].partition("(")[0]) for row in rows}
    assert found >= {("merged_ages(int*)", "by_age"), ("merged_sizes(int*)", "by_size"), (None, "by_weight")}


def test_a_copy_that_gcc_left_without_a_trace_may_be_meant(tmp_path: Path) -> None:
    """Gcc makes a copy of one function for the other, with an address of its own; gold drops its symbol."""
    source = """
        #include <stdlib.h>
        volatile long sink;
        __attribute__((noinline)) void leaf(long x) { sink += x; }
        static int one(const void *a, const void *b) { leaf(1); return *(long *)a < *(long *)b; }
        static int other(const void *a, const void *b) { leaf(1); return *(long *)a < *(long *)b; }
        __attribute__((noinline)) void sort_by_one(long *p) { qsort(p, 4, 8, one); leaf(2); }
        __attribute__((noinline)) void sort_by_other(long *p) { qsort(p, 4, 8, other); leaf(3); }
        int main(void) { long a[] = {3, 1, 2, 4}; sort_by_one(a); sort_by_other(a); return 0; }
    """
    (tmp_path / "c.c").write_text(source)
    run(tool("gcc"), "-O2", "-g", "-ffunction-sections", "-c", "c.c", folder=tmp_path)
    run(tool("gcc"), *GOLD.linker_options, "-Wl,--icf=all", "c.o", "-o", "c", folder=tmp_path)
    for options, names in (((), []), (("--objects", tmp_path / "c.o"), ["one", "other"])):
        icf("pass", tmp_path / "c", "-o", tmp_path / "out", *options)
        rows = json.loads(icf("dump", "--dcall", "--json", tmp_path / "out"))["callbacks"]
        assert [row["callee"] for row in rows] == names


def test_the_dump_lists_what_is_passed(tmp_path: Path) -> None:
    modules = build(tmp_path, GOLD, PROGRAM)
    lines = icf("dump", "--dcall", modules.path("program", FOLDED)).splitlines()
    at = lines.index(".debug_icf: 8 functions passed to imports that call back")
    rows = [line.split()[1:] for line in lines[at + 2 : at + 10]]
    assert sorted(rows) == sorted(
        [
            ["by_age", "object"],
            ["by_size", "object"],
            ["by_weight", "object"],
            ["by_both", "decoded"],
            ["by_age", "object", "from", "merged_ages(int*)"],
            ["by_size", "object", "from", "merged_sizes(int*)"],
            ["by_size", "object"],
            ["by_size", "object"],
        ]
    )
