"""Programs that mislead: control comes to a merged function by a way that the call before it does not show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from icf.tables.callunit import Dialect
from tests.e2e.program import Program, icf
from tests.e2e.workshop import AARCH64, GCC_MOLD, GOLD, LLD, LLD_ALONE, MOLD, Toolchain, Workshop
from tests.support.call_tables import compiler_table, install
from tests.support.toolchain import run, tool

CLANG_GOLD = Toolchain("clang", "gold")
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


@pytest.mark.parametrize("toolchain", [LLD_ALONE], ids=str, indirect=True)
def test_a_function_without_debug_information_is_no_alias(workshop: Workshop) -> None:
    source = 'extern "C" NOINLINE int %s(int n) { asm volatile("nop"); return n + 1; }'
    objects = workshop.compile(
        {
            "main.cpp": 'extern "C" { int bare(int); int known(int); } int main() { return known(1) + bare(2); }',
            "known.cpp": source % "known",
        }
    )
    bare = workshop.compile({"bare.cpp": source % "bare"}, "-g0")
    image, _ = workshop.link("program", [*objects, *bare], "all")
    icf("pass", image)
    (merged,) = json.loads(icf("dump", "--folds", "--json", image))["classes"]
    assert [member["name"] for member in merged["members"]] == ["bare", "known"]


UNSEEN = {
    "called": "static NOINLINE void hidden(int n) { SAMPLE(); total += n; } void enter(int n) { hidden(n); ++total; }",
    "in-a-table": "static void hidden(int n) { SAMPLE(); total += n; } void (*volatile const table[])(int) = {hidden};"
    "void enter(int n) { table[0](n); ++total; }",
    "virtual": "namespace { struct Hidden { virtual void hidden(int n) { SAMPLE(); total += n; } }; }"
    "Hidden object; Hidden *volatile chosen = &object; void enter(int n) { chosen->hidden(n); ++total; }",
}


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("way", UNSEEN)
def test_a_static_function_without_debug_information_leaves_no_trace(workshop: Workshop, way: str) -> None:
    member = "struct Seen { void seen(int); }; NOINLINE void Seen::seen(int n) { SAMPLE(); total += n; }"
    plain = "NOINLINE void seen(int n) { SAMPLE(); total += n; }"
    call = "Seen().seen(1)" if way == "virtual" else "seen(1)"
    seen = f"int total; {member if way == 'virtual' else plain}"
    main = f"{seen} void enter(int); int main() {{ {call}; ++total; enter(2); ++total; }}"
    objects = workshop.compile({"main.cpp": main})
    objects += workshop.compile({"bare.cpp": f"extern int total; {UNSEEN[way]}"}, "-g0", "-fno-devirtualize")
    objects.append(workshop.sampler())
    program = workshop.program(objects)
    assert len(program.merged()) == 2
    program.add_tables()
    verdicts = {frames[1]["verdict"] for frames in program.resolve()}
    assert verdicts == {"ambiguous"}  # with the one candidate that is known


@pytest.mark.parametrize("toolchain", [CLANG_GOLD, GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("level", ["-g0", "-g1"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_unit_may_describe_only_some_of_its_functions(workshop: Workshop, level: str, is_kept: bool) -> None:
    """At -g1 clang describes `enter_hidden`, as `more` is inlined there, and not `hidden`."""
    source = """
        extern int total;
        static void more() { ++total; }
        static NOINLINE void NAME(int n) { SAMPLE(); total += n; }
        void leaf(int);
        void enter_NAME(int n) { NAME(n); more(); leaf(n); total += sizeof("NAME"); }
    """
    (bare,) = workshop.compile({"bare.cpp": source.replace("NAME", "hidden")}, level)
    main = "int total; void enter_seen(int), enter_hidden(int); void leaf(int n) { total += n; }"
    main += "int main() { enter_seen(1); ++total; enter_hidden(2); }"
    seen, *others = workshop.compile({"seen.cpp": source.replace("NAME", "seen"), "main.cpp": main})
    objects = [*((bare, seen) if is_kept else (seen, bare)), *others, workshop.sampler()]
    program = workshop.program(objects)
    assert len(program.merged()) == 2
    program.add_tables()
    program.check_names()


TOTAL = "extern int total; int total;"
SEEN = "extern int total; NOINLINE void seen(int n) { SAMPLE(); total += n; }"
HIDDEN = "extern int total; static NOINLINE void hidden(int n) { SAMPLE(); total += n; }"
CALLED = (
    f"{SEEN} void enter(int); int main() {{ seen(1); ++total; enter(2); ++total; }}",
    f"{HIDDEN} void enter(int n) {{ hidden(n); ++total; }}",
)
CONSTRUCTED = (
    f"{SEEN} __attribute__((constructor)) static void first() {{ seen(total); ++total; }} int main() {{ }}",
    f"{HIDDEN} __attribute__((constructor)) static void enter() {{ hidden(total); ++total; }}",
)
DEEPER = (
    f"{SEEN} NOINLINE void outer(int n) {{ seen(n); total += 5; }} void enter(int);"
    "int main() { outer(1); ++total; enter(2); ++total; }",
    f"{HIDDEN} static NOINLINE void covered(int n) {{ hidden(n); total += 5; }}"
    "void enter(int n) { covered(n); ++total; }",
)
FROM_A_TABLE = (
    f"{DEEPER[0].partition('void enter')[0]} using Op = void (*)(int); extern Op volatile table[2];"
    "int main() { outer(1); ++total; table[1](2); ++total; }",
    f"{DEEPER[1].partition('void enter')[0]} using Op = void (*)(int); extern Op volatile table[2];"
    "Op volatile table[2] = {nullptr, covered};",
)


@pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)
@pytest.mark.parametrize(
    ("sources", "file_symbol", "link_flags"),
    [
        (CALLED, True, ["-Wl,-x"]),
        (CALLED, False, []),
        (CONSTRUCTED, True, []),
        (FROM_A_TABLE, True, []),
        (DEEPER, True, []),
    ],
    ids=["no-local-symbols", "no-file-symbol", "constructor", "table", "deeper"],
)
def test_an_object_without_debug_information_may_be_folded_whole(
    workshop: Workshop, sources: tuple[str, str], file_symbol: bool, link_flags: list[str]
) -> None:
    objects = [*workshop.compile({"main.cpp": sources[0], "total.cpp": TOTAL}), workshop.sampler("-g")]
    (bare,) = workshop.compile({"bare.cpp": sources[1]}, "-g0")
    if not file_symbol:
        run(tool("objcopy"), "--strip-symbol=bare.cpp", bare)
    folded, report = workshop.link("program", [*objects, bare], "all", link_flags)
    unfolded, _ = workshop.link("program.unfolded", [*objects, bare], "none")
    program = Program(folded, unfolded, report)
    assert len(program.merged()) >= 2
    traceless = {"_ZL6hiddeni", "_ZL7coveredi", "_ZL5enterv"}
    foreign = install(folded, compiler_table(folded, Dialect.PROPOSAL), folded.with_name("foreign"))
    assert names_of_nobody(replace(program, folded=foreign), traceless) == {"ambiguous"}
    program.add_tables()
    assert names_of_nobody(program, traceless) == {"ambiguous"}


def names_of_nobody(program: Program, traceless: set[str]) -> set[str]:
    """The verdicts that functions got of which the linker left no trace; no frame has a wrong name."""
    verdicts = set()
    for frames, truths in zip(program.resolve(), program.truth(), strict=True):
        for frame, truth in zip(frames, truths, strict=True):
            if truth & traceless:
                verdicts.add(frame["verdict"])
            assert frame["linkage_name"] is None or frame["linkage_name"] in truth, f"{frame}: {sorted(truth)}"
    return verdicts


@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE, MOLD, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("link_flags", [[], ["-Wl,-x"]], ids=["", "no-local-symbols"])
def test_an_image_without_tables_may_not_name_every_function(workshop: Workshop, link_flags: list[str]) -> None:
    main, other = CALLED
    program = workshop.build({"main.cpp": main, "other.cpp": other, "total.cpp": TOTAL}, link_flags=link_flags)
    if not program.merged():
        pytest.skip("nothing was folded")
    assert "unmerged" not in names_of_nobody(program, {"_ZL6hiddeni", "_Z4seeni"})


@pytest.mark.parametrize("toolchain", [LLD_ALONE, replace(LLD_ALONE, compiler="gcc")], ids=str, indirect=True)
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_local_symbols_may_have_been_left_out(workshop: Workshop, debug: str) -> None:
    main, other = CALLED
    objects = workshop.compile({"main.cpp": main, "total.cpp": TOTAL})
    objects += workshop.compile({"other.cpp": other}, debug)
    objects.append(workshop.sampler())
    folded, report = workshop.link("program", objects, "all", ["-Wl,-x"])
    unfolded, _ = workshop.link("program.unfolded", objects, "none")
    program = Program(folded, unfolded, report)
    if not program.merged():
        pytest.skip("nothing was folded")
    program.add_tables()
    assert names_of_nobody(program, {"_ZL6hiddeni"}) == {"ambiguous"}


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


LOCALS = """
    int total;
    static NOINLINE void apples() { SAMPLE(); ++total; }
    static NOINLINE void pears() { SAMPLE(); ++total; }
    int main() { apples(); total += 1; pears(); total += 2; return 0; }
