"""Names of a symbol table that there is not."""

from __future__ import annotations

from collections.abc import Mapping

from icf.columns import I64


class NamesOfSymbols:
    """The names of some symbols, by row."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names

    def name(self, row: int) -> str:
        return self._names[row]

    def names(self, rows: I64) -> list[str]:
        return [self._names[row] for row in rows.tolist()]
