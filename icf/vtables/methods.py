"""Methods by their class, recognized by their linkage names (Itanium C++ ABI, section 5.1).

    type_info   N2ns3FooE          3FooIiE         Z4mainE3Foo
    method      _ZNK2ns3Foo3getEv  _ZN3FooIiED1Ev  _ZZ4mainEN3Foo3getEv

Both begin with the class, so both spell it the same, substitutions included: it is a prefix, followed by the
name of the method. Virtual methods are not templates, so nothing comes between. The name of a thunk is the name of its
method after the adjustment of `this`: _ZThn16_N1B3getEv.

Prefixes are compared by their hashes. A kernel finds in each name all prefixes that may be a class; those that are none
of the asked classes are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from icf.aliases import base_name
from icf.columns import I64, U8, U64, Mask
from icf.sets import distinct, is_in
from icf.strings import hash_names
from icf.vtables._methods import split_methods

NO_DESTRUCTOR, DELETING, DESTRUCTOR = 0, 1, 2  # the deleting one is another function than the others
_QUALIFIERS = tuple("rVKRO")
_DISCRIMINATOR = re.compile(r"(?:_\d|__\d+_)\Z")
_STANDARD = ("S", "9__gnu_cxx", "10__cxxabiv1")
_IN_ANY_CLASS = frozenset(("__cxa_pure_virtual", "__cxa_deleted_virtual"))
_OF_STANDARD, _HARD = 1, 2  # flags of the kernel
_NAME_BYTES_MAX = 1 << 16  # longer names may be in any class
_SPLITS_MAX, _ROWS = 9, 1 << 17  # of one byte; that are read together


class Methods(NamedTuple):
    """The methods of some classes among functions, a row for each name and class."""

    name: I64  # row of the linkage name, ascending
    class_key: U64
    thunk_bytes: I64  # of the adjustment of `this` in the name; 0 for the method itself
    destructor: U8


class MethodNames(NamedTuple):
    """What linkage names say of classes."""

    methods: Methods
    is_standard: Mask  # of each name: it is a method of a class of the C++ library
    is_any: Mask  # it may be in a vtable of any class


def read_methods(names: Sequence[str], class_keys: U64) -> MethodNames:
    """Return which of the functions with these linkage names are methods of the classes with these keys."""
    wanted = distinct(class_keys)
    text = "\0".join([*names, ""]).encode("utf-8", "surrogateescape")
    if text.count(0) != len(names):  # no symbol has a NUL in its name
        return read_methods([name.replace("\0", "") for name in names], class_keys)
    characters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(characters == 0)
    starts = np.append(0, ends + 1)[:-1]
    is_any = np.array([name in _IN_ANY_CLASS for name in names], np.bool_) | (ends - starts > _NAME_BYTES_MAX)
    for row in distinct(np.searchsorted(ends, np.flatnonzero(characters == ord(".")))).tolist():
        ends[row] = starts[row] + len(base_name(names[row]).encode("utf-8", "surrogateescape"))
    edges = np.stack([starts, np.where(is_any, starts, ends)]).astype(np.uint64)
    rows = np.empty((max(_ROWS, _SPLITS_MAX * int((edges[1] - edges[0]).max(initial=0))), 3), np.uint64)
    flags, forks = np.zeros(len(names), np.uint8), np.empty(16, np.uint64)
    parts, at = [rows[:0].copy()], 0
    while at < len(names):
        at, count = split_methods(text, edges.data, at, rows.data, flags.data, forks.data)
        parts.append(rows[:count][is_in(rows[:count, 1], wanted)])
    name, key, kind = np.concatenate(parts).T
    thunk_bytes, destructor = (kind >> np.uint64(2)).astype(np.int64), (kind & np.uint64(3)).astype(np.uint8)
    methods = Methods(name.astype(np.int64), key, thunk_bytes, destructor)
    return MethodNames(methods, flags & _OF_STANDARD != 0, is_any | (flags & _HARD != 0))


def keys_of_classes(type_names: Sequence[str]) -> tuple[I64, U64]:
    """Return the keys of classes by their mangled types, and the row of the class of each.

    The place where the name of a function ends, in which the class is, is found by trying: each has a key.
    """
    rows, texts = list[int](), list[str]()
    for row, name in enumerate(type_names):
        if not name.startswith("Z"):
            rows.append(row)
            texts.append(f"N{_scope(name)}")
            continue
        for text in _within_functions(_DISCRIMINATOR.sub("", name)):
            rows.append(row)
            texts.append(text)
    return np.array(rows, np.int64), hash_names(texts)


def is_standard(type_name: str) -> bool:
    """Return whether a class is one of the C++ library, as are all bases of such a class."""
    return _scope(type_name).startswith(_STANDARD)


def _within_functions(type_name: str) -> Iterator[str]:
    for match in re.finditer("E", type_name):
        scope = _scope(type_name[match.end() :])
        if scope and not scope.startswith(_QUALIFIERS):
            yield f"{type_name[: match.end()]}N{scope}"


def _scope(type_name: str) -> str:
    return type_name[1:-1] if type_name.startswith("N") else type_name
