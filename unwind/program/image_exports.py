"""The dynamic symbols of an image as the functions that it defines for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE
from icf.elf.versions import read_versions
from unwind.program.exports import Export, ListedExports


class ImageExports:
    """The dynamic symbols of an image, read on first use."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def __iter__(self) -> Iterator[Export]:
        return iter(self._listed)

    def find(self, symbol: str) -> Sequence[Export]:
        return self._listed.find(symbol)

    def replaces(self, name: str) -> bool:
        return self._listed.replaces(name)

    @cached_property
    def _listed(self) -> ListedExports:
        symbols = self._image.dynamic_symbols
        versions = read_versions(self._image)
        callable_types = (STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE)
        rows = np.flatnonzero(symbols.is_defined & (symbols.bind != STB_LOCAL) & np.isin(symbols.type, callable_types))
        return ListedExports(
            Export(name, vaddr, versions.name(row), versions.is_hidden(row), kind == STT_GNU_IFUNC)
            for row, name, vaddr, kind in zip(
                rows.tolist(),
                symbols.names(rows.tolist()),
                symbols.value[rows].tolist(),
                symbols.type[rows].tolist(),
                strict=True,
            )
        )
