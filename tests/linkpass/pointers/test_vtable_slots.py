"""The member in each slot of each vtable, against the same objects linked without folding."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from icf.elf.image import Image
from icf.folds.report import parse_icf_report
from icf.linkinputs.inputs import open_inputs
from icf.model import ALL_MEMBERS
from icf.vtables.layout import Vtables
from linkpass.linked import Linked
from linkpass.objects.functions import LinkObjects
from linkpass.objects.placed_functions import find_reported
from linkpass.pointers.slots_by_object import SlotsByObject
from linkpass.pointers.vtable_slots import VtableSlots, find_slots
from tests.e2e.workshop import (
    AARCH64,
    AARCH64_GOLD,
    AARCH64_MOLD,
    GCC_MOLD,
    GOLD,
    LLD,
    LLD_ALONE,
    MOLD,
    Toolchain,
    Workshop,
)
from tests.support.toolchain import lasting_folder, run, tool

CLANG_GOLD = replace(GOLD, compiler="clang")
GCC_LLD = replace(LLD, compiler="gcc")
GCC_LLD_ALONE = replace(LLD_ALONE, compiler="gcc")
HERE = (GOLD, CLANG_GOLD, LLD, GCC_LLD, LLD_ALONE, GCC_LLD_ALONE, MOLD, GCC_MOLD)
ABROAD = (AARCH64, AARCH64_GOLD, AARCH64_MOLD)

CLASSES = """
#include <exception>
extern int total;
#define ADDS { return total += n; }
#define TAKES { return total -= n; }
struct Base { virtual ~Base(); virtual int get(int); virtual int put(int); long base = 1; };
struct Other { virtual ~Other(); virtual int look(int); virtual int find(int); long other = 2; };
struct Copied { virtual ~Copied(); virtual Copied *copy(); long copied = 3; };

template <int N> struct Single : Base { int get(int n) override ADDS virtual int more(int) { return 1; } };
template <int N> struct Deeper : Single<N> { int put(int n) override TAKES int more(int) override { return 1; } };
template <int N> struct Multiple : Base, Other { // thunks
    int get(int n) override ADDS int look(int n) override ADDS ~Multiple() override { --total; }
};
template <int N> struct Twice : Single<N>, Multiple<N> { int look(int n) override { return total ^= n; } };
template <int N> struct Left : virtual Base { int get(int n) override { return total *= n; } long left = N; };
template <int N> struct Right : virtual Base { int put(int n) override { return total *= n; } long right = N; };
template <int N> struct Both : Left<N>, Right<N> { // construction vtables
    Both() { total += this->get(1); } ~Both() override { --total; } int put(int n) override { return total /= n; }
};
template <int N> struct Nearly : virtual Other {}; // shares its base's place
template <int N> struct Covers : Base, Copied { Covers *copy() override { ++total; return this; } }; // covariant
template <int N> struct Thrown : std::exception { const char *what() const noexcept override { return "no"; } };
template <int N> struct Empty {
    virtual int one() { return 0; } virtual int two() { return 0; } virtual void three() const {}
};
template <int N> struct Same : Empty<N> { int two() override { return 0; } int two(int) { return 0; } };
template <int N> struct Abstract {
    virtual int need() = 0; virtual int have() { return need(); } virtual ~Abstract() { ++total; }
};
template <int N> struct Real : Abstract<N> { int need() override { return N + 7 - N; } };
int kinds();
namespace {
struct Local : Base { int get(int n) override ADDS };
struct Nested { struct Local : Base { int put(int n) override TAKES }; };
}
template <int N> int make() {
    struct Inner : Base { int get(int n) override ADDS };
    int sum = 0;
    Base *bases[] = {new Single<N>, new Deeper<N>, new Multiple<N>, new Left<N>, new Right<N>, new Both<N>, new Inner,
                     new Covers<N>, static_cast<Single<N> *>(new Twice<N>), new Local, new Nested::Local};
    for (Base *base : bases) { sum += base->get(1) + base->put(2); delete base; }
    Other *others[] = {new Multiple<N>, new Twice<N>, new Nearly<N>};
    for (Other *other : others) { sum += other->look(1) + other->find(2); delete other; }
    Copied *copied = new Covers<N>;
    delete copied->copy();
    Empty<N> *empty[] = {new Empty<N>, new Same<N>};
    for (auto one : empty) { one->three(); sum += one->one() + one->two(); }
    Abstract<N> *real = new Real<N>;
    sum += real->have() + static_cast<Single<N> *>(bases[1])->more(1);
    delete real;
    std::exception *thrown = new Thrown<N>;
    sum += thrown->what()[0];
    delete thrown;
    return sum;
}
"""
MAIN = (
    CLASSES
    + """
