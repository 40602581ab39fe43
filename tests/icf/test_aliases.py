"""Names of one source function: constructor variants, clones, cold parts; and names that only look like these."""

from __future__ import annotations

import doctest

import pytest

from icf import aliases
from icf.aliases import base_name, function_name, is_abstract, is_clone, is_cold_part, same_function

SAME = [
    ("main", "main"),
    ("_ZN3FooC1Ev", "_ZN3FooC2Ev"),
    ("_ZN3FooC2Ev", "_ZN3FooC3Ev"),  # C3: the allocating constructor
    ("_ZN3FooC1Ev", "_ZN3FooC4Ev"),  # C4: what gcc calls the constructor as such
    ("_ZN3FooC4Ev", "_ZN3FooC5Ev"),  # C5: the group of both
    ("_ZN3FooD1Ev", "_ZN3FooD2Ev"),
    ("_ZN3FooD4Ev", "_ZN3FooD2Ev"),
    ("_ZN1C1EC1Ev", "_ZN1C1EC2Ev"),  # class E within class C: its name has "C1" as well
    ("_ZN3FooIiEC1Ev", "_ZN3FooIiEC2Ev"),  # constructor of a template
    ("_ZN3FooC1IiEET_", "_ZN3FooC2IiEET_"),  # template constructor
    ("_ZN3FooC1ERKS_", "_ZN3FooC2ERKS_"),
    ("_ZN3FooC1B5cxx11Ev", "_ZN3FooC2B5cxx11Ev"),
    ("_ZN3FooCI13BarEi", "_ZN3FooCI23BarEi"),  # inherits a constructor of Bar
    ("_ZThn16_N3FooD1Ev", "_ZThn16_N3FooD2Ev"),  # thunks
    ("_ZZN3FooC1EvENKUlvE_clEv", "_ZZN3FooC2EvENKUlvE_clEv"),  # a lambda in a constructor
    ("_ZZN3FooC4EvENKUlvE_clEv", "_ZZN3FooC2EvENKUlvE_clEv"),
    ("_ZZN3FooC1EvEN5LocalC1Ev", "_ZZN3FooC2EvEN5LocalC2Ev"),  # constructor of a class in a constructor
    ("_ZN3FooC1Ev.cold", "_ZN3FooC2Ev.cold"),
    ("foo", "foo.localalias"),  # gcc's symbol for calls within the file
    ("_ZN3FooC1Ev.localalias.2", "_ZN3FooC2Ev"),
]
DIFFERENT = [
    ("main", "mean"),
    ("_ZN3FooD0Ev", "_ZN3FooD1Ev"),  # D0 frees the memory, too
    ("_ZN3FooD0Ev", "_ZN3FooD2Ev"),
    ("_ZN3FooD3Ev", "_ZN3FooD2Ev"),  # there is no D3
    ("_ZN3FooC1Ev", "_ZN3FooD1Ev"),
    ("_ZN3FooC1Ev", "_ZN3FooC1Ei"),
    ("_ZN3FooC1Ei", "_ZN3FooC2Ej"),
    ("_ZN3FooC1Ev", "_ZN3GooC1Ev"),
    ("_ZN3FooIiEC1Ev", "_ZN3FooIjEC2Ev"),
    ("_ZN3FooCI13BarEi", "_ZN3FooC13BarEi"),
    ("fooC1", "fooC2"),
    ("_Z5fooC1v", "_Z5fooC2v"),  # functions fooC1() and fooC2()
    ("_ZN5FooC13barEv", "_ZN5FooC23barEv"),  # FooC1::bar() and FooC2::bar()
    ("_ZN3MD23getEv", "_ZN3MD53getEv"),  # MD2::get() and MD5::get()
    ("_ZN3RC13getEv", "_ZN3RC43getEv"),
    ("_ZN3MD43getEv", "_ZN3MD53getEv"),
    ("_ZN3RC4C1Ev", "_ZN3RC2C2Ev"),  # constructors of RC4 and RC2
    ("_Z5fooC4v", "_Z5fooC2v"),
    ("_Z3getI3BC1EvT_", "_Z3getI3BC5EvT_"),
    ("_ZN2C1C1Ev", "_ZN2C2C1Ev"),  # classes C1 and C2
    ("_ZN2C1C1Ev", "_ZN2C2C2Ev"),
    ("_ZN2D1D0Ev", "_ZN2D1D1Ev"),
    ("_Z1fILi1EEvv", "_Z1fILi2EEvv"),
    ("_ZZN3FooC1EvENKUlvE_clEv", "_ZZN3FooC1EvENKUlvE0_clEv"),  # two lambdas of one constructor
    ("_ZC1", "_ZC2"),  # no mangled names
    ("_ZN1r13Pool$LT$T$GT$3add17h0123456789abcde1E", "_ZN1r13Pool$LT$T$GT$3add17h0123456789abcde2E"),  # of different T
    ("_ZN1r4Pool3add17hC1E", "_ZN1r4Pool3add17hC2E"),
    ("init.llvm.1", "init.llvm.2"),  # of two files
    ("init.lto_priv.0", "init.lto_priv.1"),
    ("init", "init.lto_priv.0"),
    ("init.__uniq.1", "init.__uniq.2"),
    ("init.1", "init.2"),
    ("_ZN3FooC1Ev.llvm.1", "_ZN3FooC2Ev.llvm.2"),
    ("\udc80C1", "\udc80C2"),
    ("", "_Z"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_variants_of_one_function(first: str, second: str) -> None:
    assert same_function(first, second) and same_function(second, first)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_two_functions(first: str, second: str) -> None:
    assert not same_function(first, second) and not same_function(second, first)


@pytest.mark.parametrize(
    ("linkage", "abstract"),
    [
        ("_ZN3FooC4Ev", True),
        ("_ZN3FooD4Ev", True),
        ("_ZN2C4C4Ev", True),
        ("_ZN3FooC4IiEET_", True),
        ("_ZN3FooC1Ev", False),
        ("_ZN3FooD0Ev", False),
        ("_ZN2C4C2Ev", False),  # class C4
        ("_ZN5FooC4C1Ev", False),
        ("_ZN5FooD43barEv", False),
        ("_Z5fooC4v", False),
        ("fooC4", False),
        ("C4", False),
        ("", False),
    ],
)
def test_the_name_of_a_constructor_as_such(linkage: str, abstract: bool) -> None:
    assert is_abstract(linkage) is abstract


@pytest.mark.parametrize(
    ("symbol", "base", "kind"),
    [
        ("foo", "foo", ""),
        ("foo.cold", "foo", "cold"),
        ("foo.cold.1", "foo", "cold"),  # clang's and old gcc's
        ("foo.constprop.0", "foo", "clone"),
        ("foo.isra.0", "foo", "clone"),
        ("foo.part.0", "foo", "clone"),
        ("foo.part.0.isra.0", "foo", "clone"),
        ("foo.isra.0.cold", "foo", "cold"),
        ("foo.lto_priv.0", "foo", "clone"),
        ("foo.localalias", "foo", "clone"),
        ("foo.llvm.123", "foo", "clone"),
        ("foo.__uniq.123.llvm.45", "foo", "clone"),
        ("_Z3foov.resume", "_Z3foov", "clone"),  # part of a coroutine
        ("_GLOBAL__sub_I_x.cc", "_GLOBAL__sub_I_x.cc", ""),  # of a file, whose name has a dot
        ("_GLOBAL__sub_I_x.pb.cc", "_GLOBAL__sub_I_x.pb.cc", ""),
        ("_GLOBAL__sub_I_x.cc.cold", "_GLOBAL__sub_I_x.cc", "cold"),
        ("__cxx_global_var_init.1", "__cxx_global_var_init.1", ""),  # of another variable
        ("main._omp_fn.0", "main._omp_fn.0", ""),  # another region of main
        ("foo.coldest", "foo.coldest", ""),
        ("foo.partial", "foo.partial", ""),
        (".cold", ".cold", ""),
        ("cold", "cold", ""),
        ("", "", ""),
    ],
)
def test_what_compilers_append(symbol: str, base: str, kind: str) -> None:
    assert base_name(symbol) == base
    assert is_clone(symbol) is (kind == "clone")
    assert is_cold_part(symbol) is (kind == "cold")


@pytest.mark.parametrize(
    ("symbol", "function"),
    [
        ("foo.constprop.0", "foo"),
        ("foo.part.0.isra.0.cold", "foo"),
        ("init.llvm.1", "init.llvm.1"),
        ("init.lto_priv.0.isra.0", "init.lto_priv.0"),
        ("init.__uniq.12", "init.__uniq.12"),
        ("init.1", "init.1"),
        (".cold", ".cold"),
    ],
)
def test_what_tells_local_functions_apart_stays(symbol: str, function: str) -> None:
    assert function_name(symbol) == function


def test_the_examples_of_the_module() -> None:
    assert doctest.testmod(aliases).failed == 0
