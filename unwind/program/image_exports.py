"""The dynamic symbols of an image as the functions that it defines for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE
from icf.elf.versions import Versions, read_versions
from unwind.program.exports import Export, replaces


class ImageExports:
    """The dynamic symbols of an image, read on first use; a library has thousands, of which few are asked for."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def __iter__(self) -> Iterator[Export]:
        return map(self._export, chain.from_iterable(self._rows.values()))

    def find(self, symbol: str) -> Sequence[Export]:
        name, _, version = symbol.partition("@")
        exports = map(self._export, self._rows.get(name, ()))
        return [export for export in exports if export.answers(version)]

    def replaces(self, name: str) -> bool:
        return replaces(self._rows.keys(), name)

    def _export(self, row: int) -> Export:
        symbols, versions = self._image.dynamic_symbols, self._versions
        is_chosen = int(symbols.type[row]) == STT_GNU_IFUNC
        return Export(
            symbols.name(row), int(symbols.value[row]), versions.name(row), versions.is_hidden(row), is_chosen
        )

    @cached_property
    def _versions(self) -> Versions:
        return read_versions(self._image)

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """The rows of each name."""
        symbols = self._image.dynamic_symbols
        callable_types = (STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE)
        is_callable = symbols.is_defined & (symbols.bind != STB_LOCAL) & np.isin(symbols.type, callable_types)
        rows = np.flatnonzero(is_callable).tolist()
        of_name: dict[str, list[int]] = {}
        for row, name in zip(rows, symbols.names(rows), strict=True):
            of_name.setdefault(name, []).append(row)
        return of_name
