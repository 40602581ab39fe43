"""Functions that leave no trace, or no symbol: a body that may have one more is never taken for one function's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from icf.tables.callunit import Dialect
from tests.e2e.program import Program, icf
from tests.e2e.workshop import GCC_MOLD, GOLD, LLD, LLD_ALONE, MOLD, Toolchain, Workshop
from tests.support.call_tables import compiler_table, install
from tests.support.toolchain import run, tool

CLANG_GOLD = Toolchain("clang", "gold")
GCC_LLD, GCC_LLD_ALONE = Toolchain("gcc", "lld", LLD.link_flags), Toolchain("gcc", "lld")


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
