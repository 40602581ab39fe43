"""Members whose name is that of another function in the objects: with --wrap=f the linker makes __wrap_f of f."""

from __future__ import annotations

import numpy as np

from icf.aliases import WRAP
from icf.elf.symbols import Symbols
from icf.folds.member_columns import MemberColumns


def wrapping_names(columns: MemberColumns, symbols: Symbols) -> list[tuple[int, str]]:
    """Return the names that begin with __wrap_, each with the row of its member."""
    found = [(row, name) for row, name in columns.names_of_others if name.startswith(WRAP)]
    if symbols.mentions(WRAP.encode()):
        rows, own = columns.symbol_of_plain
        names = symbols.names(own.astype(np.int64))
        found += [(row, name) for row, name in zip(rows.tolist(), names, strict=True) if name.startswith(WRAP)]
    return found
