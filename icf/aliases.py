"""Symbols that name one source function: they share an address although nothing was folded.

A constructor is emitted as C1 (complete object) and C2 (base object), a destructor as D1 and D2 (Itanium C++
ABI, 5.1.4.3); where they do the same, one body carries both symbols. D0, the deleting destructor, is
another function. Two such names differ in one digit, but so do `fooC1()` and `fooC2()`, so the demangled
texts decide.
"""

from __future__ import annotations

import re
from functools import lru_cache

from icf.demangle import demangle, has_internal_part

# what gcc and clang append to the name of a function when they copy, split or promote it. Other dots are part of
# the name: _GLOBAL__sub_I_a.pb.cc, __cxx_global_var_init.1 (of another variable), main._omp_fn.0 (another region)
_APPENDED = re.compile(
    r"\.(?:cold|constprop|isra|part|__part|lto_priv|localalias|llvm|__uniq|specialized|argprom|argelim|retelim|memprof"
    r"|actor|resume|destroy|cleanup|warm|hot)(?![^.])"
)
# by which local functions of one name differ: LTO, clang -funique-internal-linkage-names
_RENAMED = re.compile(r"(?<!^)(?:\.(?:llvm|lto_priv))?\.\d+$")
_OF_UNIT = re.compile(r"\.(?:lto_priv|llvm|__uniq)\.\d+")
_LTO_PRIV = re.compile(r"\.lto_priv\.\d+")
_UNNAMED_NAMESPACE = "_GLOBAL__N_"
_UNNAMED_TYPE = re.compile(r"\d\$_\d")  # what clang calls a type without linkage: 3$_0
_MANGLED = re.compile(r"_(?:Z|R[INMXY]|D[0-9])")
_MARK = re.compile(r"L\d")  # of what has internal linkage: ZL3foo, N3boxL3foo; else a part of a word, or a value
# those that mark a part or a clone of the function, at the end of its symbol
_CLONE = re.compile(
    r"(?<!^)(?:\.(?:cold|constprop|isra|part|__part|localalias|specialized|argprom|argelim|retelim|memprof"
    r"|actor|resume|destroy|cleanup|warm|hot)(?:\.\d+)*)+$"
)
_LOCAL_ALIAS = re.compile(r"\.localalias(?:\.\d+)?$")  # gcc's second symbol of a function that others may replace
_COLD = re.compile(r"\.cold(?![^.])")
# with --wrap=f the linker makes __wrap_f of f, and f of __real_f; no output mentions it
WRAP, REAL = "__wrap_", "__real_"
_VARIANT = re.compile("(CI?(?=[1-5])|D(?=[1245])).")
_VARIANTS = {"C": "12345", "D": "1245"}


