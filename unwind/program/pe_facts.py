"""The facts of the code of a PE image (`unwind.program.facts.CodeFacts`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from icf.columns import U64
from icf.pe.image import PeImage


class PeFacts:
    """The facts of an image."""

    def __init__(self, image: PeImage) -> None:
        self._image = image
        self.machine = image.machine
        self.read = image.read
        self.may_start_function = image.is_code
        self.code = image.code

    @property
    def text(self) -> tuple[int, int]:
        return self._image.text

    @property
    def imports(self) -> Mapping[int, str]:
        return self._image.got_imports

    @property
    def stubs(self) -> Mapping[int, str]:
        return self._image.plt_stubs

    def constants(self) -> tuple[U64, U64]:
        """Return no places: code forms the addresses of vtables, it does not load them from constant data."""
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
