"""Functions of an image that are to be found in the objects, as columns: a member of a body each.

A member that a report alone names is not looked up where its body has another one of this name: that is in the objects,
and this one in an object without local symbols.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.folds.member_columns import MemberColumns
from icf.sets import distinct, is_in, rows_with
from icf.strings import hash_names
from linkpass.linked import Linked


class Wanted(NamedTuple):
    """Functions, and their names."""

    vaddr: U64  # of each function
    function: I64  # whose name each of `name_hash` is, ascending; the names of one function have their order
    name_hash: U64
    files: list[frozenset[str]]  # of each function, the source files of its local symbols; empty if it has none


def wanted_members(linked: Linked, vaddrs: U64, members: I64) -> Wanted:
    """Return members of bodies, each by the address of its body and its index there."""
    bodies = distinct(vaddrs)
    columns = linked.columns_of(bodies)
    row = columns.start[np.searchsorted(bodies, vaddrs)] + members
    plain, symbols = columns.symbol_of_plain
    others = columns.names_of_others
    named = np.concatenate([plain, np.array([at for at, _ in others], np.int64)])
    hashes = [linked.image.symbols.hashes(symbols.astype(np.int64)), hash_names([name for _, name in others])]
    order = np.argsort(named, kind="stable")
    files = columns.files_at(row)
    function, at = rows_with(named[order], np.where(is_in(row, _namesakes(columns)), -1, row))
    none: frozenset[str] = frozenset()
    return Wanted(vaddrs, function, np.concatenate(hashes)[order][at], [files.get(each, none) for each in row.tolist()])


def _namesakes(columns: MemberColumns) -> I64:
    """Return the local members without a symbol, a DIE or a file that have the name of another member there."""
    is_bare = columns.is_local
    is_bare[columns.symbols[0]] = False
    is_bare[columns.dies[0]] = False
    bare = np.flatnonzero(is_bare)
    known = columns.files_at(bare)
    rows_of: dict[int, list[int]] = {}
    for row, body in zip(bare.tolist(), np.searchsorted(columns.start, bare, side="right").tolist(), strict=True):
        if not known.get(row):
            rows_of.setdefault(body - 1, []).append(row)
    found = []
    for body, rows in rows_of.items():
        first, end = columns.start[body : body + 2].tolist()
        names = columns.names_at(np.arange(first, end))
        counts = Counter(names)
        found += [row for row in rows if counts[names[row - first]] > 1]
    return np.array(found, np.int64)
