"""DIEs without a linkage name, and the symbols they belong to.

gcc writes none for functions with internal linkage: those in unnamed namespaces, members of local classes
(lambdas), templates over local types. Such a DIE has a name (`ForEachField<...<lambda(int)> >`) and a unit;
its symbol, which is local, has a mangled name and a source file. They are matched by what must hold if they
belong together:

* the symbol is local, if gcc says that the function is,
* the file of the symbol is the unit's, where both are known, and
* every word of the DIE's name, and of its class, occurs in the symbol: identifiers and whole numbers, but for what gcc
  writes as the source does, or otherwise than demanglers do: types of parameters (`<lambda(size_t)>`), the type of a
  conversion, characters, texts, fractions, fields of objects (`f<Point{1, 0}>`).

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

from icf.demangle import demangle

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?<![\w.])-?\d(?:[eE][+-]|[\w.])*")  # of C++: 1, 2.5e+0f, 0x10; a null pointer to a member is -1
_NUMBER_OF_SYMBOL = re.compile(r"\b(\d+)[ul]*\b")  # 3ul, for which a DIE has 3
_DIGITS = re.compile(r"\d+")
_LENGTH_DIGITS, _IDENTIFIER_BYTES = 4, 1 << 10  # of the longest identifier
_MANGLED_BYTES = 1 << 14  # of a symbol that is not demangled
_ANONYMOUS = "(anonymous namespace)"
_PARENTHESIS = re.compile(r"[()]")
_AS_WRITTEN = re.compile(r"""'(?:\\[^']+|[^'])'|".*"|\boperator [^(]*|<constructor>""", re.DOTALL)
# with the quotes of 'lambda2'(int), for which a DIE has only <lambda(int)>
_ARGUMENT_WORD = re.compile(r"\w+|[*&']")
# words that a demangler spells otherwise, or not at all
_COMMON = frozenset(
    "const volatile signed unsigned char short int long float double bool void struct class enum union lambda operator"
    " unnamed true false nullptr nullptr_t decltype auto typename template std __cxx11 basic_string string allocator"
    " char_traits basic_istream basic_ostream basic_iostream __complex__ __vector __restrict__".split()
)


class Kind(NamedTuple):
    """DIEs that nothing tells apart."""

    name: str
    files: frozenset[str]
    class_name: str = ""  # of a method
    die_count: int = 1


def words_of_symbol(symbol: str) -> frozenset[str]:
    """Return all identifiers and numbers of a symbol; of one that cannot be demangled further words, too."""
    text = demangle(symbol)
    if text == symbol and symbol.startswith("_Z"):
        return _words_of_mangled(symbol)
    return frozenset(_IDENTIFIER.findall(text)).union(_NUMBER_OF_SYMBOL.findall(text))


def words_of_die(name: str) -> frozenset[str]:
    """Return the words of a DW_AT_name that its symbol must have, too.

    >>> sorted(words_of_die("each<ns::work(std::size_t)::<lambda(Money)>, 'a', 12>"))
    ['12', 'each', 'ns', 'work']
    """
    rest = without_parentheses(_AS_WRITTEN.sub("", name.replace(_ANONYMOUS, "")))
    numbers = [] if "{" in rest else filter(str.isdecimal, _NUMBER.findall(rest))
    return frozenset(_IDENTIFIER.findall(_NUMBER.sub("", rest))).difference(_COMMON).union(numbers)


def _words_of_mangled(symbol: str) -> frozenset[str]:
    """Return what may be identifiers, which follow their lengths, and numbers."""
    text = symbol[:_MANGLED_BYTES]
    words = {symbol, *_DIGITS.findall(text)}
    for digits in _DIGITS.finditer(text):
        start, end = digits.span()
        starts = range(max(start, end - _LENGTH_DIGITS), end)  # the digits before may end another name
        sizes = (int(text[start:end]) for start in starts)
        words.update(text[end : end + size] for size in sizes if size <= _IDENTIFIER_BYTES)
    return frozenset(words)


def without_parentheses(text: str) -> str:
    """Return a text without what stands in parentheses; those without a counterpart stay."""
    opened: list[int] = []
    pairs: list[tuple[int, int]] = []  # the outermost so far
    for found in _PARENTHESIS.finditer(text):
        if found[0] == "(":
            opened.append(found.start())
        elif opened:
            start = opened.pop()
            while pairs and pairs[-1][0] > start:
                pairs.pop()
            pairs.append((start, found.end()))
    starts, ends = [*(start for start, _ in pairs), len(text)], [0, *(end for _, end in pairs)]
    return " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


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
            text = demangle(symbols[idx][0])
            exact[idx] = {at for at in left if _is_instance(text, kinds[at].name, arguments)}
    counts = Counter(at for own in exact.values() for at in own)
    for idx, own in exact.items():
        if count_dies(kinds, own) == 1 and all(counts[at] == 1 for at in own):
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
    plain = (_NUMBER_OF_SYMBOL.sub(r"\1", argument) for argument in arguments)
    return [sorted(_ARGUMENT_WORD.findall(argument)) for argument in plain]
