"""gcc (-fipa-icf) emits copies of functions whose address is taken, without an address in their description."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.dumps import classes
from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, Toolchain, Workshop
from tests.support.toolchain import run, tool

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

ALIASES = {
    "leaf.cpp": "volatile long sink; NOINLINE void leaf(long n) { SAMPLE(); sink = n; }",
    "theirs.cpp": """
        void leaf(long n);
        static NOINLINE void theirs(long n) { leaf(n); leaf(3); }
        void two(long n) { theirs(n); theirs(n + 1); leaf(2); }
    """,
    "mine.cpp": """
        void leaf(long n);
        void two(long n);
        void (*volatile pointer)(long);
        static NOINLINE void kept(long n) { leaf(n); leaf(3); }
        static NOINLINE void alias(long n) { leaf(n); leaf(3); }
        NOINLINE void calls_kept(long n) { kept(n); leaf(4); kept(n + 1); leaf(5); }
        NOINLINE void calls_alias(long n) { CALL_ALIAS(n); leaf(6); CALL_ALIAS(n + 1); leaf(7); }
        int main(int n, char **) { POINT; two(n); calls_kept(n); calls_alias(n); leaf(8); return 0; }
    """,
}


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_gold_may_have_folded_a_copy_into_a_function_whose_address_is_taken(workshop: Workshop) -> None:
    program = workshop.build(CALLBACKS, flags=["-fipa-icf"])
    assert len(program.merged()) == 2
    program.add_tables()
    found = program.check_names()
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
    assert program.check_names()["_ZL9compare_bPKvS0_"] == {"ambiguous"}
    candidates = {tuple(frame["candidates"]) for frames in program.resolve() for frame in frames[1:2]}
    assert any(len(names) == 2 for names in candidates)


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_a_function_that_gcc_removed_leaves_callbacks_alone(workshop: Workshop) -> None:
    lonely = CALLBACKS.replace("compare_b);", "compare_a);").replace("compare_b(", "compare_unused(")
    program = workshop.build(lonely, flags=["-fipa-icf", "-Wno-unused-function"])
    program.add_tables()
    assert program.check_names()["_ZL9compare_aPKvS0_"] == {"unmerged"}


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_without_aranges_any_callback_may_be_shared(workshop: Workshop) -> None:
    program = workshop.build(CALLBACKS, flags=["-fipa-icf"])
    run(tool("objcopy"), "--remove-section", ".debug_aranges", program.folded)
    program.add_tables()
    assert program.check_names()["_ZL9compare_bPKvS0_"] == {"ambiguous"}


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("call", ["alias", "pointer"])
def test_gold_may_have_dropped_an_alias_with_the_function_that_has_its_section(workshop: Workshop, call: str) -> None:
    point = "pointer = alias" if call == "pointer" else "(void)0"
    flags = ["-fipa-icf", "-fno-ipa-cp", f"-DCALL_ALIAS={call}", f"-DPOINT={point}"]
    program = workshop.build(ALIASES, flags=flags)
    program.add_tables()
    assert any("_ZL5aliasl" in names for truths in program.truth() for names in truths)
    open_frames = set()
    for frames, truths in zip(program.resolve(), program.truth(), strict=True):
        for at, (frame, truth) in enumerate(zip(frames, truths, strict=True)):
            if "_ZL5aliasl" not in truth:
                assert frame["linkage_name"] in {None, *truth}, frame
            elif "calls_alias" in str(truths[at + 1]):
                open_frames.add(frame["verdict"])
            else:
                assert frame["verdict"] == "unique"
    assert open_frames == {"ambiguous"}
    classes = json.loads(icf("dump", "--json", program.folded))["classes"]
    shared = [fold for fold in classes if len(fold["members"]) > 1]
    assert ["members-complete" in fold["flags"] for fold in shared] == [False]


INSTANCES = {
    "main.cpp": """
        extern volatile int total;
        int first(int n);
        int second(int n);
        namespace {
          struct Base { virtual int body(int n) = 0; };
          template <KIND> struct Case : Base {
            int body(int n) override { int sum = IS_SECOND ? second(n) : first(n); total += 1; return sum; }
          };
        }
        Case<ZERO> zero; Case<ONE> one; Case<TWO> two; Case<THREE> three;
        Base *volatile cases[] = {&zero, &one, &two, &three};
        int main() { for (Base *each : cases) total += each->body(total); return 0; }
    """,
    "other.cpp": """
        #pragma GCC optimize("no-ipa-icf")
        volatile int total;
        int first(int n) { SAMPLE(); total = n; return n + 3; }
        int second(int n) { SAMPLE(); total = n; return n + 3; }
    """,
}


TYPES = ["-DKIND=class T", "-DIS_SECOND=(sizeof(T) > 2)", "-DZERO=char", "-DONE=short", "-DTWO=int", "-DTHREE=long"]
NUMBERS = ["-DKIND=int N", "-DIS_SECOND=(N > 1)", "-DZERO=0", "-DONE=1", "-DTWO=2", "-DTHREE=3"]


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
@pytest.mark.parametrize(
    ("flags", "arguments", "open_count"),
    [(TYPES, ("c", "s", "i", "l"), 2), (NUMBERS, ("Li0E", "Li1E", "Li2E", "Li3E"), 1)],  # numbers tell whose a DIE is
    ids=["types", "numbers"],
)
def test_aliases_leave_room_for_one_description_alone(
    workshop: Workshop, flags: list[str], arguments: tuple[str, ...], open_count: int
) -> None:
    program = workshop.build_with_tables(INSTANCES, flags=["-fipa-icf", *flags])
    names_of = [f"_ZN12_GLOBAL__N_14CaseI{argument}E4bodyEi" for argument in arguments]
    first, second = frozenset(names_of[:2]), frozenset(names_of[2:])
    assert {first, second} < program.merged()
    (body,) = [found for found in classes(program) if len(found["members"]) > 2]
    names = [member["linkage_name"] for member in body["members"]]
    assert set(names) in ({*first, "body"}, {*second, "body"}) and names.count("body") == open_count
    assert "members-complete" not in body["flags"]  # the other pair has a description, and an alias without
    found = program.check_names()
    assert [found[min(pair)] for pair in (first, second)] == [{"ambiguous"}, {"ambiguous"}]