"""


@pytest.mark.parametrize("toolchain", [GCC_LLD_ALONE, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_no_function_of_a_body_may_have_a_symbol(workshop: Workshop, debug: str) -> None:
    """Also where a version script makes others local."""
    objects = [*workshop.compile(LOCALS, debug), workshop.sampler()]
    script = workshop.folder / "locals.map"
    script.write_text("{ local: *; };")
    unfolded, _ = workshop.link("program.unfolded", objects, "none")
    folded, report = workshop.link("program", objects, "all", ["-Wl,-x", f"-Wl,--version-script={script}"])
    program = Program(folded, unfolded, report)
    linked = folded.read_bytes()
    given: list[list[str | Path]] = [["--icf-report", report], ["--objects", *objects]]
    for options in (None, *[[]][workshop.toolchain.linker == "mold" :], *given):  # mold's image is not enough
        folded.write_bytes(linked)
        if options is not None:
            program.add_tables(*options)
        for frames, truth in zip(program.resolve(), ("apples", "pears"), strict=True):
            assert (frames[1]["name"] or truth).removesuffix("()") == truth


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


TYPEDEFS = """
    extern int total;
    int total;
    typedef unsigned long Size;
    template <class F> NOINLINE __attribute__((noclone)) void each(F f, int n) { SAMPLE(); f(n); total += n; }
    int main() {
        each([](Size n) { total += n; }, total + 1); ++total;
        each([](unsigned long n) { total += n; }, total); ++total;
        each([](unsigned long n) { total += 2 * n; }, total); ++total;
        return 0;
    }
