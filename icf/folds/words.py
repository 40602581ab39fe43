"""Words that the name of a function's DIE and its symbol have in common, where DWARF has no linkage name.

    DIE       each<ns::work(std::size_t)::<lambda(Money)>, 'a', 12>     each  ns  work  12
    symbol    void each<ns::work(unsigned long)::'lambda'(Money), (char)97, 12>(...)

They are identifiers, whole numbers, and the operator that the function is, but for what gcc writes as the source does,
or otherwise than demanglers do: types of parameters, the type of a conversion, characters, texts, fractions, fields of
objects (`f<Point{1, 0}>`). So each word of a DIE is one of its symbol. Of a symbol that LLVM's demangler refuses the
mangled form has the words.
"""

from __future__ import annotations

import re
from functools import lru_cache

from icf.demangle import demangle

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?<![\w.])-?\d(?:[eE][+-]|[\w.])*")  # of C++: 1, 2.5e+0f, 0x10; a null pointer to a member is -1
_NUMBER_OF_SYMBOL = re.compile(r"\b(\d+)[ul]*\b")  # 3ul, for which a DIE has 3
_OPERATOR = re.compile(r"\boperator(?:\(\)|\[\]|[-+*/%^&|~!=,>]+|<)")  # `operator<<int>` may be `<` or `<<`
_OPERATORS = frozenset(f"operator{token}" for token in (
    "() [] < > + - * / % ^ & | ~ ! = , += -= *= /= %= ^= &= |= && || ++ -- == != >= >> >>= -> ->*".split()
))  # fmt: skip
_DIGITS = re.compile(r"\d+")
_LENGTH_DIGITS, _IDENTIFIER_BYTES = 4, 1 << 10  # of the longest identifier
_MANGLED_BYTES = 1 << 14  # of a symbol that is not demangled
_ANONYMOUS = "(anonymous namespace)"
_PARENTHESIS = re.compile(r"[()]")
_AS_WRITTEN = re.compile(r"""'(?:\\[^']+|[^'])'|".*"|\boperator [^(]*|<constructor>""", re.DOTALL)
# words that a demangler spells otherwise, or not at all
_COMMON = frozenset(
    "const volatile signed unsigned char short int long float double bool void struct class enum union lambda operator"
    " unnamed true false nullptr nullptr_t decltype auto typename template std __cxx11 basic_string string allocator"
    " char_traits basic_istream basic_ostream basic_iostream __complex__ __vector __restrict__".split()
)
_FUNDAMENTAL = re.compile(r"\b(?:bool|char|double|float|int|long|short|signed|unsigned|void)\b")
_LONG_INT = re.compile(r"\b((?:long|short)(?: unsigned)?) int\b")  # gcc's; demanglers leave out the `int`


def words_of_symbol(symbol: str) -> frozenset[str]:
    """Return all identifiers, operators and numbers of a symbol; of one that cannot be demangled further words, too."""
    text = demangle(symbol)
    if text == symbol and symbol.startswith("_Z"):
        return _words_of_mangled(symbol)
    return frozenset(_IDENTIFIER.findall(text)).union(_NUMBER_OF_SYMBOL.findall(text), _OPERATOR.findall(text))


def words_of_die(name: str) -> frozenset[str]:
    """Return the words of a DW_AT_name that its symbol must have, too.

    >>> sorted(words_of_die("each<ns::work(std::size_t)::<lambda(Money)>, 'a', 12>"))
    ['12', 'each', 'ns', 'work']
    """
    rest = _without_parentheses(_AS_WRITTEN.sub("", name.replace(_ANONYMOUS, "")))
    numbers = [] if "{" in rest else filter(str.isdecimal, _NUMBER.findall(rest))
    own = _OPERATOR.match(name)  # not one of its arguments, of which the brackets may be
    operators = [own[0]] if own else []
    return frozenset(_IDENTIFIER.findall(_NUMBER.sub("", rest))).difference(_COMMON).union(numbers, operators)


@lru_cache(1 << 16)
def may_be_type(owner: str, type_name: str) -> bool:
    """Return whether a class, as its DIE has the name, may be a type. Not `Case<char>` and `Case<short>`.

    Arguments are written in two ways, so only their words are compared; those of fundamental types must be the same.
    False too often rather than too seldom: then a method counts as one that nothing describes.
    """
    typeinfo = f"_ZTI{type_name}"
    if not words_of_die(owner) <= words_of_symbol(typeinfo):
        return False
    head, bracket, arguments = owner.partition("<")
    return not bracket or _fundamental(arguments) == _fundamental(demangle(typeinfo).rpartition(f"{head}<")[2])


def _fundamental(arguments: str) -> frozenset[str]:
    text = _without_parentheses(arguments) if "lambda" in arguments else arguments  # gcc writes `<lambda(size_t)>`
    return frozenset(_FUNDAMENTAL.findall(_LONG_INT.sub(r"\1", text)))


def _words_of_mangled(symbol: str) -> frozenset[str]:
    """Return what may be identifiers, which follow their lengths, and numbers; any operator may be its own."""
    text = symbol[:_MANGLED_BYTES]
    words = {symbol, *_OPERATORS, *_DIGITS.findall(text)}
    for digits in _DIGITS.finditer(text):
        start, end = digits.span()
        starts = range(max(start, end - _LENGTH_DIGITS), end)  # the digits before may end another name
        sizes = (int(text[start:end]) for start in starts)
        words.update(text[end : end + size] for size in sizes if size <= _IDENTIFIER_BYTES)
    return frozenset(words)


def _without_parentheses(text: str) -> str:
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
