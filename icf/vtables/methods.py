"""Methods by their class, recognized by their linkage names (Itanium C++ ABI, section 5.1).

    type_info   N2ns3FooE          3FooIiE         Z4mainE3Foo
    method      _ZNK2ns3Foo3getEv  _ZN3FooIiED1Ev  _ZZ4mainEN3Foo3getEv

Both begin with the class, so both spell it the same, substitutions included: it is a prefix, followed by the
name of the method. Virtual methods are not templates, so nothing comes between. The name of a thunk is the name of its
method after the adjustment of `this`: _ZThn16_N1B3getEv.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from icf.aliases import base_name

_OFFSET = r"(?:hn?\d+_|vn?\d+_n?\d+_)"
_ENCODING = re.compile(rf"_Z(T(?:c{_OFFSET}{_OFFSET}|{_OFFSET}))?(?:N[rVK]*[RO]?(.*)|(Z.*))", re.DOTALL)
_QUALIFIERS = re.compile(r"[rVK]*[RO]?")
_SOURCE_NAME = re.compile(r"\d+")
_DISCRIMINATOR = re.compile(r"(?:_\d|__\d+_)\Z")
_OPERATOR = re.compile(r"[a-z][a-zA-Z]")
_DESTRUCTOR = re.compile(r"D([0-5])")
_STANDARD = ("S", "9__gnu_cxx", "10__cxxabiv1")
_IN_ANY_CLASS = ("__cxa_pure_virtual", "__cxa_deleted_virtual")


class Method(NamedTuple):
    """A method of a class, or a thunk to it."""

    function: int  # its index
    name: str  # linkage name
    thunk: str  # the adjustment of `this`, mangled; "" for the method itself
    destructor: str  # "D0" the deleting one, "D" another one, "" for other methods


class Methods:
    """Which of some functions are methods of a class."""

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        """Take all linkage names of each function: `names[k]` are those of function k."""
        nested, local = [], []
        self.has_any = False  # one of them may be in a vtable of any class
        self.has_standard = False  # one of them is a method of a class of the C++ library
        for function, own in enumerate(names):
            for name in own:
                self.has_any |= name in _IN_ANY_CLASS
                match = _ENCODING.fullmatch(base_name(name))
                if match is None:
                    continue
                thunk, scoped, scoped_locally = match.groups(default="")
                if scoped:
                    nested.append((scoped, function, name, thunk))
                    self.has_standard |= scoped.startswith(_STANDARD)
                else:
                    local.append((scoped_locally, function, name, thunk))
        self._nested, self._local = sorted(nested), sorted(local)
        self._known: dict[str, list[Method]] = {}

    def of_class(self, type_name: str) -> list[Method]:
        """Return the methods of the class with that mangled type."""
        if type_name not in self._known:
            self._known[type_name] = self._find(type_name)
        return self._known[type_name]

    def _find(self, type_name: str) -> list[Method]:
        found = []
        # a class within a function; the end of the function's own name is found by trying
        if type_name.startswith("Z"):
            type_name = _DISCRIMINATOR.sub("", type_name)
            for end in [match.end() for match in re.finditer("E", type_name)]:
                scope = _scope(type_name[end:])
                for rest, function, name, thunk in _with_prefix(self._local, type_name[:end] + "N"):
                    qualified = rest[_QUALIFIERS.match(rest).end() :]  # type: ignore[union-attr]  # it may be empty
                    if scope and qualified.startswith(scope):
                        found.append((qualified[len(scope) :], function, name, thunk))
        elif type_name:
            found = list(_with_prefix(self._nested, _scope(type_name)))
        return [
            Method(function, name, thunk, destructor)
            for rest, function, name, thunk in found
            if (destructor := _destructor_if_method(rest)) is not None
        ]


def is_standard(type_name: str) -> bool:
    """Return whether a class is one of the C++ library, as are all bases of such a class."""
    return _scope(type_name).startswith(_STANDARD)


def _scope(type_name: str) -> str:
    return type_name[1:-1] if type_name.startswith("N") else type_name


def _with_prefix(entries: list[tuple[str, int, str, str]], prefix: str) -> Iterator[tuple[str, int, str, str]]:
    """Yield the entries that begin with it, with it cut off."""
    for at in range(bisect_left(entries, (prefix,)), len(entries)):
        text, function, name, thunk = entries[at]
        if not text.startswith(prefix):
            break
        yield text[len(prefix) :], function, name, thunk


def _destructor_if_method(rest: str) -> str | None:
    """Return which destructor a name is, given from after the class; None if it goes deeper than the class."""
    destructor = ""
    if match := _SOURCE_NAME.match(rest):
        at = match.end() + int(match[0])
    elif match := _DESTRUCTOR.match(rest):
        at, destructor = match.end(), "D0" if match[1] == "0" else "D"
    elif rest.startswith("cv"):  # a conversion; its type may be anything
        return "" if rest.endswith("Ev") else None
    elif match := _OPERATOR.match(rest):
        at = match.end()
    else:
        return None
    while rest[at : at + 1] == "B" and (match := _SOURCE_NAME.match(rest, at + 1)):  # [abi:cxx11]
        at = match.end() + int(match[0])
    return destructor if rest[at : at + 1] == "E" else None
