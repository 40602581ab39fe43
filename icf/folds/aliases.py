"""Symbols that name one source function: they share an address without having been folded.

A constructor is emitted as C1 (complete object) and C2 (base object), a destructor as D1 and D2 (Itanium C++
ABI, 5.1.4.3); where they do the same, one body carries both symbols. D0, the deleting destructor, is
another function. Two such names differ in one digit, but so do `fooC1()` and `fooC2()`, so the demangled
texts have the last word.
"""

from __future__ import annotations

from icf.demangle import demangle

_VARIANTS = {"C": "12345", "D": "1245"}


def same_function(first: str, second: str) -> bool:
    """Whether two linkage names are variants of one constructor or destructor.

    >>> same_function("_ZN3FooC1Ev", "_ZN3FooC2Ev"), same_function("_Z5fooC1v", "_Z5fooC2v")
    (True, False)
    """
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
    # C4 and D4 (gcc's name for the abstract function) do not demangle everywhere
    return demangle(_unified(first, differing)) == demangle(_unified(second, differing, keep=True))


def _unified(name: str, places: list[int], *, keep: bool = False) -> str:
    """The name with 4 and 5 replaced by 2 at `places`, so that it demangles."""
    chars = list(name)
    for at in places:
        if chars[at] in "45":
            chars[at] = "2" if keep else "1"
    return "".join(chars)


def base_name(symbol: str) -> str:
    """The linkage name without what a compiler appended: foo.cold, foo.constprop.0, foo.llvm.123."""
    dot = symbol.find(".", 1)
    return symbol if dot < 0 else symbol[:dot]


def is_cold_part(symbol: str) -> bool:
    """Whether the symbol names the outlined part of a function, which is entered by jumps."""
    return ".cold" in symbol
