"""Calls of folded functions whose addresses the linker overwrote.

What --emit-relocs says of the same objects is the truth: a function is found in the other image by its name, a
call by its distance from the function's start.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.elf.image import Image
from icf.folds.report import parse_icf_report
from icf.model import Evidence
from linkpass.evidence.collect import collect
from linkpass.linked import Linked
from tests.e2e.workshop import GCC_MOLD, LLD, LLD_ALONE, MOLD, Toolchain
from tests.linkpass.programs import BASE, GCC_LLD, MARKET, Link, build

GCC_LLD_ALONE = Toolchain("gcc", "lld")
WITHOUT_RELOCATIONS = (LLD_ALONE, GCC_LLD_ALONE, MOLD, GCC_MOLD)
every_toolchain = pytest.mark.parametrize("toolchain", WITHOUT_RELOCATIONS, ids=str)

Branch = tuple[str, int]  # caller, distance of the instruction's end from the body's start
Named = dict[Branch, tuple[str, Evidence]]


def callees(program: Link, toolchain: Toolchain) -> Named:
    """Who calls whom: the records of merged callers and callees."""
    report = parse_icf_report(program.report) if toolchain.linker == "mold" else None
    with Image.open(program.image) as image:
        linked = Linked.read(image, report)
        collected = collect(linked)
        reach, records = collected.reach, collected.records
        found = {}
        for slot in np.flatnonzero(records.is_known).tolist():
            branch, member = records.slots.branch[slot], int(records.slots.member[slot])
            source, target = int(reach.source[branch]), int(reach.target[branch])
            if source in linked.folds and target in linked.folds:
                caller, callee = linked.members(source)[member], linked.members(target)[records.callee[slot]]
                found[caller.name, int(reach.end[branch]) - source] = callee.name, Evidence(records.evidence[slot])
        return found


def aligned(found: Named) -> dict[Branch, str]:
    return {branch: callee for branch, (callee, evidence) in found.items() if evidence is Evidence.ALIGNED}


def both(folder: Path, toolchain: Toolchain, sources: dict[str, str] | None, *flags: str) -> tuple[Named, Named]:
    """What is found in the image of this toolchain, and in one with relocations, after a check that they agree."""
    found = callees(build(folder, toolchain, sources, flags), toolchain)
    told = LLD if toolchain.compiler == "clang" else GCC_LLD
    truth = callees(build(folder, told, sources, flags), told)
    assert not aligned(truth)
    for branch, callee in aligned(found).items():
        assert truth[branch][0] == callee, branch
    return found, truth


def program(body: str) -> dict[str, str]:
    return {"fruit.cpp": MARKET + FRUIT + body, "base.cpp": BASE}


FRUIT = """
NOINLINE void wash_apples() { count(1); ++total; }
NOINLINE void wash_pears() { count(1); ++total; }
NOINLINE void peel_apples() { count(1); ++total; }
NOINLINE void peel_pears() { count(1); ++total; }
"""
APPLES, PEARS = "_Z11cook_applesv", "_Z10cook_pearsv"
MAIN = "int main() { cook_apples(); cook_pears(); return total; }"


def callees_of(caller: str, found: Named) -> list[str]:
    return [callee for (name, _), (callee, _) in sorted(found.items()) if name == caller]


@every_toolchain
@pytest.mark.parametrize("flags", [(), ("-O1",), ("-O3",), ("-gdwarf-4",), ("-fPIC",)], ids=" ".join)
def test_nothing_contradicts_the_relocations(toolchain: Toolchain, flags: tuple[str, ...], tmp_path: Path) -> None:
    found, _ = both(tmp_path, toolchain, None, *flags)
    assert len(aligned(found)) >= 3


@every_toolchain
def test_calls_of_different_callees_are_told_apart_by_their_order(toolchain: Toolchain, tmp_path: Path) -> None:
    found, truth = both(
        tmp_path,
        toolchain,
        program("""
        NOINLINE void cook_apples() { wash_apples(); ++total; peel_apples(); ++total; }
        NOINLINE void cook_pears() { peel_pears(); ++total; wash_pears(); ++total; }
        """ + MAIN),
    )  # fmt: skip
    assert callees_of(APPLES, found) == ["_Z11wash_applesv", "_Z11peel_applesv"]
    assert callees_of(PEARS, found) == ["_Z10peel_pearsv", "_Z10wash_pearsv"]
    assert len(aligned(found)) == 2  # those of the one that was folded
    assert {branch: callee for branch, (callee, _) in found.items()} == {
        branch: callee for branch, (callee, _) in truth.items()
    }


@every_toolchain
def test_a_callee_that_is_called_throughout_needs_no_order(toolchain: Toolchain, tmp_path: Path) -> None:
    found, _ = both(
        tmp_path,
        toolchain,
        program("""
        static inline __attribute__((always_inline)) void twice_apples() { wash_apples(); ++total; wash_apples(); }
        static inline __attribute__((always_inline)) void twice_pears() { wash_pears(); ++total; wash_pears(); }
        NOINLINE void cook_apples() { twice_apples(); ++total; wash_apples(); ++total; }
        NOINLINE void cook_pears() { twice_pears(); ++total; wash_pears(); ++total; }
        """ + MAIN),
    )  # fmt: skip
    assert callees_of(APPLES, found) == 3 * ["_Z11wash_applesv"]
    assert callees_of(PEARS, found) == 3 * ["_Z10wash_pearsv"]


@every_toolchain
def test_different_callees_in_different_scopes_stay_open(toolchain: Toolchain, tmp_path: Path) -> None:
    found, _ = both(
        tmp_path,
        toolchain,
        program("""
        static inline __attribute__((always_inline)) void start_apples() { wash_apples(); ++total; }
        static inline __attribute__((always_inline)) void start_pears() { wash_pears(); ++total; }
        NOINLINE void cook_apples() { start_apples(); peel_apples(); ++total; }
        NOINLINE void cook_pears() { start_pears(); peel_pears(); ++total; }
        """ + MAIN),
    )  # fmt: skip
    assert len(aligned(found)) == (2 if toolchain.compiler == "clang" else 0)  # clang knows one scope only


@pytest.mark.parametrize("rows", [1, 7])
def test_callees_that_are_looked_up_in_parts_are_the_same(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = callees(build(tmp_path, LLD_ALONE), LLD_ALONE)
    monkeypatch.setattr("linkpass.evidence.callees._ROWS", rows)
    assert aligned(whole) and callees(build(tmp_path, LLD_ALONE), LLD_ALONE) == whole


@pytest.mark.parametrize("toolchain", [GCC_LLD_ALONE, LLD_ALONE], ids=str)
def test_calls_of_imports_through_the_got_spoil_nothing(toolchain: Toolchain, tmp_path: Path) -> None:
    found, _ = both(
        tmp_path,
        toolchain,
        program("""
        #pragma GCC visibility push(default)
        extern "C" int getpid();
        #pragma GCC visibility pop
        NOINLINE void cook_apples() { total += getpid(); wash_apples(); total -= getpid(); }
        NOINLINE void cook_pears() { total += getpid(); wash_pears(); total -= getpid(); }
        """ + MAIN),
        "-fno-plt",
    )  # fmt: skip
    assert callees_of(APPLES, found) == ["_Z11wash_applesv"]
    assert callees_of(PEARS, found) == ["_Z10wash_pearsv"]
    assert len(aligned(found)) == 1


def test_a_call_that_the_compiler_says_nothing_of_spoils_the_count(tmp_path: Path) -> None:
    found, _ = both(
        tmp_path,
        LLD_ALONE,
        program("""
        __attribute__((nodebug)) NOINLINE void slice_apples() { count(1); ++total; }
        __attribute__((nodebug)) NOINLINE void slice_pears() { count(1); ++total; }
        NOINLINE void cook_apples() { slice_apples(); ++total; wash_apples(); ++total; }
        NOINLINE void cook_pears() { slice_pears(); ++total; wash_pears(); ++total; }
        """ + MAIN),
    )  # fmt: skip
    assert len(callees_of(APPLES, found)) + len(callees_of(PEARS, found)) == 1  # the kept one's, from DWARF
    assert aligned(found) == {}


def test_a_local_namesake_of_a_member_is_not_taken_for_it(tmp_path: Path) -> None:
    """Each file has a `helper`: one folds with what nobody describes, the other is what is called."""
    main = """
        static NOINLINE void helper() { count(1); ++total; }
        __attribute__((nodebug)) NOINLINE void slice_apples() { count(1); ++total; }
        NOINLINE void squash_apples() { count(2); total += 3; }
        NOINLINE void cook_apples() { squash_apples(); ++total; slice_apples(); ++total; }
        void cook_pears();
        int main() { helper(); cook_apples(); cook_pears(); return total; }
    """
    other = """
        static NOINLINE void helper() { count(2); total += 3; }
        __attribute__((nodebug)) NOINLINE void slice_pears() { count(1); ++total; }
        NOINLINE void cook_pears() { helper(); ++total; slice_pears(); ++total; }
    """
    sources = {"fruit.cpp": MARKET + main, "other.cpp": MARKET + other, "base.cpp": BASE}
    found, truth = both(tmp_path, LLD_ALONE, sources)
    assert [callees_of(caller, truth)[0] for caller in (APPLES, PEARS)] == ["_Z13squash_applesv", "_ZL6helperv"]
    assert aligned(found) == {}


@every_toolchain
def test_tail_calls(toolchain: Toolchain, tmp_path: Path) -> None:
    found, _ = both(
        tmp_path,
        toolchain,
        program("""
        NOINLINE void cook_apples() { ++total; wash_apples(); }
        NOINLINE void cook_pears() { ++total; wash_pears(); }
        """ + MAIN),
    )  # fmt: skip
    assert callees_of(APPLES, found) == ["_Z11wash_applesv"]
    assert callees_of(PEARS, found) == ["_Z10wash_pearsv"]
    assert len(aligned(found)) == 1


@every_toolchain
def test_copies_of_a_function_in_several_units_agree(toolchain: Toolchain, tmp_path: Path) -> None:
    header = MARKET + """
        template <class T> struct List {
            NOINLINE void grow(T *item) { count(3); last = item; }
            NOINLINE void add(T *item) { grow(item); ++total; }
            T *last = nullptr;
        };
        struct Apple {}; struct Pear {};
    """  # fmt: skip
    use = "List<Apple> apples%d; List<Pear> pears%d; void use%d() { apples%d.add(nullptr); pears%d.add(nullptr); }"
    sources = {f"use{n}.cpp": header + use.replace("%d", str(n)) for n in range(3)}
    sources["base.cpp"] = BASE + "void use0(), use1(), use2(); int main() { use0(); use1(); use2(); return total; }"
    found, _ = both(tmp_path, toolchain, sources)
    assert callees_of("_ZN4ListI5AppleE3addEPS0_", found) == ["_ZN4ListI5AppleE4growEPS0_"]
    assert callees_of("_ZN4ListI4PearE3addEPS0_", found) == ["_ZN4ListI4PearE4growEPS0_"]
    assert len(aligned(found)) == 1
