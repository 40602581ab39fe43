"""Functions of an image that are to be found in the objects, as columns: a member of a body each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.sets import distinct, rows_with
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
    function, at = rows_with(named[order], row)
    files = columns.files_at(row)
    none: frozenset[str] = frozenset()
    return Wanted(vaddrs, function, np.concatenate(hashes)[order][at], [files.get(each, none) for each in row.tolist()])
