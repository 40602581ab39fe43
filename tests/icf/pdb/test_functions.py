"""Fold classes of a PDB: what is a member, and which linkage name it has."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from icf.microsoft_names import demangle_microsoft
from icf.model import MemberFlag
from icf.pdb.functions import find_bodies, is_complete, read_procedures
from icf.pe.debugfile import attach_pdb
from icf.pe.image import PeImage
from tests.support.toolchain import lasting_folder
from tests.support.windows import RUNTIME, compile_windows, link_windows, shop

ODD = """
volatile int total;
#define KEEP __attribute__((noinline))
extern "C" int bare(int);
struct Key { int a; }; struct Lock { int b; };
enum Kind { small };
// overloads whose parameters tell them apart
KEEP int turn(Key*) { return total += 5; }
KEEP int turn(Lock*) { return total += 5; }
KEEP int turn(const Key&, unsigned char) { return total += 5; }
KEEP int call(int (*f)(Key*)) { return f(0) + 77; }
KEEP int call(int (*f)(Lock*)) { return f(0) + 77; }
// a type that is not spelled out: nothing says whose name is whose
KEEP int point(int Key::*p) { return total += 78; }
KEEP int point(int Lock::*p) { return total += 78; }
namespace { KEEP int hidden(int v) { return total += v * 9; } }
static KEEP int second(int v) { return total += v * 9; }
template <int N> KEEP int sized(Kind) { return total += 33; }
struct Functor {
    KEEP int operator()(int) { return total += 41; }
    KEEP bool operator<(const Functor&) { return total += 42; }
};
struct Other {
    KEEP int operator()(int) { return total += 41; }
    KEEP bool operator<(const Other&) { return total += 42; }
};
extern "C" int mainCRTStartup() {
    Functor f; Other g;
    return turn((Key*)0) + turn((Lock*)0) + turn(Key(), 1) + call((int (*)(Key*))turn) + call((int (*)(Lock*))turn)
        + point(&Key::a) + point(&Lock::b)
        + hidden(1) + second(2) + sized<1>(small) + sized<2>(small) + f(1) + g(2) + (f < f) + (g < g) + bare(1);
}
"""
BARE = """
extern int total_of_bare;
int total_of_bare;
int bare(int value) { return total_of_bare += value * 1234; }
"""


def members_of(path: Path) -> tuple[dict[str, set[str]], bool]:
    """Return the members of each body, by each of their names, and whether the PDB has them all."""
    found: dict[str, set[str]] = {}
    with PeImage.open(str(path)) as image:
        attach_pdb(image, None, ())
        assert image.pdb is not None
        code = [(each.vaddr - image.base, each.vaddr - image.base + each.size_bytes) for each in image.code_sections]
        for body in find_bodies(image.pdb, read_procedures(image.pdb), code):
            texts = {
                each.name + "?" * bool(each.flags & MemberFlag.NAMELESS)
                if each.name[0] != "?"
                else demangle_microsoft(each.name)
                for each in body.members
            }
            for text in texts:
                found[text] = texts
        return found, is_complete(image.pdb)


@cache
def odd(*, described: bool) -> Path:
    flags = ("-O1",) if described else ("-O1", "-g0")
    inputs = compile_windows(RUNTIME + ODD), compile_windows(BARE, *flags, "-xc", suffix=".c", name="bare")
    return link_windows(lasting_folder(), *inputs)


def test_folded_functions_are_members_with_their_linkage_names() -> None:
    found, complete = members_of(shop())
    assert complete
    assert found["sales::tax(int)"] == {"sales::tax(int)", "costs::tax(int)"}
    assert found["discount(int)"] == {"discount(int)", "discount(unsigned int)"}
    assert found["rebate?"] == {"rebate?"}  # its code is another: nothing uses what it returns
    add = "List<struct {}>::add(struct {} *)".format
    assert found[add("Order", "Order")] == {add("Order", "Order"), add("Payment", "Payment")}
    assert found["mainCRTStartup"] == {"mainCRTStartup"}


def test_parameters_tell_overloads_apart() -> None:
    found, _ = members_of(odd(described=True))
    names = {"turn(struct Key *)", "turn(struct Lock *)", "turn(struct Key const &, unsigned char)"}
    assert found["turn(struct Key *)"] == names
    calls = {f"call(int (__cdecl *)(struct {name} *))" for name in ("Key", "Lock")}
    assert found[min(calls)] == calls


def test_what_nothing_tells_apart_has_no_linkage_name() -> None:
    found, _ = members_of(odd(described=True))
    assert found["point?"] == {"point?"}  # two members


def test_internal_linkage_leaves_the_name_of_the_record() -> None:
    found, _ = members_of(odd(described=True))
    assert found["second?"] == {"second?"}
    assert found["`anonymous namespace'::hidden?"] == {"`anonymous namespace'::hidden?"}


@pytest.mark.parametrize(
    "name", ["sized<1>(enum Kind)", "Functor::operator()(int)", "Functor::operator<(struct Functor const &)"]
)
def test_templates_and_operators(name: str) -> None:
    found, _ = members_of(odd(described=True))
    other = name.replace("Functor", "Other").replace("1", "2")
    assert {name, other} <= found[name]


def test_a_module_without_debug_information_leaves_classes_incomplete() -> None:
    assert members_of(odd(described=True))[1]
    found, complete = members_of(odd(described=False))
    assert not complete and found["bare"] == {"bare"}  # a public symbol alone
