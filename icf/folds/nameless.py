"""DIEs without a linkage name, and the symbols they belong to.

gcc writes none for functions with internal linkage: those in unnamed namespaces, members of local classes
(lambdas), templates over local types. Such a DIE has a name (`ForEachField<...<lambda(int)> >`) and a unit;
its symbol, which is local, has a mangled name and a source file. They are matched by what must hold if they
belong together:

* the symbol is local, if gcc says that the function is,
* the file of the symbol is the unit's, where both are known, and
* every word of the DIE's name, and of its class, is one of the symbol (`icf.folds.words`).

This never excludes the true DIE of a symbol. So a symbol that only one DIE fits has found it, if it has one: of the
aliases that gcc made of a function none has (see `members`). Of several DIEs that fit, instances of one template, the
one whose arguments consist of exactly the same words is taken, if no other symbol has these (`f<const T>` is
`f<T const>(T const*)`, and not `f<T>(T*)`). The converse would not hold: gold drops the symbols of folded local
functions, and a DIE whose symbol is missing may fit another's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from icf.demangle import demangle, short_name
from icf.folds.words import words_of_die, words_of_symbol

_NUMBER_SUFFIX = re.compile(r"\b(\d+)[ul]+\b")  # 3ul, for which a DIE has 3
# with the quotes of 'lambda2'(int), for which a DIE has only <lambda(int)>
_ARGUMENT_WORD = re.compile(r"\w+|[*&']")


class Kind(NamedTuple):
    """DIEs that nothing tells apart."""

    name: str
    files: frozenset[str]
    class_name: str = ""  # of a method
    die_count: int = 1


def assign(
    kinds: Sequence[Kind],
    symbols: Sequence[tuple[str, str]],
    may_be: Callable[[int, int], bool] = lambda _symbol, _kind: True,
) -> dict[int, set[int]]:
    """Return, for each symbol (name, source file or ""), the kinds of DIEs that may describe it.

    `may_be` returns whether a symbol and a kind, by their indexes, can belong together at all.
    """
    words = [words_of_symbol(symbol) for symbol, _ in symbols]
    wanted = [words_of_die(kind.name) | words_of_die(kind.class_name) for kind in kinds]
    of_file = {file: _KindsByWord() for _, file in symbols}
    counts = Counter(word for own in wanted for word in own)
    for at, kind in enumerate(kinds):
        for file in {*(kind.files or of_file), ""}.intersection(of_file):
            of_file[file].add(at, wanted[at], counts)
    choices = {
        idx: {at for at in of_file[file].fitting(words[idx]) if may_be(idx, at)}
        for idx, (_, file) in enumerate(symbols)
    }
    _narrow_templates(kinds, symbols, choices)
    settled: set[int] = set()
    while True:
        decided = [idx for idx, left in choices.items() if idx not in settled and count_dies(kinds, left) == 1]
        if not decided:
            return choices
        settled.update(decided)
        taken = set[int]().union(*(choices[idx] for idx in decided))
        for idx, left in choices.items():
            if idx not in settled:
                left -= taken


class _KindsByWord:
    """Kinds by the rarest of their words: a symbol is compared with the few that have one of its own."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[frozenset[str], list[int]]] = {}

    def add(self, kind: int, words: frozenset[str], counts: Mapping[str, int]) -> None:
        """Add a kind; `counts` are those of words in all kinds."""
        rarest = min(words, key=lambda word: (counts[word], word), default="")
        self._kinds.setdefault(rarest, {}).setdefault(words, []).append(kind)

    def fitting(self, words: frozenset[str]) -> Iterator[int]:
        """Yield the kinds all of whose words are among these."""
        for word in ("", *words):
            for own, kinds in self._kinds.get(word, {}).items():
                if own <= words:
                    yield from kinds


def count_dies(kinds: Sequence[Kind], chosen: Iterable[int]) -> int:
    """Return how many DIEs are of the chosen kinds."""
    return sum(kinds[at].die_count for at in chosen)


def _narrow_templates(kinds: Sequence[Kind], symbols: Sequence[tuple[str, str]], choices: dict[int, set[int]]) -> None:
    """Leave a symbol the one DIE with exactly its template arguments, where no other symbol has the same."""
    arguments = cache(_arguments)
    exact = {}
    for idx, left in choices.items():
        if count_dies(kinds, left) > 1:
            symbol = symbols[idx][0]
            exact[idx] = {at for at in left if _is_instance(symbol, kinds[at].name, arguments)}
    counts = Counter(at for own in exact.values() for at in own)
    for idx, own in exact.items():
        if count_dies(kinds, own) == 1 and all(counts[at] == 1 for at in own):
            choices[idx] = own


def _is_instance(symbol: str, name: str, arguments: Callable[[str, str], list[list[str]]]) -> bool:
    """Return whether a symbol has the template arguments of a DIE, which leaves defaulted ones out."""
    head, bracket, _ = name.partition("<")
    if not bracket:
        return short_name(symbol) == name
    wanted, given = arguments(name, head), arguments(demangle(symbol), head)
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
    plain = (_NUMBER_SUFFIX.sub(r"\1", argument) for argument in arguments)
    return [sorted(_ARGUMENT_WORD.findall(argument)) for argument in plain]