int total = 1;
Base::~Base() { ++total; } int Base::get(int n) { return n; } int Base::put(int n) { return n; }
Other::~Other() { ++total; } int Other::look(int n) { return n; } int Other::find(int n) { return n; }
Copied::~Copied() { ++total; } Copied *Copied::copy() { return this; }
int main() { return make<1>() + make<2>() + kinds(); }
"""
)
SECOND = CLASSES + "int kinds() { return make<3>() + make<2>(); }\n"
SOURCES = {"main.cpp": MAIN, "second.cpp": SECOND}
Place = tuple[str, str, int, int]  # symbol of the group, its source file, which of those, offset


class Built(NamedTuple):
    """One program, with and without folding."""

    image: Path
    unfolded: Path
    report: Path
    objects: list[Path]


@cache
def compile_objects(compiler: str, flags: tuple[str, ...]) -> list[Path]:
    shop = Workshop(lasting_folder(), Toolchain(compiler, "lld"))
    return shop.compile(SOURCES, "-fPIC", *flags)


@cache
def build(toolchain: Toolchain, flags: tuple[str, ...] = (), link_flags: tuple[str, ...] = ()) -> Built:
    shop = Workshop(lasting_folder(), toolchain)
    objects = compile_objects(toolchain.compiler, flags)
    image, report = shop.link("program", objects, "all", link_flags)
    unfolded, _ = shop.link("program.unfolded", objects, "none", link_flags)
    return Built(image, unfolded, report, objects)


def places(vtables: Vtables, image: Image) -> dict[int, tuple[str, str, int]]:
    """What stands at the start of each group."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    symbols = image.symbols
    for start, row in zip(vtables.groups.start.tolist(), vtables.groups.symbol.tolist(), strict=True):
        key = symbols.name(row), symbols.file_name(row)
        found[start] = (*key, seen[key])
        seen[key] += 1
    return found


def read_truth(path: Path) -> dict[Place, set[str]]:
    """The names at the address in each slot, where nothing is folded."""
    with Image.open(path) as image:
        vtables = Vtables(image)
        names: dict[int, set[str]] = {}
        for row in image.symbols.functions.tolist():
            names.setdefault(int(image.symbols.value[row]), set()).add(image.symbols.name(row))
        at = places(vtables, image)
        starts = vtables.groups.start[vtables.slots.group].tolist()
        slots = zip(starts, vtables.slots.place.tolist(), vtables.slots.target.tolist(), strict=True)
        return {(*at[start], place - start): names[target] for start, place, target in slots if target in names}


