"""gcc's clones and static functions, linked by plain lld: their DIEs have no address and not the symbol's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.aliases import is_clone
from icf.elf.image import Image
from icf.tables.load import load_tables
from linkpass.linked import Linked
from linkpass.pipeline import Options, run_pass
from tests.e2e.workshop import Toolchain
from tests.linkpass.programs import BASE, GCC_LLD, GCC_MOLD, MARKET, build

GCC_LLD_ALONE = Toolchain("gcc", "lld")

# hash() is cloned in each file that uses it (.isra, .constprop), step() and twice() are static in each
INLINE = """
struct Key { int part[4]; int rest; };
template <class T> struct Map {
    static NOINLINE int hash(const Key *key, int seed) { count(key->part[1] + seed); return key->part[1] + total; }
    int last;
    NOINLINE int find(const Key *key) { count(1); return hash(key, 7) + 1; }
};
namespace {
NOINLINE int step(int n) { count(n); return n + 3 * total; }
NOINLINE int step(long n) { count(int(n) + 1); return int(n) + 5 * total; }
}
static NOINLINE int twice(int n) { return step(n) + step(n + 1); }
int use_%(name)s(const Key *key, int n) {
    Map<int> ints; Map<unsigned> words;
    return ints.find(key) + words.find(key) + twice(n) + step(n) + step((long)n) + total;
}
"""
SOURCES = {
    **{f"{name}.cpp": MARKET + INLINE % {"name": name} for name in ("red", "green", "blue")},
    "main.cpp": MARKET
    + """
    struct Key; int use_red(const Key *, int), use_green(const Key *, int), use_blue(const Key *, int);
    int main(int n, char **v) { auto k = (const Key *)v; return use_red(k, n) + use_green(k, n) + use_blue(k, n); }
    """,
    "base.cpp": BASE,
}


def records(image_path: Path, options: Options) -> set[tuple[int, str, str]]:
    """(return address in .text, caller, callee)"""
    run_pass(str(image_path), options)
    with Image.open(image_path) as image:
        tables = load_tables(image)
        text = image.section(".text")
        assert text is not None
        columns = (
            tables.direct.call_site.tolist(),
            tables.direct.caller_die.tolist(),
            tables.direct.callee_die.tolist(),
        )
        return {
            (site - text.vaddr, tables.die_name(caller), tables.die_name(callee))
            for site, caller, callee in zip(*columns, strict=True)
        }


def folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@pytest.mark.parametrize("flags", [(), ("-gdwarf-4",), ("-O3",)], ids=" ".join)
def test_plain_lld_tells_of_clones_what_relocations_tell(flags: tuple[str, ...], tmp_path: Path) -> None:
    plain = build(folder(tmp_path, "plain"), GCC_LLD_ALONE, SOURCES, flags)
    told = build(folder(tmp_path, "told"), GCC_LLD, SOURCES, flags)
    with Image.open(plain.image) as image:
        members = [member for fold in Linked.read(image).folds.values() for member in fold.members]
    assert any(is_clone(member.name) for member in members)
    assert [member.name for member in members if not member.dies] == []
    known, expected = records(plain.image, Options()), records(told.image, Options())
    assert known <= expected and len(known) >= 12


def test_mold_tells_of_clones_what_the_objects_tell(tmp_path: Path) -> None:
    reported = build(folder(tmp_path, "reported"), GCC_MOLD, SOURCES)
    placed = build(folder(tmp_path, "placed"), GCC_MOLD, SOURCES)
    known = records(reported.image, Options(icf_report=str(reported.report)))
    expected = records(placed.image, Options(objects=tuple(map(str, placed.objects))))
    assert known <= expected and len(known) >= 12
