"""Names as people write them: demangled where they are mangled, else unchanged.

    C++ (Itanium), Rust v0     LLVM's demanglers (pycxxfilt): the same text as llvm-cxxfilt and llvm-symbolizer
    Rust legacy, Swift         those of rustc and of Swift (pydemumble); a legacy name loses its hash, as rustc shows it

A library is imported at the first name that needs it, as it takes longer than to look an address up. What it refuses is
shown as it is, and so is a name of more than 16 KiB: the demanglers recurse with its depth, and a made-up one of twice
that ends the process.
"""

from __future__ import annotations

_LIMIT, _KEPT_NAMES = 1 << 14, 1 << 16
_ANONYMOUS = "(anonymous namespace)"
_OPERATOR = r"\boperator(?!\w)(?:\(\)|\[\]|<=>|->\*?|(?:<<|>>)=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>]=?|,)?"
_LOCAL_SCOPE = r"(?: const| volatile| &&?)*::"  # of a class or lambda within a function
_HASH_START, _HASH_DIGITS = "17h", 16  # the last part of a Rust legacy name: as an identifier, its length before it


def demangle(name: str) -> str:
    """The source form of a linkage name, or `name` itself where it has none.

    >>> demangle("_ZN3fir4tapsEi"), demangle("_RNvCs1234_3fir4taps"), demangle("main")
    ('fir::taps(int)', 'fir::taps', 'main')
    """
    if not name.startswith(("_Z", "_R", "$s", "$S")) or len(name) > _LIMIT:
        return name
    text = _known.get(name)
    if text is None:
        if len(_known) >= _KEPT_NAMES:
            _known.clear()
        is_other = name[0] == "$" or _is_rust_legacy(name)
        _known[name] = text = _demangle_rust_legacy_or_swift(name) if is_other else _demangle_by_llvm(name)
    return text


_known: dict[str, str] = {}


def _is_rust_legacy(name: str) -> bool:
    head, _, tail = name.rpartition(_HASH_START)
    digits, end = tail[:_HASH_DIGITS], tail[_HASH_DIGITS:]
    return head.startswith("_ZN") and not digits.strip("0123456789abcdef") and (end == "E" or end.startswith("E."))


def _demangle_by_llvm(name: str) -> str:
    from pycxxfilt import demangle as demangle_by_llvm

    try:
        return demangle_by_llvm(name) or name
    except ValueError:  # not a name after all
        return name


def _demangle_rust_legacy_or_swift(name: str) -> str:
    from pydemumble import demangle as demangle_by_demumble

    return (name.isascii() and demangle_by_demumble(name)) or name


def short_name(name: str) -> str:
    """The name of a function as its declaration has it: without scopes, parameters and what it returns.

    >>> short_name("_ZN3fir6Filter4tapsEi"), short_name("_ZN3firlsIiEERSoS1_T_"), short_name("main")
    ('taps', 'operator<<<int>', 'main')
    """
    text = demangle(name)
    if text == name:
        return name
    import re

    operator, local_scope = re.compile(_OPERATOR), re.compile(_LOCAL_SCOPE)
    depth = start = at = 0
    is_operator = False
    while at < len(text):
        if depth == 0 and (found := operator.match(text, at)):
            start, at, is_operator = at, found.end(), True
        elif text[at] == "(" and depth == 0 and not text.startswith(_ANONYMOUS, at):
            end = _closing(text, at)
            if not (scope := local_scope.match(text, end)):
                return text[start:at] or text
            start, at, is_operator = scope.end(), scope.end(), False
        else:
            depth += (text[at] in "<({[") - (text[at] in ">)}]")
            at += 1
            if depth == 0 and (text.startswith("::", at - 1) or (text[at - 1] == " " and not is_operator)):
                start, is_operator = at + (text[at - 1] == ":"), False
    return text[start:] or text


def _closing(text: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return end + 1
    return len(text)
