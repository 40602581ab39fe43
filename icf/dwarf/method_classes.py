"""The classes of methods, as their declarations have them.

    DW_TAG_structure_type Nut
      DW_TAG_subprogram crack                DW_AT_object_pointer
        DW_TAG_formal_parameter this         Nut *const

Such a name lacks the scopes around the class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from icf.dwarf import columns as col
from icf.dwarf.children import ChildReader
from icf.dwarf.dies import resolve
from icf.dwarf.layouts import DieRows, Question, pointee
from icf.dwarf.units import DebugInfo


class MethodClasses:
    """Finds the classes of the methods of one image."""

    def __init__(self, debug: DebugInfo) -> None:
        self._debug, self._rows = debug, DieRows(ChildReader(debug))

    def of(self, declarations: Sequence[int]) -> list[str]:
        """Return the class of each method, which the DIE at an offset declares; "" for a function without an object."""
        classes = [each or 0 for each in self._rows.answer(map(_class_of, declarations))]
        names = resolve(self._debug, np.array(classes, np.uint64)).name
        texts = [text.decode("utf-8", "surrogateescape") for text in self._debug.strings(names)]
        return [text if each else "" for text, each in zip(texts, classes, strict=True)]


def _class_of(declaration: int) -> Question[int]:
    """Return the DIE of the class of a method; 0 if it is not known."""
    rows = yield declaration
    if not rows.is_known or not rows.own[col.L_FLAGS] & col.L_METHOD:
        return 0
    objects = [child for child in rows.children if child[col.L_TAG] == col.TAG_FORMAL_PARAMETER]
    if not objects:
        return 0
    found = yield from pointee(objects[0][col.L_TYPE])
    return found.own[col.L_DIE] if found.is_class and found.is_known else 0
