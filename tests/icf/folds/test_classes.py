"""Fold classes of linked programs against what the linker says it folded; and what is no fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from icf.aliases import base_name
from icf.elf.image import Image
from icf.folds.body_members import PlainRows
from icf.folds.classes import Fold, stay_rows
from icf.folds.groups import Group
from icf.folds.member import FoldMember
from icf.folds.named import ReportedFunction
from icf.folds.report import FoldedSections, parse_icf_report
from linkpass.linked import Linked
from tests.e2e.workshop import GOLD, LLD, LLD_ALONE, Toolchain
from tests.linkpass.programs import BASE, CLANG_GOLD, CLANG_MOLD, FOUR, GCC_LLD, GCC_MOLD, MARKET, Link, build
from tests.support.symbol_names import NamesOfSymbols

GCC_LLD_ALONE = Toolchain("gcc", "lld")
MOLD = (GCC_MOLD, CLANG_MOLD)
Names = frozenset[tuple[str, int]]  # how many functions of each name


def reported(link: Link) -> list[FoldedSections]:
    return [folded for folded in parse_icf_report(link.report) if folded.has_function_name]


def names_of_report(link: Link) -> set[Names]:
    return {
        frozenset(Counter(ref.function_name for ref in (folded.kept, *folded.removed)).items())
        for folded in reported(link)
        if not folded.kept.section.startswith(".text.unlikely.")  # a cold part: fragments have a test of their own
    }


def names_of(folds: Iterable[Fold], known: set[str]) -> set[Names]:
    """Names of the members of each class; of several names of one function the one that is `known`."""

    def name(member: FoldMember) -> str:
        return next((name for name in (member.name, *member.aliases) if name in known), member.name)

    return {frozenset(Counter(map(name, fold.members)).items()) for fold in folds if not fold.fragment}


def find(link: Link, *, with_report: bool = False) -> list[Fold]:
    with Image.open(link.image) as image:
        return list(Linked.read(image, reported(link) if with_report else None).folds.values())


def classes(
    folder: Path, toolchain: Toolchain, source: str, flags: Iterable[str] = (), *, with_report: bool = False
) -> list[list[str]]:
    """Sorted names of the classes of a program."""
    link = build(folder, toolchain, {"main.cpp": MARKET + source, "base.cpp": BASE}, tuple(flags))
    folds = find(link, with_report=with_report)
    return [sorted(member.name for member in fold.members) for fold in folds]


@pytest.mark.parametrize(
    ("toolchain", "with_report"),
    [
        (CLANG_GOLD, False),
        (CLANG_GOLD, True),
        (GCC_LLD, False),
        (GCC_LLD, True),
        (LLD, False),
        (LLD, True),
        (LLD_ALONE, False),
        (LLD_ALONE, True),
        (GCC_LLD_ALONE, False),
        (GCC_MOLD, True),
        (CLANG_MOLD, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("flags", [(), ("-g0",), ("-g1",)], ids=" ".join)
def test_classes_are_what_the_linker_reports(
    toolchain: Toolchain, with_report: bool, flags: tuple[str, ...], tmp_path: Path
) -> None:
    if toolchain.linker == "gold" and flags in (("-g0",), ("-g1",)) and not with_report:
        pytest.skip("gold leaves folded local functions out of the symbols: no evidence names them")
    link = build(tmp_path, toolchain, flags=flags)
    expected = names_of_report(link)
    known = {name for names in expected for name, _ in names}
    assert names_of(find(link, with_report=with_report), known) == expected
    assert len(expected) >= 8


def test_gcc_and_gold_tell_how_many_functions_share_a_body(tmp_path: Path) -> None:
    # folded static functions have neither symbol nor linkage name: their members have plain names
    link = build(tmp_path, GOLD)
    by_size = Counter(sum(count for _, count in names) for names in names_of_report(link))
    folds = [fold for fold in find(link, with_report=True) if not fold.fragment]
    assert Counter(len(fold.members) for fold in folds) == by_size
    # without the report a superfluous member may be left, never is one missing
    size_at = {fold.vaddr: len(fold.members) for fold in find(link)}
    assert all(size_at[fold.vaddr] >= len(fold.members) for fold in folds)


@pytest.mark.parametrize("toolchain", [*FOUR, LLD_ALONE, *MOLD], ids=str)
def test_the_kept_member_is_the_one_the_report_names(toolchain: Toolchain, tmp_path: Path) -> None:
    link = build(tmp_path, toolchain)
    for fold in find(link, with_report=True):
        kept = [member for member in fold.members if member.kept]
        assert len(kept) <= 1
        for folded in reported(link):
            if kept and kept[0].is_named(folded.kept.function_name):
                break
        else:
            assert not kept


ALIAS = """
    extern "C" NOINLINE void apples() { count(1); ++total; }
    extern "C" void red_apples() __attribute__((alias("apples")));
    extern "C" NOINLINE void pears() { count(1); ++total; }
    extern "C" NOINLINE void nuts() { count(2); ++total; }
    extern "C" void almonds() __attribute__((alias("nuts")));
    int main() { apples(); red_apples(); pears(); nuts(); almonds(); return 0; }
