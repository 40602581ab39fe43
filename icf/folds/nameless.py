"""DIEs without a linkage name, and the symbols they belong to.

gcc gives none to functions with internal linkage: those in unnamed namespaces, members of local classes
(lambdas), templates over local types. Such a DIE has a name (`ForEachField<...<lambda(int)> >`) and a unit;
its symbol, which is local, has a mangled name and a source file. They are matched by what must hold if they
belong together:

* the file of the symbol is the unit's, and
* every identifier of the DIE's name occurs in the demangled symbol.

This never excludes the true symbol. So where as many DIEs as symbols are left, and each step has only one
choice for some DIE, the choice is right. Where a linker leaves out folded local symbols (gold) the true one
may be missing; the numbers then differ and nothing is matched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from icf.demangle import demangle

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# words that a demangler spells otherwise, or not at all
_COMMON = frozenset(
    "const volatile signed unsigned char short int long float double bool void struct class enum union lambda operator"
    " true false nullptr auto typename template std __cxx11 basic_string string allocator char_traits".split()
)


def identifiers(name: str) -> frozenset[str]:
    """The identifiers of a DW_AT_name that its mangled name must have, too."""
    return frozenset(_IDENTIFIER.findall(name)) - _COMMON


def assign(groups: Sequence[tuple[str, frozenset[str]]], symbols: Sequence[tuple[str, str]]) -> dict[int, int]:
    """Match DIEs, given as (name, source files), to symbols, given as (name, source file or "").

    Gives index of DIE -> index of symbol, for those that can be told.
    """
    if len(groups) != len(symbols):
        return {}
    words = [frozenset(_IDENTIFIER.findall(demangle(symbol))) for symbol, _ in symbols]
    choices = {
        at: {
            idx
            for idx, (_, file) in enumerate(symbols)
            if (not file or file in files) and identifiers(name) <= words[idx]
        }
        for at, (name, files) in enumerate(groups)
    }
    matched: dict[int, int] = {}
    while True:
        decided = [at for at, left in choices.items() if len(left) == 1]
        if not decided:
            return matched
        for at in decided:
            left = choices.pop(at)
            if not left:  # taken by another of this round: the facts do not fit
                return {}
            idx = left.pop()
            matched[at] = idx
            for others in choices.values():
                others.discard(idx)
