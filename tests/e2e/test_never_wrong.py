"""Programs that mislead: control comes to a merged function by a way that the call before it does not show."""

from __future__ import annotations

import pytest

from tests.e2e.program import Program, icf
from tests.e2e.workshop import AARCH64, GCC_MOLD, GOLD, LLD, LLD_ALONE, MOLD, Toolchain, Workshop

GCC_LLD, GCC_LLD_ALONE = Toolchain("gcc", "lld", LLD.link_flags), Toolchain("gcc", "lld")
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


@pytest.mark.parametrize("toolchain", [LLD, LLD_ALONE, MOLD], ids=str, indirect=True)
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


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_clones_of_a_function_are_functions(workshop: Workshop) -> None:
    program = workshop.build(
        """
        int total;
        NOINLINE void apples(int n) { SAMPLE(); total += n; }
        NOINLINE void pears(int n) { SAMPLE(); total += n; }
        struct Shop { void (*sell)(int); int count; };
        extern const Shop some, others;
        const Shop some = {apples, 1}, others = {pears, 1};
        NOINLINE void open(const Shop *shop) { shop->sell(shop->count); ++total; }
        int main() { open(&some); open(&others); return 0; }
        """,
        ["-fdata-sections"],
    )
    objects = sorted(workshop.folder.glob("*.o"))
    program.add_tables("--icf-report", program.report, "--objects", *objects)
    program.check()


@pytest.mark.parametrize("toolchain", [GOLD, LLD, LLD_ALONE], ids=str, indirect=True)
def test_a_pointer_may_have_a_tag(workshop: Workshop) -> None:
    program = workshop.build("""
        #include <stdint.h>
        int total;
        NOINLINE static void apples(int n) { SAMPLE(); total += n; }
        NOINLINE static void pears(int n) { SAMPLE(); total += n; }
        NOINLINE void plums(int n) { SAMPLE(); total += n; }
        void (*volatile plain)(int) = plums;
        volatile uintptr_t tagged = uintptr_t(pears) + 1;
        int main() { ((void (*)(int))(tagged - 1))(2); plain(3); apples(total); return 0; }
    """)
    assert len(program.merged()) >= 2
    if workshop.toolchain != GOLD:  # without objects gcc's static functions have no linkage names there
        program.add_tables()
        program.check()
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    program.check()


@pytest.mark.parametrize("toolchain", [LLD], ids=str, indirect=True)
def test_clang_may_name_a_global_function_by_its_section(workshop: Workshop) -> None:
    program = workshop.build_with_tables(
        """
        int total;
        void (*volatile chosen)(int);
        NOINLINE static void apples(int) { SAMPLE(); asm volatile("nop"); }
        NOINLINE void pears(int) { SAMPLE(); asm volatile("nop"); }
        int main() { chosen = pears; apples(1); chosen(2); pears(3); return 0; }
        """,
        ["-fPIC", "-fno-semantic-interposition", "-g1"],
    )
    assert len(program.merged()) == 2
    program.check()


START = """
    int total;
    extern "C" NOINLINE void apples(int n) { SAMPLE(); total += n; }
    extern "C" NOINLINE void pears(int n) { SAMPLE(); total += n; }
    void (*volatile chosen)(int) = pears;
    int main() { chosen(1); apples(2); ++total; }
"""


