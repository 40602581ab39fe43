"""The names that members of bodies have in the objects of a link, as hashes.

Most have the same ones in the image. With --wrap=f the linker makes __wrap_f of f, so a member with that name is f in
the objects; and it makes f of __real_f.
"""

from __future__ import annotations

import numpy as np

from icf.aliases import REAL, WRAP
from icf.columns import I64, U64
from icf.elf.symbols import Symbols
from icf.folds.member_columns import MemberColumns
from icf.strings import hash_names


def wrapping_names(columns: MemberColumns, symbols: Symbols) -> list[tuple[int, str]]:
    """Return the names that begin with __wrap_, each with the row of its member."""
    found = [(row, name) for row, name in columns.names_of_others if name.startswith(WRAP)]
    if symbols.mentions(WRAP.encode()):
        rows, own = columns.symbol_of_plain
        names = symbols.names(own.astype(np.int64))
        found += [(row, name) for row, name in zip(rows.tolist(), names, strict=True) if name.startswith(WRAP)]
    return found


def names_in_objects(columns: MemberColumns, symbols: Symbols) -> tuple[I64, U64]:
    """Return the linkage names of members, those of DWARF included, and what __wrap_ is put before.

    For each the row of its member, and its hash. __real_ may be put before any of them.
    """
    row, symbol = columns.symbol_of_plain
    others = [*columns.names_of_others, *columns.linkage_of_others]
    others += [(at, name.removeprefix(WRAP)) for at, name in wrapping_names(columns, symbols)]
    of_others = hash_names([name for _, name in others])
    rows = np.concatenate([row, np.array([at for at, _ in others], np.int64)])
    return rows, np.concatenate([symbols.hashes(symbol.astype(np.int64)), of_others])


def real_names(columns: MemberColumns) -> tuple[I64, U64]:
    """Return the linkage names of members with __real_ before them, as `names_in_objects`."""
    others = [*columns.names_of_others, *columns.linkage_of_others]
    row, _ = columns.symbol_of_plain
    names = [f"{REAL}{name}" for name in [*columns.names_at(row), *(name for _, name in others)]]
    return np.concatenate([row, np.array([at for at, _ in others], np.int64)]), hash_names(names)