def compare(built: Built, *, with_objects: bool = False, with_report: bool = False) -> Counter[str]:
    """How many slots of merged bodies are named right, named wrong, or open."""
    truth = read_truth(built.unfolded)
    objects = LinkObjects(open_inputs(list(map(str, built.objects)))) if with_objects else None
    report = parse_icf_report(built.report) if with_report else None
    with Image.open(built.image) as image:
        told = (
            find_reported(image, report, objects) if with_report and image.linker.kept_symbols.may_lack_some else report
        )
        linked = Linked.read(image, told)
        vtables = Vtables(image)
        found = find_slots(linked, vtables, None if objects is None else SlotsByObject(linked.image, vtables, objects))
        at = places(vtables, image)
        score: Counter[str] = Counter()
        for vtable, group, slot, body, idx in rows(found):
            if idx == ALL_MEMBERS:
                score["open"] += 1
            elif body in linked.folds:
                symbol, file, nth = at[group]
                offset = vtable - group + 8 * slot
                names = truth.get((symbol, file, nth, offset), set())
                if not names:  # without the names of files one of two vtables of one name
                    names = set().union(*(own for key, own in truth.items() if (key[0], key[3]) == (symbol, offset)))
                right = any(map(linked.members(body)[idx].is_named, names))
                score["right" if right else f"{at[group]} slot {slot}: {names}"] += 1
    return score


def rows(found: VtableSlots) -> list[tuple[int, int, int, int, int]]:
    return list(zip(*(column.tolist() for column in found), strict=True))


def check(score: Counter[str], share: float) -> None:
    assert set(score) <= {"right", "open"}, score
    assert score["right"] > 20 and score["right"] >= share * score.total(), score


@pytest.mark.parametrize("toolchain", (*HERE, *ABROAD), ids=str)
def test_objects_name_all(toolchain: Toolchain) -> None:
    # all but folded vtables
    check(compare(build(toolchain), with_objects=True, with_report=True), 0.9)


@pytest.mark.parametrize("toolchain", [LLD, GCC_LLD, AARCH64], ids=str)
def test_relocations_name_all(toolchain: Toolchain) -> None:
    check(compare(build(toolchain)), 1.0)


@pytest.mark.parametrize("toolchain", [GOLD, CLANG_GOLD, LLD_ALONE, GCC_LLD_ALONE, AARCH64_GOLD], ids=str)
def test_the_class_names_most(toolchain: Toolchain) -> None:
    check(compare(build(toolchain)), 0.6)


@pytest.mark.parametrize("flags", [("-g0",), ("-O0",), ("-fno-rtti",), ("-gdwarf-4", "-O3")], ids=" ".join)
@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE, GCC_LLD], ids=str)
def test_however_it_was_compiled(toolchain: Toolchain, flags: tuple[str, ...]) -> None:
    built = build(toolchain, flags)
    if flags == ("-fno-rtti",):  # a linker that folds data may have folded any vtable, and leaves no trace
        expected = {"right"} if toolchain is GOLD else {"open"}
        assert set(compare(built, with_objects=True, with_report=True)) == expected
        assert set(compare(built)) == {"open"}
    else:
        check(compare(built), 0.1)  # without debug information gold has lost most names
        check(compare(built, with_objects=True, with_report=True), 0.9)


LINKS = [("-no-pie",), ("-static",), ("-shared",), ("-shared", "-Wl,-Bsymbolic")]


@pytest.mark.parametrize("link_flags", [*LINKS, ("-static-pie",), ("-Wl,-z,pack-relative-relocs",)], ids=" ".join)
@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE], ids=str)
def test_however_it_was_linked(toolchain: Toolchain, link_flags: tuple[str, ...]) -> None:
    if toolchain is GOLD and link_flags not in LINKS:
        pytest.skip("gold does not know the option")
    built = build(toolchain, (), link_flags)
    check(compare(built), 0.4)
    check(compare(built, with_objects=True, with_report=True), 0.9)


@pytest.mark.parametrize("option", ["--strip-all", "--discard-all", "--strip-debug"])
@pytest.mark.parametrize("toolchain", [GOLD, LLD_ALONE], ids=str)
def test_names_that_were_stripped_make_no_wrong_ones(toolchain: Toolchain, option: str, tmp_path: Path) -> None:
    built = build(toolchain, (), ("-shared",))
    run(tool("strip"), option, "-o", tmp_path / "stripped", built.image)
    score = compare(built._replace(image=tmp_path / "stripped"))
    assert set(score) <= {"right", "open"}, score
