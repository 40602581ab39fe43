"""Clones that gcc has made of a function which units share: each unit makes its own, and all are one function.

    a.cpp   inline int help(...)     line 3     _Z4helpPii.isra.0 ─┐
    b.cpp   inline int help(...)     line 5     _Z4helpPii.isra.0 ─┴─ 0x1c20

Their symbols are local, so none replaces the other as with the function itself. If the units declare the function at
different lines, its lines at the body may be those of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from icf.aliases import base_name, is_clone_of_shared
from icf.columns import I64, U64
from icf.dwarf.dies import resolve
from icf.dwarf.units import DebugInfo
from icf.strings import hash_names

_ANY = -1


class Described(Protocol):
    """The functions of the debug information."""

    die: U64

    def claims_at(self, starts: U64) -> tuple[I64, I64, object]:
        """Return rows of `starts`, and the functions that are described there."""

    def lost(self) -> I64:
        """Return the functions without an address."""


def declared_apart(
    debug: DebugInfo, functions: Described, names: Sequence[str], starts: U64, *, with_lost: bool
) -> I64:
    """Return which of the names, each of a function at its start, are clones whose function has several lines.

    `with_lost`: functions of that name without an address count, too, as one may be folded into the body.
    """
    clones = np.array([row for row, name in enumerate(names) if is_clone_of_shared(name)], np.int64)
    if not len(clones):
        return clones
    row, function, _ = functions.claims_at(starts[clones])
    lost = functions.lost() if with_lost else row[:0]
    identity = resolve(debug, functions.die[np.append(function, lost)])
    described = zip(debug.string_hashes(identity.linkage_name).tolist(), identity.decl_line.tolist(), strict=True)
    lines_of: dict[tuple[int, int], set[int]] = {}  # by row of `clones` and name; those of lost functions by no row
    for at, (name, line) in zip([*row.tolist(), *[_ANY] * len(lost)], described, strict=True):
        lines_of.setdefault((at, name), set()).add(line)
    wanted = hash_names([base_name(names[row]) for row in clones.tolist()]).tolist()
    apart = [
        len(lines_of.get((at, name), set()) | lines_of.get((_ANY, name), set())) > 1 for at, name in enumerate(wanted)
    ]
    return clones[np.array(apart, np.bool_)]
