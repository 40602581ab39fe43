"""The slots that the loader fills by name in the vtables of an image."""

from __future__ import annotations

import numpy as np

from icf.elf.image import Image
from icf.vtables.layout import Vtables
from unwind.program.bound_slots import ROW, Rows

_VTABLE = b"_ZTV"
_OF_NO_CLASS = "__cxa_"  # __cxa_pure_virtual


def has_classes(image: Image) -> bool:
    """Return whether an image may have virtual functions: a name in it is that of a vtable."""
    return image.symbols.mentions(_VTABLE) or image.dynamic_symbols.mentions(_VTABLE)


def find_bound_slots(image: Image) -> tuple[Rows, list[str]]:
    """Return the rows of an image, and the names that they mean."""
    vtables = Vtables(image)
    bound = vtables.bound
    numbers, place = np.unique(bound.symbol, return_inverse=True)
    functions = image.dynamic_symbols.names(numbers.tolist())
    is_function = np.array([not name.startswith(_OF_NO_CLASS) for name in functions], np.bool_)
    rows = np.flatnonzero(is_function[place]) if len(functions) else np.zeros(0, np.int64)
    groups, group = np.unique(bound.group[rows], return_inverse=True)
    found = np.zeros(len(rows), ROW)
    found["vtable"], found["slot"] = bound.vtable[rows], bound.slot[rows]
    found["before"] = bound.vtable[rows] - vtables.groups.start[bound.group[rows]]
    found["name"], found["group"] = place[rows], len(functions) + group
    symbols = image.symbols.names(vtables.groups.symbol[groups].tolist())
    return found, [*functions, *symbols]