"""


@pytest.mark.parametrize("toolchain", [*FOUR, *MOLD], ids=str)
def test_an_alias_is_a_member_though_the_linker_did_not_fold_it(toolchain: Toolchain, tmp_path: Path) -> None:
    found = classes(tmp_path, toolchain, ALIAS, with_report=True)
    assert found == [["apples", "pears", "red_apples"], ["almonds", "nuts"]]


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_functions_that_the_compiler_folded_are_one_body_of_theirs(toolchain: Toolchain, tmp_path: Path) -> None:
    # gcc -fipa-icf makes one an alias of the other; the linker does not touch them, and either may have been called
    source = """
        extern "C" NOINLINE int apples(int n) { count(n); return total * 3 + n; }
        extern "C" NOINLINE int pears(int n) { count(n); return total * 3 + n; }
        int main(int c, char **) { return apples(c) + pears(c + 1); }
    """
    flags = ("-fipa-icf",) if toolchain.compiler == "gcc" else ()
    assert classes(tmp_path, toolchain, source, flags) == [["apples", "pears"]]


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_constructors_and_destructors_are_one_member_each(toolchain: Toolchain, tmp_path: Path) -> None:
    source = """
        struct Base { virtual void set(); int id; };
        void Base::set() { count(id); }
        struct Apple : Base { Apple(); ~Apple(); }; struct Pear : Base { Pear(); ~Pear(); };
        NOINLINE Apple::Apple() { count(5); } NOINLINE Apple::~Apple() { count(6); }
        NOINLINE Pear::Pear() { count(5); } NOINLINE Pear::~Pear() { count(6); }
        int main() { Apple a; Pear p; a.set(); return a.id + p.id; }
    """
    found = classes(tmp_path, toolchain, source)
    assert all(len(names) == 2 for names in found)
    assert len({name[:-4] for names in found for name in names if "Base" not in name}) <= 4


@pytest.mark.parametrize("toolchain", FOUR, ids=str)
def test_static_functions_of_one_name_are_as_many_members_as_files(toolchain: Toolchain, tmp_path: Path) -> None:
    part = (
        MARKET + "static NOINLINE void helper() { count(1); ++total; } int from_%s() { helper(); return total + %d; }"
    )
    main = MARKET + "int from_a(), from_b(); int main() { return from_a() + from_b(); }"
    sources: Mapping[str, str] = {
        "main.cpp": main,
        "a.cpp": part % ("a", 1),
        "b.cpp": part % ("b", 2),
        "base.cpp": BASE,
    }
    (fold,) = find(build(tmp_path, toolchain, sources))
    assert len(fold.members) == 2
    if toolchain.linker == "lld":  # each has its symbol, and so its file
        assert sorted(sorted(member.files) for member in fold.members) == [["a.cpp"], ["b.cpp"]]
    assert len({member.die for member in fold.members}) == 2


BASKET = """
    template <class T> struct Basket { T item; NOINLINE int weigh(int n) { count(n); return total * 3 + n; } };
"""


@pytest.mark.parametrize("toolchain", [GOLD, GCC_LLD, GCC_LLD_ALONE], ids=str)
def test_members_of_a_template_over_a_local_type_have_their_dies(toolchain: Toolchain, tmp_path: Path) -> None:
    """gcc gives them no linkage name, and lld no address once they are folded."""
    sources = {
        "pear.cpp": MARKET + BASKET + "struct Pear { int id; }; int pear(int n) { return Basket<Pear>().weigh(n); }",
        "main.cpp": MARKET + BASKET + "int pear(int n); namespace { struct Apple { int id; }; }"
        "int main(int c, char **) { return pear(c) + Basket<Apple>().weigh(c + 1); }",
        "base.cpp": BASE,
    }
    (fold,) = find(build(tmp_path, toolchain, sources))
    assert len(fold.members) == len({member.die for member in fold.members}) == 2
    assert all(member.dies for member in fold.members)


CRACK = """
    template <class T> struct Jar { int item; NOINLINE void open(int n) { count(n); total += n + item; } };
    namespace {
    struct Nut { Jar<Nut> jar; NOINLINE void crack(int n); };
    struct Oat { Jar<Oat> jar; NOINLINE void crack(int n); };
    NOINLINE void %s::crack(int n) { jar.open(n); jar.item += n; ++total; }
    NOINLINE void %s::crack(int n) { jar.open(n); jar.item += n; ++total; }
    }
    int main(int c, char **) {
        Nut nut{{c}}; Oat oat{{c}};
        nut.crack(c); oat.crack(c + 1); nut.crack(c + 2); oat.crack(c + 4);
        return nut.jar.item + oat.jar.item;
    }
