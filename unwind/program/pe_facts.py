"""The facts of the code of a PE image (`unwind.program.facts.CodeFacts`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from icf.columns import U64
from icf.pe.image import PeImage
from unwind.program.exports import Export


class PeFacts:
    """The facts of an image."""

    def __init__(self, image: PeImage) -> None:
        self._image = image
        self.machine = image.machine
        self.read = image.read
        self.may_start_function = image.may_start_function
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


def pe_exports(image: PeImage) -> Iterator[Export]:
    """Yield the functions that other images can call by name."""
    for each in image.exports:
        if each.name:
            yield Export(each.name, image.base + each.rva)
