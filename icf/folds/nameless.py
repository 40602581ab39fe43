"""DIEs without a linkage name, and the symbols they belong to.

gcc writes none for functions with internal linkage: those in unnamed namespaces, members of local classes
(lambdas), templates over local types. Such a DIE has a name (`ForEachField<...<lambda(int)> >`) and a unit;
its symbol, which is local, has a mangled name and a source file. They are matched by what must hold if they
belong together:

* the symbol is local, if gcc says that the function is,
* the file of the symbol is the unit's, where both are known, and
* every identifier of the DIE's name, and of its class, occurs in the demangled symbol, but for those that gcc takes
  from the source: types of parameters (`<lambda(size_t)>`), the type of a conversion, characters.

This never excludes the true DIE of a symbol. So a symbol that only one DIE fits has found it, if it has one: of the
aliases that gcc made of a function none has (see `members`). Of several DIEs that fit, instances of one template, the
one whose arguments consist of exactly the same words is taken, if no other symbol has these (`f<const T>` is
`f<T const>(T const*)`, and not `f<T>(T*)`). The converse would not hold: gold drops the symbols of folded local
functions, and a DIE whose symbol is missing may fit another's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from icf.demangle import demangle

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_ANONYMOUS = "(anonymous namespace)"
_PARAMETERS = re.compile(r"\([^()]*\)")  # the innermost parentheses
_AS_WRITTEN = re.compile(r"'(?:\\[^']+|[^'])'|\boperator [^(]*")
# with the quotes of 'lambda2'(int), for which a DIE has only <lambda(int)>
_ARGUMENT_WORD = re.compile(r"\w+|[*&']")
# words that a demangler spells otherwise, or not at all
_COMMON = frozenset(
    "const volatile signed unsigned char short int long float double bool void struct class enum union lambda operator"
    " unnamed true false nullptr nullptr_t decltype auto typename template std __cxx11 basic_string string allocator"
    " char_traits basic_istream basic_ostream basic_iostream __complex__ __vector __restrict__".split()
)


def identifiers_of(text: str) -> frozenset[str]:
    """Return all identifiers of a demangled name."""
    return frozenset(_IDENTIFIER.findall(text))


def identifiers(name: str) -> frozenset[str]:
    """Return the identifiers of a DW_AT_name that its mangled name must have, too.

    >>> sorted(identifiers("each<ns::work(std::size_t)::<lambda(Money)>, 'a'>"))
    ['each', 'ns', 'work']
    """
    rest = _AS_WRITTEN.sub("", name.replace(_ANONYMOUS, ""))
    while (less := _PARAMETERS.sub("", rest)) != rest:
        rest = less
    return identifiers_of(rest) - _COMMON


def assign(
    groups: Sequence[tuple[str, frozenset[str]]],
    symbols: Sequence[tuple[str, str]],
    may_be: Callable[[int, int], bool] = lambda _symbol, _die: True,
    classes: Sequence[str] = (),
) -> dict[int, set[int]]:
    """Return, for each symbol (name, source file or ""), the DIEs (name, files) that may describe it.

    `may_be` returns whether a symbol and a DIE, by their indexes, can belong together at all. `classes` are those of
    the DIEs, "" where a function has none.
    """
    words = [identifiers_of(demangle(symbol)) for symbol, _ in symbols]
    wanted = [identifiers(name) for name, _ in groups]
    wanted = [own | identifiers(around) for own, around in zip(wanted, classes or [""] * len(groups), strict=True)]
    # the DIEs that may be of a file, by their words: those of thousands are the same
    of_file: dict[str, dict[frozenset[str], list[int]]] = {file: {} for _, file in symbols}
    for at, (_, files) in enumerate(groups):
        for file in {*(files or of_file), ""}.intersection(of_file):
            of_file[file].setdefault(wanted[at], []).append(at)
    choices = {
        idx: {at for own, dies in of_file[file].items() if own <= words[idx] for at in dies if may_be(idx, at)}
        for idx, (_, file) in enumerate(symbols)
    }
    _narrow_templates(groups, symbols, choices)
    settled: set[int] = set()
    while True:
        decided = [idx for idx, left in choices.items() if len(left) == 1 and idx not in settled]
        if not decided:
            return choices
        settled.update(decided)
        taken = set[int]().union(*(choices[idx] for idx in decided))
        for idx, left in choices.items():
            if idx not in settled:
                left -= taken


def _narrow_templates(
    groups: Sequence[tuple[str, frozenset[str]]], symbols: Sequence[tuple[str, str]], choices: dict[int, set[int]]
) -> None:
    """Leave a symbol the one DIE with exactly its template arguments, where no other symbol has the same."""
    arguments = cache(_arguments)
    exact = {}
    for idx, left in choices.items():
        if len(left) > 1:
            text = demangle(symbols[idx][0])
            exact[idx] = {at for at in left if _is_instance(text, groups[at][0], arguments)}
    counts = Counter(at for own in exact.values() for at in own)
    for idx, own in exact.items():
        if len(own) == 1 and all(counts[at] == 1 for at in own):
            choices[idx] = own


def _is_instance(text: str, name: str, arguments: Callable[[str, str], list[list[str]]]) -> bool:
    """Return whether a demangled symbol has the template arguments of a DIE, which leaves defaulted ones out."""
    head = name.partition("<")[0]
    wanted, given = arguments(name, head), arguments(text, head)
    return bool(wanted) and wanted == given[: len(wanted)]


def _arguments(text: str, head: str) -> list[list[str]]:
    """Return the template arguments that follow a head in a text, each as its words, sorted."""
    start = text.find(f"{head}<")
    arguments = [""]
    depth = 0
    for char in text[start + len(head) :] if start >= 0 else "":
        if depth == 1 and char == ",":
            arguments.append("")
        else:
            arguments[-1] += char
        depth += {"<": 1, "(": 1, "{": 1, ">": -1, ")": -1, "}": -1}.get(char, 0)
        if depth == 0:
            break
    return [sorted(_ARGUMENT_WORD.findall(argument)) for argument in arguments]