"""


@pytest.mark.parametrize("toolchain", [GCC_LLD, GCC_LLD_ALONE, LLD_ALONE], ids=str)
@pytest.mark.parametrize("first", [("Nut", "Oat"), ("Oat", "Nut")], ids=" ".join)
def test_a_die_describes_one_member(toolchain: Toolchain, first: tuple[str, str], tmp_path: Path) -> None:
    """Of two DIEs `crack` one is at the body, and the other has no address any more: their classes tell them apart."""
    sources = {"main.cpp": MARKET + CRACK % first, "base.cpp": BASE}
    folds = find(build(tmp_path, toolchain, sources))
    assert len(folds) == 2
    for fold in folds:
        dies = [die for member in fold.members for die in member.dies]
        assert len(dies) == len(set(dies)) == len(fold.members)


SPLIT = """
    NOINLINE int apples(int n) { if (__builtin_expect(n > 99, 0)) { count(n); leave(n); } return total * 3; }
    NOINLINE int pears(int n) { if (__builtin_expect(n > 99, 0)) { count(n); leave(n); } return total * 3; }
    int main(int c, char **) { return apples(c) + pears(c + 1); }
"""


@pytest.mark.parametrize("toolchain", [GCC_LLD, GCC_LLD_ALONE, GCC_MOLD], ids=str)
def test_merged_cold_parts_are_fragments(toolchain: Toolchain, tmp_path: Path) -> None:
    source = SPLIT.replace("int apples(int n) {", "int apples(int n) { if (n < -9) leave(n);")
    source = source.replace("int pears(int n) {", "int pears(int n) { if (n < -9) leave(n);")
    link = build(tmp_path, toolchain, {"main.cpp": MARKET + source, "base.cpp": BASE})
    folds = find(link, with_report=toolchain.linker == "mold")
    parts = [fold for fold in folds if fold.fragment]
    whole = [fold for fold in folds if not fold.fragment]
    assert len(parts) == len(whole) == 1
    assert [base_name(member.name) for member in parts[0].members] == [member.name for member in whole[0].members]
    assert parts[0].vaddr != whole[0].vaddr


def test_a_row_stays_one_unless_something_else_at_the_body_may_belong_to_it() -> None:
    table = PlainRows(
        symbol=np.arange(3),
        symbols=NamesOfSymbols({0: "_Z1fv", 1: "_Z1gv", 2: "_Z1hv"}),
        is_local=np.zeros(3, np.bool_),
        alone=np.zeros(3, np.bool_),
        kept=np.full(3, -1, np.int8),
        str_offset=np.full(3, -1),
        start=np.array([0, 1, 2, 2]),
        die=np.array([0x10, 0x20], np.uint64),
        root=np.array([0x10, 0x20], np.uint64),
        files_of=lambda _symbol, _dies: frozenset(),
    )

    def staying(reported: Iterable[str | tuple[str, str]], *groups: Group) -> tuple[set[int], list[str]]:
        functions = [ReportedFunction(*((each,) if isinstance(each, str) else each)) for each in reported]
        rows, others = stay_rows(table, range(3), groups, functions)
        return set(rows), [name for name, _ in others]

    assert staying([]) == ({0, 1, 2}, [])
    assert staying(["_Z1fv", "_Z1gv", "_Z1hv"]) == ({0, 1, 2}, [])
    assert staying(["_Z1fv", "_Z3newv"]) == ({0, 1, 2}, ["_Z3newv"])
    assert staying(["_Z1fv", "_Z1gv.isra.0"]) == ({0, 2}, ["_Z1gv.isra.0"])  # of g, or a function beside it
    assert staying(["_Z1fv", "_Z1fv"]) == ({1, 2}, ["_Z1fv", "_Z1fv"])  # two functions of one name
    assert staying([("_Z1fv", "a.cc")]) == ({1, 2}, ["_Z1fv"])  # a local function
    # a DIE without a linkage name may describe the symbol that has no DIE
    assert staying([], Group("", "h", external=False)) == ({0, 1}, [])
    assert staying([], Group("_Z3newv", "new", external=True)) == ({0, 1, 2}, [])
