"""Kinds of images: how it was linked, at what debug level, and what the pass leaves alone."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace

import pytest

from tests.e2e.fruit import FRUIT, STATIC_FRUIT, assert_all_named, toolchains
from tests.e2e.program import Program, icf
from tests.e2e.workshop import AARCH64, AARCH64_GOLD, GOLD, LLD, LLD_ALONE, Workshop
from tests.support.toolchain import run, tool


@pytest.mark.parametrize(
    ("flags", "link_flags"),
    [
        (["-fPIE"], ["-pie"]),
        (["-fno-pie"], ["-no-pie"]),
        (["-fno-pie"], ["-static"]),
        (["-fPIE"], ["-pie", "-Wl,-z,now"]),
        (["-O1"], []),
        (["-Os"], []),
        (["-gdwarf-4"], []),
        (["-gdwarf-5"], []),
        (["-gz=zlib"], ["-Wl,--compress-debug-sections=zlib"]),
        (["-fdebug-types-section"], []),
        (["-fcf-protection=full"], []),
        (["-fno-plt"], []),
        (["-fno-asynchronous-unwind-tables", "-fno-exceptions", "-fno-omit-frame-pointer", "-funwind-tables"], []),
    ],
    ids=lambda flags: " ".join(flags) or "-",
)
def test_every_kind_of_executable(workshop: Workshop, flags: list[str], link_flags: list[str]) -> None:
    assert_all_named(workshop.build_with_tables(FRUIT, flags, link_flags))


@toolchains(AARCH64, AARCH64_GOLD)
def test_aarch64(workshop: Workshop) -> None:
    assert_all_named(workshop.build_with_tables(FRUIT))


def test_safe_folding_leaves_functions_whose_address_is_taken(workshop: Workshop) -> None:
    part = """
        extern int total;
        struct %(name)s {};
        template <class T> struct List { NOINLINE void grow() { SAMPLE(); ++total; } };
        void %(name)s_grow() { List<%(name)s>().grow(); total += %(line)d; }
    """
    main = "int total; void Apple_grow(); void Pear_grow(); int main() { Apple_grow(); Pear_grow(); return 0; }"
    parts = {f"{name}.cpp": part % {"name": name, "line": line} for line, name in enumerate(("Apple", "Pear"), 3)}
    program = workshop.build({"main.cpp": main, **parts}, folding="safe")
    program.add_tables()
    verdicts = program.check()
    expected = "unique" if program.merged() else "unmerged"
    assert verdicts["_ZN4ListI5AppleE4growEv"] == verdicts["_ZN4ListI4PearE4growEv"] == {expected}


@toolchains(GOLD)
def test_an_image_that_dwz_has_packed(workshop: Workshop) -> None:
    # dwz moves what two units share into a partial unit
    more = "struct Crate { int count; Crate *next; long weight[9]; } %s;"
    program = workshop.build({"main.cpp": FRUIT + more % "first", "more.cpp": more % "second"})
    run(tool("dwz"), program.folded)
    program.add_tables()
    assert_all_named(program)


@pytest.mark.parametrize(
    "command",
    ["objcopy", "objcopy --compress-debug-sections=zlib", "llvm-objcopy-19 --compress-debug-sections=zstd"],
)
def test_the_tables_outlive_a_copy(workshop: Workshop, command: str) -> None:
    program = workshop.build_with_tables(FRUIT)
    name, *options = command.split()
    run(tool(name), *options, program.folded)
    assert_all_named(program)


@pytest.mark.parametrize("command", ["strip -g", "strip", "llvm-strip-19 -g"])
def test_without_its_tables_an_image_gives_no_wrong_name(workshop: Workshop, command: str) -> None:
    program = workshop.build_with_tables(FRUIT)
    name, *options = command.split()
    run(tool(name), *options, program.folded)
    verdicts = program.check()
    assert verdicts["_Z6applesv"] <= {"ambiguous", "unknown"}


def test_tables_whose_strings_were_stripped_are_refused(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    # eu-strip leaves sections that it does not know, and removes the strings they point to
    program = workshop.build_with_tables(FRUIT)
    run(tool("eu-strip"), "-g", program.folded)
    capsys.readouterr()
    icf("dump", program.folded, status=1)
    assert capsys.readouterr().err.startswith(f"icf: error: {program.folded}: .debug_icf+0x")


@pytest.mark.parametrize("level", ["-g1", "-g0"])
def test_less_debug_info_is_never_a_wrong_name(workshop: Workshop, level: str) -> None:
    workshop.build_with_tables(FRUIT, [level]).check()


@toolchains(LLD)
@pytest.mark.parametrize("level", ["-g1", "-g0"])
def test_relocations_name_what_kept_code_calls_without_debug_info(workshop: Workshop, level: str) -> None:
    verdicts = workshop.build_with_tables(FRUIT, [level]).check()
    assert verdicts["_Z6applesv"] == verdicts["_Z5pearsv"] == {"unique"}


@toolchains(GOLD)
def test_the_report_tells_of_static_functions_that_the_linker_dropped_from_the_symbols(workshop: Workshop) -> None:
    program = workshop.build(STATIC_FRUIT, ["-g0"])
    program.add_tables("--icf-report", program.report)
    program.check()


@toolchains(GOLD)
@pytest.mark.xfail(reason="nothing in the image tells of them: needs the report")
def test_static_functions_that_the_linker_dropped_from_the_symbols(workshop: Workshop) -> None:
    workshop.build_with_tables(STATIC_FRUIT, ["-g0"]).check()


@toolchains(LLD_ALONE, replace(LLD_ALONE, compiler="gcc"))
def test_lld_without_relocations_is_never_a_wrong_name(workshop: Workshop) -> None:
    workshop.build_with_tables(FRUIT).check()


@toolchains(LLD_ALONE)
def test_debug_info_aligned_with_the_code_names_functions_without_relocations(workshop: Workshop) -> None:
    assert_all_named(workshop.build_with_tables(FRUIT))


@toolchains(GOLD)
def test_the_linkers_report_is_taken_for_what_folded(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    program.add_tables("--icf-report", program.report)
    assert_all_named(program)


def build_library(workshop: Workshop) -> Program:
    """FRUIT's functions in a shared object, called by its loader and by themselves through its PLT."""
    sources = {
        "fruit.cpp": FRUIT.replace("int main()", 'extern "C" int market()'),
        "loader.cpp": 'extern "C" int market(); void wash_pears(); int main() { wash_pears(); return market() > 9; }',
    }
    fruit, loader = workshop.compile(sources, "-fPIC")
    objects = [fruit, workshop.sampler("-fPIC")]
    images, loaders, reports = [], [], []
    for icf_option in ("all", "none"):
        name = f"fruit.{icf_option}.so"
        image, report = workshop.link(name, objects, icf_option, ["-shared", f"-Wl,-soname,{name}"])
        images.append(image)
        reports.append(report)
        loaders.append(workshop.link(f"loader.{icf_option}", [loader, image], "none")[0])
    return Program(images[0], images[1], reports[0], (loaders[0], loaders[1]))


