"""When two names mean one function.

One function is one linkage name. The complete and the base constructor of a class are one, its complete and base
destructor are, and so are a function and what the compiler has cloned of it (the parts of a coroutine, too),
or that a symbol version names. Nothing else is: not what demangles to the same text, nor an alias.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import pycxxfilt

_CLONE = re.compile(r"\.(?:part|cold|constprop|isra|specialized|resume|destroy|cleanup|actor)(?:\.\d+)*")
# C1, C2, D1, D2; CI1 and CI2, with the base class: constructors that a class inherits
_STRUCTOR = re.compile(r"(?<=[0-9A-Za-z_])(?:([CD])[12](?=[IE])|(CI)[12](?=[0-9NS]))")


@cache
def function_of(symbol: str) -> str:
    """What is equal for symbols of one function, and only for those."""
    name, _, file = symbol.partition("@")
    name = _STRUCTOR.sub(r"\1\2?", _CLONE.sub("", name)) if name.startswith("_Z") else _CLONE.sub("", name)
    return f"{name}@{file}" if file.endswith((".c", ".cpp", ".rs")) else name


def functions_of(symbols: Iterable[str]) -> tuple[str, ...]:
    """The distinct functions, in the order of the symbols; a local symbol beside a global one of its name is it."""
    return tuple(dict.fromkeys(function_of(symbol) for symbol in symbols))


@cache
def demangled(function: str) -> str:
    """The text that a function without linkage name in DWARF is called by."""
    name = without_file(function).replace("C?", "C1").replace("CI?", "CI1").replace("D?", "D1")
    try:
        return pycxxfilt.demangle(name) or name
    except ValueError:
        return name


def without_file(function: str) -> str:
    return function.partition("@")[0]
