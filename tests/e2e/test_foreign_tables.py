"""`.debug_dcall` alone, as the proposal has compilers write it and as GCC 4.5 did: the resolver reads it as it is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from icf.dwarf.columns import END, OFFSET
from icf.dwarf.opening import open_debug
from icf.elf.image import Image
from icf.tables.callunit import Dialect
from icf.tables.dcall import encode_dcall, parse_dcall
from icf.tables.load import load_tables
from tests.e2e.program import Frame, Program, icf
from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, Workshop
from tests.support.call_tables import compiler_table, install
from tests.support.toolchain import run, tool

CLANG_GOLD = dataclasses.replace(GOLD, compiler="clang")
LLDS = (LLD_ALONE, dataclasses.replace(LLD_ALONE, compiler="gcc"))
GOLDS = pytest.mark.parametrize("toolchain", [GOLD, CLANG_GOLD], ids=str, indirect=True)

# nested merged callers in two files, statics, two merged callers in one unit, a tail call into a merged body
SOURCES = {
    "apples.cpp": """
        extern int total;
        static NOINLINE void peel() { SAMPLE(); total += 5; }
        static NOINLINE void cut() { peel(); total += 2; }
        NOINLINE void apples() { cut(); total += 3; }
        NOINLINE void wash() { SAMPLE(); ++total; }
        NOINLINE void pack() { wash(); ++total; }
    """,
    "pears.cpp": """
        extern int total;
        static NOINLINE void scrub() { SAMPLE(); total += 5; }
        static NOINLINE void slice() { scrub(); total += 2; }
        NOINLINE void pears() { slice(); total += 3; }
        NOINLINE void rinse() { SAMPLE(); ++total; }
        NOINLINE void crate() { rinse(); ++total; }
        NOINLINE void soak() { SAMPLE(); ++total; }
        NOINLINE void barrel() { soak(); ++total; }
        NOINLINE void relay() { total += 7; soak(); }
    """,
    "main.cpp": """
        int total;
        void apples(); void pears(); void pack(); void crate(); void barrel(); void relay();
        int main() { apples(); pears(); pack(); crate(); barrel(); relay(); return 0; }
    """,
}


GLOBALS = ("_Z6applesv", "_Z5pearsv", "_Z4washv", "_Z4packv", "_Z5cratev", "_Z6barrelv")
STATICS = ("_ZL4peelv", "_ZL5scrubv", "_ZL3cutv", "_ZL5slicev")


def merged(workshop: Workshop) -> tuple[str, ...]:
    """Functions that are merged and whose callers all say whom they mean; gold folds no local ones of clang's."""
    return GLOBALS[2:] if workshop.toolchain == CLANG_GOLD else (*GLOBALS, *STATICS)


def frames(program: Program, image: Path) -> list[Frame]:
    return [frame for stack in dataclasses.replace(program, folded=image).resolve() for frame in stack]


def check(program: Program, image: Path) -> dict[str, set[str]]:
    """Verdicts of each function; no name is wrong."""
    return dataclasses.replace(program, folded=image).check()


@pytest.mark.parametrize("toolchain", [GOLD, CLANG_GOLD, LLD, LLD_ALONE], ids=str, indirect=True)
@pytest.mark.parametrize(
    ("dialect", "dwarf64", "address_size"),
    [
        (Dialect.PROPOSAL, False, 8),
        (Dialect.PROPOSAL, True, 4),
        (Dialect.GCC, False, 8),
        (Dialect.GCC, False, 4),
        (Dialect.GCC, True, 8),
    ],
    ids=str,
)
def test_records_alone_name_what_the_whole_tables_name(
    workshop: Workshop, dialect: Dialect, dwarf64: bool, address_size: int
) -> None:
    program = workshop.build_with_tables(SOURCES)
    with Image.open(program.folded) as image:
        units = open_debug(image).units
        table, _ = encode_dcall(
            load_tables(image).direct,
            units[:, OFFSET],
            units[:, END],
            dialect=dialect,
            dwarf64=dwarf64,
            address_size=address_size,
        )
    alone = install(program.folded, table, program.folded.with_name("alone"))
    lost = set()
    for full, frame in zip(frames(program, program.folded), frames(program, alone), strict=True):
        if frame["linkage_name"] != full["linkage_name"]:
            assert frame["linkage_name"] is None and full["linkage_name"] in frame["candidates"]
            lost.add(full["linkage_name"])
    # the table has no tail calls: relay jumps into a body of three. The sampler has no debug information
    assert lost <= {"_Z4soakv", "record_stack"}
    verdicts = check(program, alone)
    for name in merged(workshop):
        assert verdicts[name] == {"unique"}, name
    assert '"evidence":"table"' in icf("resolve", "-e", alone, "--out", "json", program.folded.with_name("stacks"))