"""


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD_ALONE, GCC_LLD, GCC_MOLD, LLD_ALONE], ids=str, indirect=True)
def test_types_of_parameters_as_the_source_has_them_identify_no_function(workshop: Workshop) -> None:
    """gcc describes `each<main()::<lambda(Size)> >`, and gold leaves its symbol alone of two that it folds."""
    program = workshop.build_with_tables(TYPEDEFS)
    assert len(program.merged()) >= 2
    assert not names_of_nobody(program, set())


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD_ALONE], ids=str, indirect=True)
def test_a_die_of_a_local_function_describes_none_with_external_linkage(workshop: Workshop) -> None:
    """`run` fits the symbol of Out::run, which has no DIE; gold drops the symbol of Hidden::run."""
    method = "NOINLINE __attribute__((noclone)) void %s(int n) { SAMPLE(); total += n; cents += total; }"
    bare = "extern int total; struct %s { int cents; void %s(int n); };"
    bare = f"{bare % ('Out', 'run')} {bare % ('Other', 'walk')} {method % 'Out::run'} {method % 'Other::walk'}"
    bare += "void enter(int n) { Out out{n}; out.run(n); ++total; Other other{n}; other.walk(n); ++total; }"
    main = "namespace { struct Hidden { int cents; void run(int n); };" + method % "Hidden::run" + "}"
    main = f"int total; void enter(int); {main} int main() {{ enter(1); Hidden h{{2}}; h.run(total); ++total; }}"
    objects = [*workshop.compile({"bare.cpp": bare}, "-g0"), *workshop.compile({"main.cpp": main}), workshop.sampler()]
    program = workshop.program(objects)
    assert len(program.merged()) == 3
    program.add_tables()
    hidden = "_ZN12_GLOBAL__N_16Hidden3runEi"
    assert names_of_nobody(program, {hidden}) == {"unique"}


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


UNSIGNED = """
    extern int total;
    int total;
    template <class T> NOINLINE void eat(T *a) { SAMPLE(); *a += 3; }
    static NOINLINE void apple(int *a) { SAMPLE(); *a += 1; }
    static NOINLINE void pear(int *a) { SAMPLE(); *a += 1; }
    int main() { apple(&total); pear(&total); eat((unsigned *)&total); eat(&total); return total == 7; }
"""


@pytest.mark.parametrize("toolchain", [LLD, MOLD, GCC_MOLD], ids=str, indirect=True)
def test_an_image_that_no_longer_says_who_linked_it_claims_no_more(workshop: Workshop) -> None:
    """Packagers remove .comment; mold drops the symbols of what it folds, so one name may stand for several."""
    program = workshop.build(UNSIGNED, ["-g1"])
    run("objcopy", "--remove-section=.comment", program.folded)
    program.add_tables()
    program.check()


ASSEMBLY = r"""
    int total;
    extern "C" NOINLINE void visit() { SAMPLE(); total += 1; }
    extern "C" { void apples(), pears(); }
    #define WRITE(name, type) __asm__(".section .text." #name ",\"ax\"\n" type #name ":\n.cfi_startproc\n" \
        "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\ncall visit\nadd $8, %rsp\nret\n.cfi_endproc\n.previous");
    WRITE(apples, ".globl apples\n.type apples, @function\n") WRITE(pears, ".globl pears\n" TYPE)
    int main() { apples(); total += 1; pears(); total += 2; return 0; }
"""


@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE, GCC_MOLD], ids=str, indirect=True)
@pytest.mark.parametrize("kind", [r".type pears, @function\n", ""], ids=["no-size", "no-type"])
def test_symbols_of_assembly_may_lack_a_size_or_a_type(workshop: Workshop, kind: str) -> None:
    """gold drops the symbol of `pears`."""
    program = workshop.build(ASSEMBLY, [f'-DTYPE="{kind}"'])
    assert len({frames[2]["address"] for frames in program.resolve()}) == 1
    for options in (None, workshop.pass_options(program)):
        if options is not None:
            program.add_tables(*options)
        for frames, truth in zip(program.resolve(), ("apples", "pears"), strict=True):
            assert frames[2]["linkage_name"] in {None, truth}, frames