def same_function(first: str, second: str) -> bool:
    """Return whether two linkage names are one function: variants of a constructor or destructor, or gcc's local alias.

    >>> same_function("_ZN3FooC1Ev", "_ZN3FooC4Ev"), same_function("_ZN3MD23getEv", "_ZN3MD53getEv")
    (True, False)
    """
    if ".localalias" in first or ".localalias" in second:
        first, second = _LOCAL_ALIAS.sub("", first), _LOCAL_ALIAS.sub("", second)
    if first == second:
        return True
    if len(first) != len(second) or not first.startswith("_Z"):
        return False
    differing = [at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    for at in differing:
        kind = first[at - 1] if first[at - 1] != "I" else first[at - 2]  # CI1: an inheriting constructor
        digits = _VARIANTS.get(kind, "")
        if first[at] not in digits or second[at] not in digits:
            return False
    # neither name is asked for: C4 and D4 (gcc's name for the abstract function) do not demangle everywhere
    return demangle(_with_digit("1", first, differing)) == demangle(_with_digit("2", first, differing))


def _with_digit(digit: str, name: str, places: list[int]) -> str:
    chars = list(name)
    for at in places:
        chars[at] = digit
    return "".join(chars)


def is_abstract(linkage: str) -> bool:
    """Return whether a linkage name is gcc's for a constructor or destructor as such: C4, D4.

    Its code is named C1 or C2; a DIE with code that has only this name describes a clone (foo.constprop.0).

    >>> is_abstract("_ZN3FooC4Ev"), is_abstract("_ZN3FooC2Ev"), is_abstract("_ZN2C4C2Ev")
    (True, False, False)
    """
    if "C4" not in linkage and "D4" not in linkage:
        return False
    return any(
        linkage[at + 1] == "4" and same_function(linkage, f"{linkage[: at + 1]}2{linkage[at + 2 :]}")
        for at in range(2, len(linkage) - 1)
        if linkage[at] in "CD"
    )


@lru_cache(maxsize=1 << 12)
def kin(name: str) -> str:
    """Return the kin of a name: a text that is equal for all variants and clones of one function.

    Only names of one kin can be one function. Classes have thousands of members, so names are compared within a kin and
    not each with each.

    >>> kin("_ZN3FooC1Ev") == kin("_ZN3FooC4Ev.isra.0"), kin("_ZN3FooD0Ev") == kin("_ZN3FooD1Ev")
    (True, False)
    """
    base = base_name(name)
    return _VARIANT.sub(r"\1?", base) if _VARIANT.search(base) else base  # most names are not variants


def is_clone(symbol: str) -> bool:
    """Return whether a compiler made the function from another: foo.isra.0, foo.constprop.0, foo.part.0."""
    return base_name(symbol) != symbol and not is_cold_part(symbol)


def is_specialized(symbol: str) -> bool:
    """Return whether the function is a clone for certain arguments: foo.constprop.0 of another unit can be for others.

    gcc makes `.constprop`, clang since 19 `.specialized.1`, one for each set of arguments.

    >>> is_specialized("_Z3foov.constprop.0.cold"), is_specialized("foo.specialized.2"), is_specialized("f.isra.0")
    (True, True, False)
    """
    return any(mark in symbol and mark in symbol[len(base_name(symbol)) :] for mark in (".constprop", ".specialized."))


def is_clone_of_shared(symbol: str) -> bool:
    """Return whether a function is a clone of one that units share, which each unit that made it has for itself.

    Clones for certain arguments are not meant: those of two units can call different functions.

    >>> is_clone_of_shared("_Z3foov.isra.0"), is_clone_of_shared("_ZL3foov.isra.0"), is_clone_of_shared("_Z3foov")
    (True, False, False)
    """
    return is_clone(symbol) and not is_specialized(symbol) and symbol.startswith("_Z") and not is_of_one_unit(symbol)


def base_name(symbol: str) -> str:
    """Return the linkage name without what a compiler appended: foo.cold, foo.constprop.0, foo.llvm.123.

    >>> base_name("_Z3foov.isra.0.cold"), base_name("_GLOBAL__sub_I_a.pb.cc")
    ('_Z3foov', '_GLOBAL__sub_I_a.pb.cc')
    """
    appended = _APPENDED.search(symbol, 1) if "." in symbol else None
    return symbol if appended is None else symbol[: appended.start()]


def name_before_link(symbol: str) -> str:
    """Return the linkage name of a local function without what link-time optimization appended.

    >>> name_before_link("_ZL3foov.7"), name_before_link("init.llvm.1"), name_before_link("init.lto_priv.0")
    ('_ZL3foov', 'init', 'init')
    """
    return _RENAMED.sub("", symbol, count=1) if "." in symbol else symbol


def may_be_one_function(first: str, second: str) -> bool:
    """Return whether two linkage names may be of one function or its clones.

    >>> may_be_one_function("f", "f.lto_priv.0.part.1"), may_be_one_function("f.lto_priv.0", "f.lto_priv.1")
    (True, False)
    """
    one, other = _OF_UNIT.search(first), _OF_UNIT.search(second)
    if one and other and one[0] != other[0]:
        return False
    return same_function(base_name(first), base_name(second))


def name_in_section(symbol: str) -> str:
    """Return the linkage name as the section of a thunk has it with gcc -flto.

    >>> name_in_section("_ZThn8_N3Foo3barEv.lto_priv.0")
    '_ZThn8_N3Foo3barEv'
    """
    return _LTO_PRIV.sub("", symbol) if "." in symbol else symbol


def is_mangled(name: str) -> bool:
    """Return whether a name is one that a compiler has made of types and scopes, not a plain one as C has.

    >>> is_mangled("_Z3foov"), is_mangled("_RNvC4main3foo"), is_mangled("init"), is_mangled("_Reset")
    (True, True, False, False)
    """
    return _MANGLED.match(name) is not None


def is_of_one_unit(linkage: str) -> bool:
    """Return whether each unit has a class or one of its methods for itself, by the mangled name.

    >>> is_of_one_unit("_ZN12_GLOBAL__N_13Foo3barEv"), is_of_one_unit("ZN3boxL4makeEvE3Foo")
    (True, True)
    >>> is_of_one_unit("_ZN3BoxI3$_0E3barEv")
    True
    >>> is_of_one_unit("_ZN3Foo3barEv"), is_of_one_unit("_ZN7L2Cache3barEv")
    (False, False)
    """
    if _UNNAMED_NAMESPACE in linkage or ("$_" in linkage and _UNNAMED_TYPE.search(linkage)):
        return True
    if _MARK.search(linkage) is None:  # nearly all
        return False
    return has_internal_part(linkage if linkage.startswith("_Z") else f"_ZTI{linkage}")


def function_name(symbol: str) -> str:
    """Return the linkage name of the function that a symbol is a part or a clone of.

    What tells local functions of one name apart stays: `init` of two files is init.llvm.1 and init.llvm.2.

    >>> function_name("_Z3foov.isra.0.cold"), function_name("init.llvm.1"), function_name("init.lto_priv.0.part.0")
    ('_Z3foov', 'init.llvm.1', 'init.lto_priv.0')
    """
    return _CLONE.sub("", symbol, count=1) if "." in symbol else symbol


def is_cold_part(symbol: str) -> bool:
    """Return whether the symbol names the outlined part of a function, which is entered by jumps."""
    return _COLD.search(symbol, 1) is not None