def test_a_shared_object_whose_calls_go_through_its_plt(workshop: Workshop) -> None:
    program = build_library(workshop)
    program.add_tables()
    # apples() and pears() call through different PLT entries, so they are not folded
    assert program.merged() == {frozenset({"_Z11wash_applesv"}), frozenset({"_Z10wash_pearsv"})}
    program.check()
    from_loader, *from_market = program.resolve()
    assert from_loader[1]["verdict"] == "ambiguous"  # nothing in the library tells what its loader calls
    assert [frames[1]["linkage_name"] for frames in from_market] == [
        "_Z11wash_applesv", "_Z10wash_pearsv", "_Z11wash_applesv",
    ]  # fmt: skip


def test_a_callback_from_a_library_is_never_guessed(workshop: Workshop) -> None:
    program = workshop.build_with_tables("""
        #include <stdlib.h>
        NOINLINE int by_price(const void *a, const void *b) { SAMPLE(); return *(const int *)a - *(const int *)b; }
        NOINLINE int by_weight(const void *a, const void *b) { SAMPLE(); return *(const int *)a - *(const int *)b; }
        int main() {
            int fruit[2] = {2, 1};
            qsort(fruit, 2, sizeof(int), by_price);
            qsort(fruit, 2, sizeof(int), by_weight);
        }
    """)
    assert len(program.merged()) == 2
    verdicts = program.check()
    assert verdicts["_Z8by_pricePKvS0_"] == verdicts["_Z9by_weightPKvS0_"] == {"ambiguous"}


def test_a_second_pass_changes_nothing(workshop: Workshop) -> None:
    program = workshop.build_with_tables(FRUIT)
    once = program.folded.read_bytes()
    program.add_tables(*workshop.pass_options(program))
    assert program.folded.read_bytes() == once


