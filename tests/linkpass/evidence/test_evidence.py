"""Relocations and DWARF are independent witnesses: where both speak of a call, they name the same function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.elf.image import Image
from icf.model import ClassFlag, Evidence
from icf.tables.load import Tables, load_tables
from linkpass.evidence.collect import collect
from linkpass.evidence.dwarf import from_call_sites
from linkpass.evidence.reach import Reach, find_reach
from linkpass.evidence.records import Statements
from linkpass.evidence.relocation import from_relocations
from linkpass.evidence.slots import Slots
from linkpass.linked import Linked
from linkpass.pipeline import Options, run_pass
from tests.e2e.workshop import AARCH64, GOLD, LLD, Toolchain
from tests.linkpass.programs import BASE, CLANG_GOLD, FOUR, GCC_LLD, GCC_MOLD, MARKET, WITH_RELOCATIONS, build
from tests.support.paths import ROOT

SHOP = ROOT / "testdata" / "shop"

Branch = tuple[bool, int]  # whether it is a jump; the slot of the branch and its caller


def both_witnesses(linked: Linked) -> tuple[dict[Branch, int], dict[Branch, int]]:
    """The callees of relocations and of DWARF, after a check that neither contradicts itself."""
    reach = find_reach(linked)
    linked.finder.prepare(np.concatenate([reach.source, reach.target]))
    slots = Slots.of(linked.member_counts(reach.source))
    relocations = from_relocations(linked, reach, slots)
    assert relocations is not None
    return callees(relocations, reach, slots), callees(
        from_call_sites(linked, reach, slots, linked.sites), reach, slots
    )


def callees(statements: Statements, reach: Reach, slots: Slots) -> dict[Branch, int]:
    """What each branch means in each caller, after a check that it has one meaning."""
    found = set(zip(*(column.tolist() for column in statements.columns()), strict=True))
    branches = {slot: int(slots.branch[slot]) for slot, _ in found}
    assert len(branches) == len(found)
    return {(bool(reach.is_jump[branches[slot]]), slot): callee for slot, callee in found}


def shared_keys(one: dict[Branch, int], other: dict[Branch, int], *, are_jumps: bool) -> int:
    """How many branches both know, after a check that they agree on each."""
    shared = {key for key in one.keys() & other.keys() if key[0] == are_jumps}
    assert {key: one[key] for key in shared} == {key: other[key] for key in shared}
    return len(shared)


def records(path: Path) -> tuple[Tables, set[tuple[str, str, Evidence]]]:
    """Tables of an image, and its records as (caller, callee, evidence)."""
    with Image.open(path) as image:
        tables = load_tables(image)
        columns = (tables.direct.caller_die.tolist(), tables.direct.callee_die.tolist(), tables.icf.evidence)
        named = {
            (tables.die_name(caller), tables.die_name(callee), Evidence(evidence))
            for caller, callee, evidence in zip(*columns, strict=True)
        }
    return tables, named


@pytest.mark.parametrize("toolchain", [*WITH_RELOCATIONS, AARCH64], ids=str)
@pytest.mark.parametrize("flags", [(), ("-O1",), ("-O3", "-fPIC"), ("-gdwarf-4",)], ids=" ".join)
def test_relocations_and_dwarf_name_the_same_callees(
    toolchain: Toolchain, flags: tuple[str, ...], tmp_path: Path
) -> None:
    link_flags = ("-nostdlib", "-Wl,--unresolved-symbols=ignore-all") if toolchain is AARCH64 else ()
    program = build(tmp_path, toolchain, flags=flags, link_flags=link_flags)
    with Image.open(program.image) as image:
        linked = Linked.read(image)
        relocations, dwarf = both_witnesses(linked)
    assert shared_keys(relocations, dwarf, are_jumps=False) >= 12
    shared_keys(relocations, dwarf, are_jumps=True)


def test_relocations_and_dwarf_agree_on_the_shop() -> None:
    with Image.open(SHOP / "shop.lld") as image:
        relocations, dwarf = both_witnesses(Linked.read(image))
    assert shared_keys(relocations, dwarf, are_jumps=False) == 2
    assert shared_keys(relocations, dwarf, are_jumps=True) == 1


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_each_caller_has_its_own_record_for_a_shared_call(toolchain: Toolchain, tmp_path: Path) -> None:
    program = build(tmp_path, toolchain)
    run_pass(str(program.image), Options())
    _, found = records(program.image)
    pairs = {(caller, callee) for caller, callee, _ in found}
    for fruit, length in (("apples", 11), ("pears", 10)):
        pack, sell = f"_Z{length}pack_{fruit}v", f"_Z{length}sell_{fruit}v"
        wash = f"_Z{length}wash_{fruit}v"
        assert {(pack, wash), (sell, pack), ("main", sell)} <= pairs
    assert ("_Z10from_otheri", "_Z10wash_plumsv") in pairs
    assert ("_Z10from_otheri", "_Z10sell_pearsv") in pairs
    assert ("_Z11pack_applesv", "_Z10wash_pearsv") not in pairs
    assert {callee for caller, callee in pairs if caller.startswith("_ZN4List")} == {
        "_ZN4ListI5AppleE4growEPS0_", "_ZN4ListI4PearE4growEPS0_",
    }  # fmt: skip


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_a_tail_call_is_recorded_for_each_caller(toolchain: Toolchain, tmp_path: Path) -> None:
    program = build(tmp_path, toolchain)
    run_pass(str(program.image), Options())
    tables, found = records(program.image)
    with Image.open(program.image) as image:
        icf = load_tables(image).icf
    names = {
        tuple(icf.classes[ref.class_idx].members[ref.member_idx].name for ref in (tail.caller, tail.callee))
        for tail in icf.tail_calls
    }
    assert {("_Z11pass_applesv", "_Z11wash_applesv"), ("_Z10pass_pearsv", "_Z10wash_pearsv")} <= names
    assert ("_Z11pass_applesv", "_Z10wash_pearsv") not in names
    # what is called here is not merged with nothing but a jump into a merged body
    assert ("main", "_Z11pass_applesv") in {(caller, callee) for caller, callee, _ in found}


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_recursion_is_a_call_of_oneself(toolchain: Toolchain, tmp_path: Path) -> None:
    source = (
        MARKET
        + """
        NOINLINE int *apples(int n) { int *p = n ? apples(n - 1) : 0; count(n); return p ? p : &total; }
        NOINLINE int *pears(int n) { int *p = n ? pears(n - 1) : 0; count(n); return p ? p : &total; }
        int main(int c, char **) { return *apples(c) + *pears(c + 1); }
    """
    )
    program = build(tmp_path, toolchain, {"main.cpp": source, "base.cpp": BASE})
    run_pass(str(program.image), Options())
    pairs = {(caller, callee) for caller, callee, _ in records(program.image)[1]}
    folded = {("main", "_Z6applesi"), ("main", "_Z5pearsi")}
    itself = {("_Z6applesi", "_Z6applesi"), ("_Z5pearsi", "_Z5pearsi")}
    assert folded <= pairs <= folded | itself  # linkers differ in whether they fold functions that name themselves


@pytest.mark.parametrize("toolchain", [GOLD, CLANG_GOLD, GCC_LLD, LLD], ids=str)
def test_a_weaker_witness_does_not_change_what_a_better_one_said(toolchain: Toolchain, tmp_path: Path) -> None:
    program = build(tmp_path, toolchain)
    with Image.open(program.image) as image:
        linked = Linked.read(image)
        collected = collect(linked)
        reach = find_reach(linked)
        relocations = from_relocations(linked, reach, Slots.of(linked.member_counts(reach.source)))
    found = collected.records
    kinds = {Evidence(kind) for kind in found.evidence[found.is_known & ~reach.is_jump[found.slots.branch]]}
    if relocations is None:
        assert toolchain.linker == "gold" and kinds <= {Evidence.DWARF, Evidence.DECODED}
    else:
        assert kinds <= {Evidence.DWARF, Evidence.RELOCATION, Evidence.DECODED}
        slots, callee = relocations.columns()
        assert len(slots) and (found.callee[slots] == callee).all()
        assert (found.evidence[slots] == Evidence.RELOCATION).all()


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_called_cold_functions_are_functions(toolchain: Toolchain, tmp_path: Path) -> None:
    # LLVM's hot-cold splitting makes functions of such names, which are called, unlike gcc's parts
    source = (
        MARKET
        + """
        int apples_cold(int) __asm__("_Z6applesi.cold.1"); int pears_cold(int) __asm__("_Z5pearsi.cold.1");
        NOINLINE int apples_cold(int n) { count(n); return total + 1; }
        NOINLINE int pears_cold(int n) { count(n); return total + 1; }
        NOINLINE int apples(int n) { if (n > 9) return apples_cold(n) + 1; return total * 2; }
        NOINLINE int pears(int n) { if (n > 9) return pears_cold(n) + 1; return total * 3; }
        int main(int c, char **) { return apples(c) + pears(c + 1); }
    """
    )
    program = build(tmp_path, toolchain, {"main.cpp": source, "base.cpp": BASE})
    run_pass(str(program.image), Options())
    tables, found = records(program.image)
    assert {(caller, callee) for caller, callee, _ in found} == {
        ("_Z6applesi", "_Z6applesi.cold.1"), ("_Z5pearsi", "_Z5pearsi.cold.1"),
    }  # fmt: skip
    assert not any(fold.flags & ClassFlag.FRAGMENT for fold in tables.icf.classes)


@pytest.mark.parametrize("link_flags", [(), ("-Wl,--gc-sections",)], ids=" ".join)
def test_clones_of_a_function_that_units_share_are_one_function(link_flags: tuple[str, ...], tmp_path: Path) -> None:
    """Each unit has its own. mold overwrites their addresses in DWARF; with --gc-sections it drops their symbols."""
    shared = (
        MARKET
        + """
        struct Apple {}; struct Pear {};
        template <class T> NOINLINE int scaled(T *, int n, int by) { count(n); return total * by + n; }
        """
    )
    sources = {
        "apples.cpp": shared + "int apples(int n) { return scaled((Apple *)0, n, 3) + 1; }",
        "pears.cpp": shared + "int pears(int n) { return scaled((Pear *)0, n, 3) + 2; }",
        "main.cpp": shared
        + """
        int apples(int); int pears(int);
        int main(int c, char **) {
          return apples(c) + pears(c) + scaled((Apple *)0, c, 3) * 2 + scaled((Pear *)0, c, 3) * 5;
        }
        """,
        "base.cpp": BASE,
    }
    program = build(tmp_path, GCC_MOLD, sources, link_flags=link_flags)
    run_pass(str(program.image), Options(icf_report=str(program.report)))
    tables, found = records(program.image)
    (fold,) = tables.icf.classes
    names = [tables.die_name(member.die) for member in fold.members]
    assert sorted(names) == sorted(set(names)) and len(names) == 2
    apple, pear = (f"_Z6scaledI{kind}EiPT_ii.isra.0" for kind in ("5Apple", "4Pear"))
    assert {(caller, callee) for caller, callee, _ in found} == {
        ("main", apple), ("main", pear), ("_Z6applesi", apple), ("_Z5pearsi", pear),
    }  # fmt: skip
