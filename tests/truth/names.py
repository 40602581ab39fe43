"""When two names mean the same source function.

Local symbols of one name in several files, clones that the compiler made (`.part.0`, `.constprop.0`, `.cold`) and the
two symbols of a constructor (C1, C2) cannot be told apart by name, and nobody asks for it: they are one function here.
A function without linkage name in DWARF (gcc's local ones), whose symbol the linker dropped, has but its short name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

import pycxxfilt

_CALL, _CALL_WORD = "operator()", "operator__call"  # not a parenthesis of parameters
_AFTER_PARAMETERS = re.compile(r"(?: const| volatile| &&?)*::")
# (int)&& std::forward<...>: what is before is the type of the result, a lambda's
_AFTER_RESULT = re.compile(r"(?: const| volatile)*[*&]* (?=\w)(?!(?:const|volatile)\b)")
# what gcc in DWARF and demanglers write in two ways
_SPELLINGS = (
    (re.compile(r"\(anonymous namespace\)::|<unnamed>::"), ""),
    (re.compile(r"\b(short|long long|long) unsigned int\b"), r"unsigned \1"),
    (re.compile(r"\b(short|long long|long) int\b"), r"\1"),
    (re.compile(r"(?<=\d)(?:u|l|ul|ll|ull)\b"), ""),  # 3ul
    (re.compile(r"\bbasic_(i|o|io)stream<char>"), r"\1stream"),
)
_CONST = re.compile(r"\bconst\b")
_LAMBDA = "::<lambda("
_RETURNS = "decltype("  # begins the type of a result; the name follows
_DEMANGLED_CLONE = re.compile(r"(?: \(\.[^()]*\))+$")  # f() (.constprop.0)
_BETWEEN_BRACKETS = re.compile(r"(?<=>) (?=>)")
_ARGUMENTS = re.compile(r"<[^<>]*>")
CLONE = re.compile(r"\.(part|cold|constprop|isra|actor|resume|destroy|cleanup|lto_priv|llvm|__uniq)(\.\d+)*|(\.\d+)+$")


@cache
def plain_name(name: str) -> str:
    """Demangled, without clone suffixes, and without a space between closing angle brackets."""
    name = CLONE.sub("", _DEMANGLED_CLONE.sub("", name.split("@", 1)[0]))
    with suppress(ValueError):
        name = pycxxfilt.demangle(name) or name
    return _BETWEEN_BRACKETS.sub("", name)


@cache
def identifier(name: str) -> tuple[str, tuple[str, ...]]:
    """The last part of a name, without scope and parameters, and its template arguments."""
    text = plain_name(name).replace(_CALL, _CALL_WORD)
    for spelled, alike in _SPELLINGS:
        text = spelled.sub(alike, text)
    depth, begin, arguments_begin = 0, 0, 0
    arguments: tuple[str, ...] = ()
    end = len(text)
    position = 0
    while position < len(text):
        character = text[position]
        if character == "<":
            depth += 1
            if depth == 1:
                arguments_begin = position + 1
        elif character == ">" and depth:
            depth -= 1
            if depth == 0:
                arguments = _parts(text[arguments_begin:position])
        elif depth == 0 and text.startswith(_RETURNS, position):
            position = _closing(text, position + len(_RETURNS) - 1)
            continue
        elif depth == 0 and character == "(":
            scope = _AFTER_PARAMETERS.match(text, _closing(text, position))
            scope = scope or _AFTER_RESULT.match(text, _closing(text, position))
            if scope is None:
                end = position
                break
            position, arguments = scope.end(), ()  # a class or a lambda in a function
            begin = position
            continue
        elif depth == 0 and character in ": ":
            begin, arguments = position + 1, ()
        position += 1
    return text[begin:end].split("<", 1)[0].replace(_CALL_WORD, _CALL), arguments


def _closing(text: str, position: int) -> int:
    """Where the text goes on after the parenthesis at a position is closed."""
    depth = 0
    for at in range(position, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at + 1
    return len(text)


def _const_last(argument: str) -> str:
    """`const T *` as `T const *`."""
    target = argument.removeprefix("const ").rstrip("*& ")
    return f"{target} const{argument[len('const ') + len(target) :]}" if argument.startswith("const ") else argument


def _is_short(name: str) -> bool:
    """Whether a name has no scope and no parameters; its template arguments may have some."""
    rest = name.replace(_CALL, _CALL_WORD)
    while (less := _ARGUMENTS.sub("", rest)) != rest:
        rest = less
    return "(" not in rest and "::" not in rest


def is_same(name: str, names: Iterable[str]) -> bool:
    """Whether `name` means one of `names`."""
    names = tuple(names)
    if name in names or plain_name(name) in {plain_name(true_name) for true_name in names}:
        return True
    if name.startswith("_Z") or not _is_short(name):
        return False
    word, arguments = identifier(name)
    found = (identifier(true_name) for true_name in names)
    return any(word == true_word and _are_leading(arguments, every) for true_word, every in found)


def _are_leading(arguments: tuple[str, ...], every: tuple[str, ...]) -> bool:
    """Whether template arguments are the first of these: DWARF's names have no defaulted ones, at any depth."""
    return len(arguments) <= len(every) and all(map(_is_argument, arguments, every))


def _is_argument(written: str, full: str) -> bool:
    if written == full:
        return True
    # f(const T *)::Local, which a demangler writes f(T const *)::Local
    if "(" in written and _without_const(written) == _without_const(full):
        return True
    if _LAMBDA in written:  # gcc's name of it says nothing but the parameters
        return "'lambda" in full and written.partition("(")[0] == full.partition("(")[0]
    head, _, rest = written.partition("<")
    full_head, _, full_rest = full.partition("<")
    if not rest or head != full_head or rest.rpartition(">")[2] != full_rest.rpartition(">")[2]:
        return False
    return _are_leading(_parts(rest.rpartition(">")[0]), _parts(full_rest.rpartition(">")[0]))


def _without_const(argument: str) -> str:
    return _CONST.sub("", argument).replace(" ", "")


def _parts(text: str) -> tuple[str, ...]:
    """The template arguments in a text, which stands between two angle brackets."""
    depth, begin, parts = 0, 0, list[str]()
    for at, character in enumerate(f"{text}," if text else ""):
        depth += (character in "<({") - (character in ">)}")
        if character == "," and depth == 0:
            parts.append(_const_last(text[begin:at].strip()))
            begin = at + 1
    return tuple(parts)