@pytest.mark.parametrize("option", ["-init", "-fini"])
def test_the_loader_calls_functions_as_well(workshop: Workshop, option: str) -> None:
    program = workshop.build(START, link_flags=[f"-Wl,{option}=apples"])
    program.add_tables("--objects", *sorted(workshop.folder.glob("*.o")))
    assert program.check()["apples"] == {"unique", "ambiguous"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD, LLD_ALONE, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("evidence", ["image", "objects", "annotated"])
def test_the_linker_may_wrap_a_function(workshop: Workshop, evidence: str) -> None:
    if (workshop.toolchain.linker, evidence) == ("mold", "image"):
        pytest.skip("mold's image is not enough")
    objects = workshop.compile(
        {
            "main.cpp": """
                extern "C" { extern int total; void pay(int); void __real_pay(int); }
                void (*volatile chosen)(int) = pay;
                void (*volatile real)(int) = __real_pay;
                int main() { pay(3); ++total; chosen(4); ++total; __real_pay(5); ++total; real(6); return 0; }
            """,
            "pay.cpp": """
                extern "C" int total;
                int total;
                extern "C" NOINLINE void pay(int n) { SAMPLE(); total += n; }
                extern "C" NOINLINE void __wrap_pay(int n) { SAMPLE(); total += n; }
            """,
        }
    )
    objects.append(workshop.sampler())
    if evidence == "annotated":
        icf("annotate", *objects)
    folded, report = workshop.link("program", objects, "all", ["-Wl,--wrap=pay"])
    unfolded, _ = workshop.link("program.unfolded", objects, "none", ["-Wl,--wrap=pay"])
    program = Program(folded, unfolded, report)
    assert len(program.merged()) == 2
    program.add_tables(*(["--objects", *objects] if evidence == "objects" else ()))
    program.check()


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_an_unmerged_body_that_may_have_further_functions_may_be_jumped_to_by_a_pointer(workshop: Workshop) -> None:
    program = workshop.build_with_tables(
        """
        int total;
        namespace {
        struct Fruit { virtual void peel() { SAMPLE(); total += 1; } };
        struct Pear : Fruit { void peel() override { SAMPLE(); total += 2; } };
        Fruit *volatile chosen;
        NOINLINE void peel(Fruit *fruit) { fruit->peel(); }
        }
        int main() { Fruit fruit; Pear pear; chosen = &fruit; peel(chosen); total += 3; chosen = &pear; peel(chosen); }
        """,
        ["-g0"],
    )
    assert not program.merged()
    assert set().union(*program.check_names().values()) <= {"ambiguous", "unmerged"}


@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE], ids=str, indirect=True)
def test_a_function_that_chooses_may_be_merged(workshop: Workshop) -> None:
    program = workshop.build(
        """
        int total;
        static NOINLINE void apples() { SAMPLE(); total += 1; }
        static NOINLINE void pears() { SAMPLE(); total += 1; }
        static auto choose_apples() { return apples; }
        static auto choose_pears() { return pears; }
        __attribute__((ifunc("_ZL13choose_applesv"))) void fruit();
        __attribute__((ifunc("_ZL12choose_pearsv"))) void others();
        int main() { fruit(); total += 2; others(); total += 3; }
        """,
        link_flags=["-Wl,--export-dynamic"],
    )
    program.add_tables("--objects", *workshop.folder.glob("*.o"))
    assert len(program.merged()) == 2
    assert "contradicted" not in set().union(*program.check().values())


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
def test_split_stacks_call_into_the_middle_of_functions(workshop: Workshop) -> None:
    (workshop.folder / "flags").write_text("-fsplit-stack")  # not for the sampler: to call that the stack is split
    program = workshop.build(START, ["@flags"])
    done = workshop.link_with_pass(program, sorted(workshop.folder.glob("*.o")), "-Wl,--icf=all")  # all objects
    assert done.returncode == 0, done.stderr
    program.check()


COLD = """
    extern int total;
    int total;
    struct Crate { NOINLINE ~Crate() { SAMPLE(); ++total; } };
    NOINLINE void pay(int n) { Crate crate; if (n) throw n; total += 3; }
    NOINLINE void play(int n) { Crate crate; if (n) throw n; total += 4; }
    __attribute__((cold)) NOINLINE void apples(int n) { SAMPLE(); total += n; }
    __attribute__((cold)) NOINLINE void pears(int n) { SAMPLE(); total += n; }
    int main() {
        try { pay(1); } catch (int) { total += 5; }
        try { play(2); } catch (int) { total += 6; }
        apples(1); ++total; pears(2);
        return total == 0;
    }
"""


@pytest.mark.parametrize("toolchain", [GCC_MOLD, GOLD, MOLD], ids=str, indirect=True)
def test_a_report_names_functions_that_are_cold_as_a_whole(workshop: Workshop) -> None:
    """They are in sections of the same names as cold parts. With --gc-sections mold drops the symbols of both."""
    program = workshop.build(COLD, link_flags=["-Wl,--gc-sections"])
    program.add_tables("--icf-report", program.report)
    found = program.check()
    assert found["_Z6applesi"] == found["_Z5pearsi"] == {"unique"}
    parts = program.merged() & {frozenset({"_Z3payi"}), frozenset({"_Z4playi"})}  # mold folds none that clean up
    assert not any("unmerged" in found[min(names)] for names in parts)


SAME_NAMES = """
    extern int total;
    int total;
    template <class T> struct Jar { T item; NOINLINE void open(int n) { SAMPLE(); total += n + item; } };
    namespace {
    struct Nut { Jar<int> jar; NOINLINE void crack(int n); };
    struct Oat { Jar<unsigned> jar; NOINLINE void crack(int n); };
    NOINLINE void Nut::crack(int n) { jar.open(n); ++total; }
    NOINLINE void Oat::crack(int n) { jar.open(n); ++total; }
    }
    int main() { Nut nut{}; Oat oat{}; nut.crack(total + 1); ++total; oat.crack(total); ++total; return 0; }
"""


@pytest.mark.parametrize("toolchain", [GCC_LLD_ALONE, GCC_LLD, GCC_MOLD, LLD_ALONE], ids=str, indirect=True)
def test_local_functions_of_one_name_in_a_file_are_not_mixed_up(workshop: Workshop) -> None:
    """gcc gives them no linkage name: of two DIEs `crack` one is at the body, the other has no address any more."""
    program = workshop.build_with_tables(SAME_NAMES)
    assert len(program.merged()) >= 2
    assert set().union(*program.check().values()) <= {"unique", "unmerged"}