@GOLDS
def test_the_table_of_gcc_4_5(workshop: Workshop) -> None:
    program = workshop.build(SOURCES)
    table = compiler_table(program.folded, Dialect.GCC)
    assert {unit.dialect for unit in parse_dcall(table, "x").units} == {Dialect.GCC}
    verdicts = check(program, install(program.folded, table, program.folded.with_name("alone")))
    for name in merged(workshop):
        assert verdicts[name] == {"unique"}, name


@GOLDS
def test_without_caller_records_a_unit_stands_for_its_functions(workshop: Workshop) -> None:
    program = workshop.build(SOURCES)
    table = compiler_table(program.folded, Dialect.PROPOSAL)
    assert not parse_dcall(table, "x").caller_die.any()
    verdicts = check(program, install(program.folded, table, program.folded.with_name("alone")))
    for name in merged(workshop):
        assert verdicts[name] == {"unique"}, name
    # crate and barrel are one body and one unit: which of them calls rinse is not said
    assert verdicts["_Z5rinsev"] == {"narrowed"}


@pytest.mark.parametrize(
    "toolchain", [LLD_ALONE, dataclasses.replace(LLD_ALONE, compiler="gcc")], ids=str, indirect=True
)
@pytest.mark.parametrize("dialect", Dialect)
def test_records_that_lld_has_overwritten_are_no_caller_records(workshop: Workshop, dialect: Dialect) -> None:
    program = workshop.build(SOURCES)
    table = compiler_table(program.folded, dialect)
    alone = install(program.folded, table, program.folded.with_name("alone"))
    verdicts = check(program, alone)
    assert verdicts["_Z4packv"] == verdicts["_Z5cratev"] == {"unique"}  # called from what is not folded


@pytest.mark.parametrize("toolchain", [GOLD, CLANG_GOLD], ids=str, indirect=True)
@pytest.mark.parametrize("dialect", Dialect)
def test_the_pass_takes_the_table_as_evidence(workshop: Workshop, dialect: Dialect) -> None:
    program = workshop.build(SOURCES)
    install(program.folded, compiler_table(program.folded, dialect), program.folded)
    summary = json.loads(icf("pass", "--json", program.folded))
    assert summary["records_by_evidence"]["table"] >= 5
    verdicts = program.check()
    for name in merged(workshop):
        assert verdicts[name] == {"unique"}, name


@pytest.mark.parametrize("toolchain", [CLANG_GOLD], ids=str, indirect=True)
def test_a_table_whose_debug_information_is_gone_says_nothing(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    program = workshop.build(SOURCES)
    install(program.folded, compiler_table(program.folded, Dialect.GCC), program.folded)
    run(tool("objcopy"), *(f"--remove-section=.debug_{name}" for name in ("info", "abbrev", "line")), program.folded)
    verdicts = program.check()
    assert not any("unique" in found for found in verdicts.values())
    assert "records do not fit its code and are ignored" in capsys.readouterr().err
    summary = json.loads(icf("pass", "--json", program.folded))
    assert summary["dropped"]["table: callee is outside of .debug_info"] > 0
    program.check()
