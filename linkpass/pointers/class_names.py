"""The names of classes, as hierarchies have them: the scope of a method, whose linkage name cannot be that of another.

DW_TAG_class_type Visitor           in any namespace, or in a function
  DW_TAG_subprogram                 _ZN4shop7Visitor5visitEi, so this is shop::Visitor
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from icf.dwarf.dies import read_dies
from icf.dwarf.units import DebugInfo
from icf.vtables.parameters import read_signature


class ClassNames:
    """The names of the classes of an image, by the DIE of a method."""

    def __init__(self, debug: DebugInfo) -> None:
        self._debug = debug
        self._known = {0: ""}

    def __getitem__(self, method: int) -> str:
        """Return the name of the class of a method; "" if its linkage name does not tell it."""
        if method not in self._known:
            self.read([method])
        return self._known[method]

    def read(self, methods: Collection[int]) -> None:
        """Read the names that these methods tell: together this is much cheaper."""
        asked = sorted(set(methods).difference(self._known))
        references = read_dies(self._debug, np.array(asked, np.uint64)).linkage_name.tolist()
        self._known.update(zip(asked, map(self._scope, references), strict=True))

    def _scope(self, reference: int) -> str:
        name = self._debug.string(reference).decode("utf-8", "surrogateescape")
        signature = read_signature(name) if name else None
        return "" if signature is None else signature.scope
