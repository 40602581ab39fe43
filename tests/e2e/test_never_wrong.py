"""Programs that mislead: control comes to a merged function by a way that the call before it does not show."""

from __future__ import annotations

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import AARCH64, GOLD, LLD, LLD_ALONE, MOLD, Workshop

INTERPRETER = """
    extern int total;
    int total;
    using Op = void (*)(const char *);
    extern Op const table[];
    NOINLINE void dispatch(const char *code) { total += 7; return table[*code](code + 1); }
    NOINLINE void add(const char *code) { SAMPLE(); ++total; return NEXT(code); }
    NOINLINE void sub(const char *code) { SAMPLE(); ++total; return NEXT(code); }
    NOINLINE void stop(const char *) { total += 2; }
    Op const table[] = {add, sub, stop};
    int main() { add("\\1\\0\\1\\2"); ++total; return 0; }
"""
RETPOLINES = {
    "gcc": ["-mindirect-branch=thunk"],
    "gcc-inline": ["-mindirect-branch=thunk-inline"],
    "clang": ["-mretpoline"],
}


@pytest.mark.parametrize("toolchain", [GOLD, LLD, AARCH64], ids=str, indirect=True)
def test_an_unmerged_function_may_jump_back_by_a_pointer(workshop: Workshop) -> None:
    program = workshop.build_with_tables(INTERPRETER, ["-DNEXT=dispatch"])
    assert len(program.merged()) == 2
    program.check()


@pytest.mark.parametrize("kind", RETPOLINES)
def test_a_retpoline_is_an_indirect_jump(workshop: Workshop, kind: str) -> None:
    if workshop.toolchain.compiler != kind.partition("-")[0]:
        pytest.skip("an option of the other compiler")
    program = workshop.build_with_tables(INTERPRETER, ["-DNEXT(code)=table[*code](code + 1)", *RETPOLINES[kind]])
    assert len(program.merged()) == 2
    assert program.check()["_Z3subPKc"] == {"ambiguous"}


@pytest.mark.parametrize("toolchain", [LLD, LLD_ALONE, MOLD, AARCH64], ids=str, indirect=True)
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_functions_that_jump_to_each_other_may_be_one_that_jumps_to_itself(workshop: Workshop, debug: str) -> None:
    program = workshop.build_with_tables(
        """
        extern int total;
        int total;
        void odd(int n);
        NOINLINE void even(int n) { SAMPLE(); total += n; if (n) return odd(n - 1); }
        NOINLINE void odd(int n) { SAMPLE(); total += n; if (n) return even(n - 1); }
        int main() { odd(1); ++total; even(2); ++total; return 0; }
        """,
        [debug],
    )
    assert len(program.merged()) == 2
    program.check()


PARTS = """
    extern int total;
    void OTHER(int);
    NOINLINE static void pass(int n) { total += 5; asm volatile(""); return OTHER(n - 1); }
    NOINLINE void SELF(int n) { SAMPLE(); ++total; asm volatile(""); if (n) return pass(n); }
"""


@pytest.mark.parametrize("toolchain", [LLD, LLD_ALONE], ids=str, indirect=True)
def test_functions_of_one_section_jump_to_each_other_by_two_bytes(workshop: Workshop) -> None:
    program = workshop.build(
        {
            "main.cpp": "int total; void fa(int); void fb(int); int main() { fa(1); ++total; fb(2); ++total; }",
            "a.cpp": f"#define SELF fa\n#define OTHER fb\n{PARTS}",
            "b.cpp": f"#define SELF fb\n#define OTHER fa\n{PARTS}",
        },
        ["-fno-function-sections"],
    )
    assert len(program.merged()) == 2
    program.add_tables("--icf-report", program.report)  # names no function, so they may not be aliases
    program.check()


@pytest.mark.parametrize("toolchain", [MOLD], ids=str, indirect=True)
def test_a_report_of_whole_files_is_not_enough_for_mold(workshop: Workshop) -> None:
    source = 'extern int total; extern "C" NOINLINE void %s(int n) { SAMPLE(); total += n; }'
    main = 'int total; extern "C" void hot(int), cold(int); int main() { hot(1); cold(2); ++total; }'
    program = workshop.build({"main.cpp": main, "hot.cpp": source % "hot", "cold.cpp": source % "cold"})
    assert len(program.merged()) == 2
    icf("pass", program.folded, "--icf-report", program.report, status=1)
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    assert program.check()["hot"] == {"unique"}
