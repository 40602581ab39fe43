"""The vtables that the objects of a class may point to: those of the class and of all that derive from it, by RTTI.

The answer is worth something only if this image has all classes that derive from the asked one. Modules that a program
loads may derive from any class whose header they include. So that holds for classes with internal linkage; and for all
classes of a program that needs no libraries but those of the C and C++ runtime, and does not open others itself. It
never holds for classes of the runtime.

A vtable without RTTI, or with one that cannot be read, may be of any class.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from icf.columns import I64, U64, Mask
from icf.demangle import demangle
from icf.elf.image import Image
from icf.elf.types import ET_EXEC, PT_INTERP
from icf.sets import difference, distinct, distinct_pairs, is_in, union
from icf.vtables.layout import Vtables
from icf.vtables.parameters import TYPEINFO
from icf.vtables.rtti import Classes

_RUNTIME = ("libc.so.", "libm.so.", "libmvec.so.", "libstdc++.so.", "libgcc_s.so.", "libc++.so.", "libc++abi.so.")
_RUNTIME_TOO = ("libunwind.so.", "libpthread.so.", "libdl.so.", "librt.so.", "libatomic.so.", "ld-linux", "ld-musl")
_OPENS_OTHERS = ("dlopen", "dlmopen", "__libc_dlopen_mode")
_CLASSES_OF_RUNTIME = ("std::", "__gnu_cxx::", "__cxxabiv1::")
_CLASSES_LIMIT = 1 << 10  # of one hierarchy


class Hierarchy:
    """The groups of vtables of each class of an image and those that derive from it."""

    def __init__(self, image: Image, vtables: Vtables, listed: U64) -> None:
        """Take the groups that matter; others are left out."""
        starts, classes = vtables.groups.start, vtables.classes
        has_rtti = vtables.groups.typeinfo != 0
        groups, rows, is_whole = _with_bases(classes, vtables.classes_of(np.flatnonzero(has_rtti)))
        is_of_any = ~has_rtti
        is_of_any[has_rtti] = ~is_whole
        self._of_any = starts[is_of_any & is_in(starts, listed)]
        if not _is_alone(image):
            groups, rows = groups[classes.is_local[rows]], rows[classes.is_local[rows]]
        groups = np.flatnonzero(has_rtti)[groups]
        known = distinct(rows)
        self._idx_of: dict[str, int] = {}  # of the name of a class that no other module derives from
        idx = np.array([self._idx_of.setdefault(_text(name), len(self._idx_of)) for name in classes.names(known)], int)
        is_listed = is_in(starts[groups], listed)
        of, self._groups = distinct_pairs(
            idx[np.searchsorted(known, rows[is_listed])].astype(np.uint64), starts[groups[is_listed]]
        )
        self._start = np.searchsorted(of, np.arange(len(self._idx_of) + 1, dtype=np.uint64))
        self.groups_of = cache(self._groups_of)

    @property
    def has_types(self) -> bool:
        """Whether there is a class of which this can tell something."""
        return bool(self._idx_of)

    def _groups_of(self, name: str) -> tuple[int, ...]:
        """Return the groups that objects of a class may point into; none if there may be others."""
        idx = self._idx_of.get(name)
        if idx is None or name.startswith(_CLASSES_OF_RUNTIME):
            return ()
        derived = self._groups[self._start[idx] : self._start[idx + 1]]
        return tuple(union(derived, self._of_any).tolist())


def _with_bases(classes: Classes, rows: I64) -> tuple[I64, I64, Mask]:
    """Return some classes with all of their bases that are in this image, and which of them have no others.

    A class and its bases are given as index and row; there are none of a class some of whose bases may be unknown.
    """
    is_whole, counts = np.ones(len(rows), np.bool_), np.zeros(len(rows), np.int64)
    of, at = np.arange(len(rows)), rows
    seen = _Seen()
    while len(of):
        is_here = ~classes.is_import[at]  # the bases of others are in their modules, too
        of, at = of[is_here], at[is_here]
        is_whole[of[~(classes.has_name(at) & classes.knows_bases[at])]] = False
        seen.add(_numbers(of, at, classes))
        counts += np.bincount(of, minlength=len(rows))
        is_whole &= counts <= _CLASSES_LIMIT
        of, at = of[is_whole[of]], at[is_whole[of]]
        index, at = classes.bases_of(at)
        of, at = np.divmod(seen.others(_numbers(of[index], at, classes)), len(classes))
    of, at = np.divmod(seen.all(), len(classes))
    return of[is_whole[of]], at[is_whole[of]], is_whole


class _Seen:
    """Numbers, in columns each of which has less than half as many as the one before it.

    A hierarchy may have a thousand levels: to sort all numbers for each of them takes a minute.
    """

    def __init__(self) -> None:
        self._columns = [np.empty(0, np.int64)]

    def add(self, numbers: I64) -> None:
        self._columns.append(distinct(numbers))
        while len(self._columns) > 1 and 2 * len(self._columns[-1]) >= len(self._columns[-2]):
            self._columns[-2:] = [distinct(np.concatenate(self._columns[-2:]))]

    def others(self, numbers: I64) -> I64:
        """Return those that were not added."""
        for column in self._columns:
            numbers = difference(numbers, column)
        return numbers

    def all(self) -> I64:
        """Return all that were added, ascending."""
        return distinct(np.concatenate(self._columns))


def _numbers(of: I64, rows: I64, classes: Classes) -> I64:
    """Return a number for each pair of an index and a row."""
    return np.asarray(of * len(classes) + rows)


def _text(type_name: str) -> str:
    return demangle(f"_ZTI{type_name}").removeprefix(TYPEINFO)


def _is_alone(image: Image) -> bool:
    """Return whether no other module of the process can derive from a class of the image."""
    is_program = image.elf_type == ET_EXEC or any(segment.type == PT_INTERP for segment in image.segments)
    symbols = image.dynamic_symbols
    if image.dynamic and not (is_program and symbols.count):
        return False
    names = symbols.names(range(symbols.count))
    if any(name in _OPENS_OTHERS for name in names):
        return False
    return all(name.startswith((*_RUNTIME, *_RUNTIME_TOO)) for name in image.needed)
