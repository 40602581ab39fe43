"""Small programs with merged functions, linked once in each way that tests ask for; every test gets its own copy.

They are never run, so they need no library but what the compiler brings.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.e2e.workshop import GOLD, LLD, Toolchain, Workshop
from tests.support.toolchain import lasting_folder

GCC_LLD = Toolchain("gcc", "lld", LLD.link_flags)
CLANG_GOLD = Toolchain("clang", "gold")
GCC_MOLD = Toolchain("gcc", "mold")
CLANG_MOLD = Toolchain("clang", "mold")
FOUR = (GOLD, CLANG_GOLD, GCC_LLD, LLD)
WITH_RELOCATIONS = (GCC_LLD, LLD)

# what folds in every way: nested calls, recursion, tail calls, templates, constructors, thunks, lambdas, statics
MARKET = """
#define NOINLINE __attribute__((noinline))
#pragma GCC visibility push(hidden)
extern int total;
extern "C" void count(int);
extern "C" [[noreturn, gnu::cold]] void leave(int);
"""
FRUIT = (
    MARKET
    + """
NOINLINE void wash_apples() { count(1); ++total; }
NOINLINE void wash_pears() { count(1); ++total; }
NOINLINE void pack_apples() { wash_apples(); ++total; }
NOINLINE void pack_pears() { wash_pears(); ++total; }
NOINLINE void sell_apples() { pack_apples(); total += 2; }
NOINLINE void sell_pears() { pack_pears(); total += 2; }
NOINLINE void pass_apples() { ++total; wash_apples(); }
NOINLINE void pass_pears() { ++total; wash_pears(); }
NOINLINE int peel_apples(int n) { if (n) return peel_apples(n - 1) + 1; count(n); return total; }
NOINLINE int peel_pears(int n) { if (n) return peel_pears(n - 1) + 1; count(n); return total; }
template <class T> struct List {
    int size = 0;
    T *last = nullptr;
    NOINLINE int grow(T *item) { count(3); last = item; return ++size; }
    NOINLINE int add(T *item) { return grow(item) + 1; }
};
struct Apple {} apple;
struct Pear {} pear;
struct Stall { virtual ~Stall(); virtual int open(int); int cents; };
struct Cart { virtual int close(int); int wheels; };
struct AppleCart : Stall, Cart { AppleCart(); ~AppleCart() override; int close(int) override; int open(int) override; };
struct PearCart : Stall, Cart { PearCart(); ~PearCart() override; int close(int) override; int open(int) override; };
Stall::~Stall() { count(4); }
int Stall::open(int n) { count(n); return 1; }
int Cart::close(int n) { count(n); return 2; }
NOINLINE AppleCart::AppleCart() { count(5); cents = 7; }
NOINLINE PearCart::PearCart() { count(5); cents = 7; }
AppleCart::~AppleCart() { count(6); }
PearCart::~PearCart() { count(6); }
int AppleCart::close(int n) { count(n); return wheels; }
int PearCart::close(int n) { count(n); return wheels; }
int AppleCart::open(int n) { count(n); return cents; }
int PearCart::open(int n) { count(n); return cents; }
static NOINLINE void helper() { count(8); ++total; }
static NOINLINE void weigh_apples() { helper(); ++total; }
static NOINLINE void weigh_pears() { helper(); ++total; }
template <class F> NOINLINE int apply(F f) { count(9); return f(total) + 1; }
NOINLINE int many_apples(int n) { if (__builtin_expect(n > 99, 0)) { count(n); leave(n); } wash_apples(); return n; }
NOINLINE int many_pears(int n) { if (__builtin_expect(n > 99, 0)) { count(n); leave(n); } wash_pears(); return n; }
int from_other(int);
int main(int argc, char **) {
    sell_apples(); sell_pears(); sell_apples(); pass_apples(); pass_pears(); weigh_apples(); weigh_pears();
    List<Apple> apples; List<Pear> pears;
    AppleCart *a = new AppleCart; PearCart *p = new PearCart;
    Stall *stalls[] = {a, p}; Cart *carts[] = {a, p};
    int sum = apples.add(&apple) + pears.add(&pear) + stalls[argc % 2]->open(1) + carts[argc % 2]->close(1);
    delete stalls[argc % 2];
    helper();
    return sum + peel_apples(argc) + peel_pears(argc) + many_apples(argc) + many_pears(argc) + from_other(argc)
        + apply([](int x) NOINLINE { count(x); return 11; }) + apply([](int x) NOINLINE { count(x); return 11; });
}
"""
)
OTHER = (
    MARKET
    + """
void wash_pears(); void sell_pears();
static NOINLINE void helper() { count(8); ++total; }
namespace {
NOINLINE void hidden() { count(10); ++total; }
struct Box { NOINLINE void hidden() { count(10); ++total; } };
}
NOINLINE void wash_plums() { count(1); ++total; }
int from_other(int n) {
    helper(); wash_plums(); wash_pears(); sell_pears(); hidden(); Box().hidden();
    return n + total;
}
"""
)
BASE = (
    MARKET
    + """
int total;
extern "C" void count(int n) { total += n; __asm__ volatile("" : : : "memory"); }
extern "C" void leave(int n) { for (;;) count(n); }
"""
)
SOURCES = {"fruit.cpp": FRUIT, "other.cpp": OTHER, "base.cpp": BASE}


class Link(NamedTuple):
    """A linked image, the linker's report of its folding, and what was linked."""

    image: Path
    report: Path
    objects: tuple[Path, ...]


@cache
def _link(
    toolchain: Toolchain, sources: tuple[tuple[str, str], ...], flags: tuple[str, ...], link_flags: tuple[str, ...]
) -> Link:
    objects = _objects(toolchain.compiler, sources, flags)
    workshop = Workshop(lasting_folder(), toolchain)
    return Link(*workshop.link("program", objects, "all", link_flags), objects)


@cache
def _objects(compiler: str, sources: tuple[tuple[str, str], ...], flags: tuple[str, ...]) -> tuple[Path, ...]:
    """Compiled once for all linkers."""
    return tuple(Workshop(lasting_folder(), Toolchain(compiler, "")).compile(dict(sources), *flags))


def build(
    folder: Path,
    toolchain: Toolchain,
    sources: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
) -> Link:
    """A copy in `folder` of the program that these sources (by default the big one above) make."""
    made = _link(toolchain, tuple((sources or SOURCES).items()), tuple(flags), tuple(link_flags))
    return made._replace(image=Path(shutil.copy(made.image, folder)), report=Path(shutil.copy(made.report, folder)))
