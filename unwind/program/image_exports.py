"""The dynamic symbols of an image as the functions that it defines for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from icf.columns import Mask
from icf.elf.image import Image
from icf.elf.symbolhash import SymbolHash, read_symbol_hash
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
        exports = map(self._export, self._rows_of(name))
        return [export for export in exports if export.answers(version)]

    def _rows_of(self, name: str) -> Sequence[int]:
        """Return the rows of a name, by the loader's own table where there is one."""
        if self._hash is None:
            return self._rows.get(name, ())
        symbols = self._image.dynamic_symbols
        rows = [row for row in self._hash.rows(name) if row < symbols.count and symbols.name(row) == name]
        return [row for row in rows if self._is_callable[row]]

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
    def _hash(self) -> SymbolHash | None:
        return read_symbol_hash(self._image)

    @cached_property
    def _is_callable(self) -> Mask:
        """Whether each row defines a function for others."""
        symbols = self._image.dynamic_symbols
        types = (STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE)
        return np.asarray(symbols.is_defined & (symbols.bind != STB_LOCAL) & np.isin(symbols.type, types))

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """The rows of each name."""
        rows = np.flatnonzero(self._is_callable).tolist()
        of_name: dict[str, list[int]] = {}
        for row, name in zip(rows, self._image.dynamic_symbols.names(rows), strict=True):
            of_name.setdefault(name, []).append(row)
        return of_name
