"""gcc (-fipa-icf) emits copies of functions whose address is taken, without an address in their description."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.e2e.workshop import GOLD, Toolchain, Workshop

CALLBACKS = """
    #include <stdlib.h>
    static int compare_a(const void *a, const void *b) { SAMPLE(); return *(const long *)a < *(const long *)b; }
    static int compare_b(const void *a, const void *b) { SAMPLE(); return *(const long *)a < *(const long *)b; }
    static NOINLINE int removed(long n) { return n * 7; }
    volatile int sink;
    NOINLINE void other(int n) { SAMPLE(); sink = n; }
    NOINLINE void sort_a(long *p) { qsort(p, 2, sizeof *p, compare_a); sink = 1; }
    NOINLINE void sort_b(long *p) { qsort(p, 2, sizeof *p, compare_b); sink = 2; }
    int main() { long p[] = {3, 1}; removed(4); sort_a(p); sort_b(p); other(3); return 0; }
"""


def verdicts(program: Program) -> dict[str, set[str]]:
    """The verdicts for each function; no name may be wrong."""
    found: dict[str, set[str]] = {}
    for frames, truths in zip(program.resolve(), program.truth(), strict=True):
        for frame, truth in zip(frames, truths, strict=True):
            assert frame["linkage_name"] in {None, *truth}, f"{frame}: {sorted(truth)}"
            if truth:
                found.setdefault(min(truth), set()).add(frame["verdict"])
    return found


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_gold_may_have_folded_a_copy_into_a_function_whose_address_is_taken(workshop: Workshop) -> None:
    program = workshop.build(CALLBACKS, flags=["-fipa-icf"])
    assert len(program.merged()) == 2
    program.add_tables()
    found = verdicts(program)
    assert found["_ZL9compare_aPKvS0_"] == found["_ZL9compare_bPKvS0_"] == {"ambiguous"}
    assert found["main"] == found["_Z5otheri"] == {"unmerged"}


@pytest.mark.parametrize("toolchain", [GOLD, Toolchain("gcc", "lld")], ids=str, indirect=True)
@pytest.mark.parametrize("with_objects", [True, False])
def test_the_copy_is_a_member_where_something_names_it(workshop: Workshop, with_objects: bool) -> None:
    program = workshop.build(CALLBACKS, flags=["-fipa-icf"])
    is_gold = workshop.toolchain.linker == "gold"
    objects = [workshop.folder / "main.o", workshop.folder / "sampler.o"]
    options: list[str | Path] = (
        ["--objects", *objects] if with_objects else ["--icf-report", program.report] if is_gold else []
    )
    program.add_tables(*options)
    assert verdicts(program)["_ZL9compare_bPKvS0_"] == {"ambiguous"}
    candidates = {tuple(frame["candidates"]) for frames in program.resolve() for frame in frames[1:2]}
    assert any(len(names) == 2 for names in candidates)