def test_the_same_input_gives_the_same_bytes(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    outs = [workshop.folder / "one", workshop.folder / "two"]
    for out in outs:
        program.add_tables("-o", out)
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_output_beside_the_input_leaves_the_input(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    before = program.folded.read_bytes()
    out = workshop.folder / "out"
    program.add_tables("-o", out)
    assert program.folded.read_bytes() == before
    assert out.read_bytes() != before


def test_mode_build_id_and_behaviour_stay(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    program.folded.chmod(0o751)
    stacks = program.stacks()
    notes = run(tool("readelf"), "-nW", program.folded).stdout
    program.add_tables()
    assert stat.S_IMODE(program.folded.stat().st_mode) == 0o751
    assert program.stacks() == stacks
    assert run(tool("readelf"), "-nW", program.folded).stdout == notes


def test_a_symbolic_link_is_followed(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    link = workshop.folder / "link"
    link.symlink_to(program.folded.name)
    icf("pass", link)
    assert link.is_symlink()
    assert_all_named(program)


def test_the_tables_verify(workshop: Workshop) -> None:
    program = workshop.build_with_tables(FRUIT)
    assert icf("verify", program.folded).endswith(
        "5 call sites, 0 tail calls, 0 virtual calls, 0 vtables: all agree with the code\n"
    )


def test_other_tools_still_read_the_image(workshop: Workshop) -> None:
    def errors() -> list[str]:
        # gold's own output has some: members of one fold class overlap
        lines = run(tool("llvm-dwarfdump"), "--verify", program.folded, check=False).stdout.splitlines()
        return [line for line in lines if line.startswith(("error", "warning"))]

    program = workshop.build(FRUIT)
    before = errors()
    program.add_tables()
    assert errors() == before
    assert run(tool("readelf"), "-aW", "--debug-dump=info,line,ranges", program.folded).stderr == ""
    assert "main.cpp" in run(tool("gdb"), "-nx", "-batch", "-ex", "info line main", program.folded).stdout
    run(tool("strip"), "-g", program.folded, "-o", workshop.folder / "stripped")
    run(tool("objcopy"), "--only-keep-debug", program.folded, workshop.folder / "debug")


def test_a_stripped_image_is_never_a_wrong_name(workshop: Workshop) -> None:
    for option in ("--strip-debug", "--strip-all"):
        program = workshop.build(FRUIT)
        run(tool("strip"), option, program.folded)
        before = program.folded.read_bytes()
        status = 0
        try:
            program.add_tables()
        except AssertionError:
            status = 1
        if status:
            assert program.folded.read_bytes() == before
        else:
            program.check()


@toolchains(GOLD)
@pytest.mark.parametrize("kind", ["text", "empty", "object", "truncated", "missing", "directory"])
def test_what_cannot_be_passed_is_an_error_and_stays(
    workshop: Workshop, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = workshop.folder / "input"
    if kind == "text":
        target.write_text("#!/bin/sh\n")
    elif kind == "empty":
        target.touch()
    elif kind == "object":
        shutil.copy(workshop.compile("int main() {}")[0], target)
    elif kind == "truncated":
        program = workshop.build(FRUIT)
        target.write_bytes(program.folded.read_bytes()[:4000])
    elif kind == "directory":
        target.mkdir()
    before = target.read_bytes() if target.is_file() else None
    files = sorted(os.listdir(workshop.folder))

    icf("pass", target, status=1)

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("icf: error: ")
    assert str(target) in lines[0]
    assert (target.read_bytes() if target.is_file() else None) == before
    assert sorted(os.listdir(workshop.folder)) == files  # no temporary file is left


@toolchains(GOLD)
def test_a_failing_write_leaves_the_input(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    program = workshop.build(FRUIT)
    before = program.folded.read_bytes()
    icf("pass", program.folded, "-o", workshop.folder / "no-such-folder" / "out", status=1)
    assert "no-such-folder" in capsys.readouterr().err
    assert program.folded.read_bytes() == before


@toolchains(LLD)
def test_relocations_serve_the_pass_and_are_taken_out_again(workshop: Workshop) -> None:
    program = workshop.build(FRUIT)
    assert ".rela.text" in run(tool("readelf"), "-SW", program.folded).stdout
    program.add_tables("--drop-relocations")
    assert ".rela.text" not in run(tool("readelf"), "-SW", program.folded).stdout
    assert_all_named(program)
    icf("verify", program.folded)
