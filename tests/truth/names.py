"""When two names mean the same source function.

Local symbols of one name in several files, clones that the compiler made (`.part.0`, `.constprop.0`, `.cold`) and the
two symbols of a constructor (C1, C2) cannot be told apart by name, and nobody asks for it: they are one function here.
A function without linkage name in DWARF (gcc's local ones), whose symbol the linker dropped, has but its short name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import cxxfilt

CLONE = re.compile(r"\.(part|cold|constprop|isra|lto_priv|llvm|__uniq)(\.\d+)*")


@cache
def plain_name(name: str) -> str:
    """Demangled, without clone suffixes."""
    name = CLONE.sub("", name.split("@", 1)[0])
    try:
        return str(cxxfilt.demangle(name))
    except cxxfilt.InvalidName:
        return name


@cache
def short_name(name: str) -> str:
    """The identifier alone, without scope, template arguments and parameters."""
    text = plain_name(name).replace("(anonymous namespace)::", "")
    depth, begin = 0, 0
    for position, character in enumerate(text):
        if character == "(" and depth == 0:
            return text[begin:position]
        depth += (character == "<") - (character == ">")
        if depth == 0 and character in ": ":
            begin = position + 1
    return text[begin:]


def is_same(name: str, names: Iterable[str]) -> bool:
    """Whether `name` means one of `names`."""
    names = tuple(names)
    if name in names or plain_name(name) in {plain_name(true_name) for true_name in names}:
        return True
    is_short = name.isidentifier() and not name.startswith("_Z")
    return is_short and name in {short_name(true_name) for true_name in names}
