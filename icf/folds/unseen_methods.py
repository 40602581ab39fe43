"""Bodies in vtables of local classes that must have a member without a trace.

gold drops the symbols of folded local functions, and gcc does not describe thunks, nor aliases that it made. Of such a
method of a class with internal linkage nothing is left but the slot that leads to its body:

    vtable for (anonymous namespace)::Both       slot 2 of its second base   -> 0xa80
    symbols and DIEs at 0xa80                    Plain::read() const

A slot holds a method of its class, or of one of its bases. If no member of the body is one, a further member is. One
that is hides the other: where a thunk shares the body of a method of a base, this finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from icf.columns import I64, U64, Mask
from icf.demangle import demangle
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.folds.classes import FoldFinder
from icf.folds.nameless import identifiers, identifiers_of
from icf.sets import distinct, distinct_pairs, is_in, rows_of_runs
from icf.vtables.layout import Vtables, are_vtable_names
from icf.vtables.methods import is_standard, keys_of_classes, read_methods
from icf.vtables.rtti import Classes


def find_unseen_methods(image: Image, finder: FoldFinder) -> frozenset[int]:
    """Return the bodies that hold a method of a local class which neither a symbol nor a DIE shows."""
    symbols = image.symbols
    is_local = (symbols.bind == STB_LOCAL) & (symbols.visibility == 0) & symbols.is_defined
    if not are_vtable_names(symbols, np.flatnonzero(is_local)).any():
        return frozenset()
    vtables = Vtables(image)
    groups, slots = vtables.groups, vtables.slots
    is_asked = (is_local[groups.symbol] & (groups.typeinfo != 0))[slots.group]
    is_asked &= is_in(slots.target, finder.bodies.start)
    classes = vtables.classes_of(slots.group[is_asked]).astype(np.uint64)
    vaddr, classes = distinct_pairs(slots.target[is_asked], classes)
    lineages = _Lineages.of(vtables.classes, classes.astype(np.int64))
    open_ = np.flatnonzero(~_have_methods(finder, vaddr, lineages))
    return frozenset(
        int(vaddr[row]) for row in open_.tolist() if not _has_nameless(finder, int(vaddr[row]), lineages.types(row))
    )


class _Lineages(NamedTuple):
    """Classes with all of their bases: the row of what was asked for, ascending, and the index of a name."""

    row: I64
    idx: I64
    names: list[str]  # mangled types

    @classmethod
    def of(cls, classes: Classes, asked: I64) -> Self:
        row, found = np.arange(len(asked), dtype=np.uint64), asked.astype(np.uint64)
        while True:
            of, base = classes.bases_of(found.astype(np.int64))
            count = len(row)
            row, found = distinct_pairs(np.append(row, row[of]), np.append(found, base.astype(np.uint64)))
            if len(row) == count:
                break
        rows = distinct(found).astype(np.int64)
        return cls(row.astype(np.int64), np.searchsorted(rows, found.astype(np.int64)), classes.names(rows))

    def types(self, row: int) -> list[str]:
        """Return the mangled types of a class and its bases."""
        first, last = np.searchsorted(self.row, [row, row + 1])
        return [self.names[idx] for idx in self.idx[first:last].tolist()]


def _have_methods(finder: FoldFinder, vaddr: U64, lineages: _Lineages) -> Mask:
    """Return of which bodies a symbol or a linkage name is that of a method of the lineage in the same row."""
    bodies, idx_of_row = np.unique(vaddr, return_inverse=True)
    body, names = _linkage_names(finder, bodies)
    class_of_key, keys = keys_of_classes(lineages.names)
    found, is_of_standard, is_any = read_methods(names, keys)
    order = np.argsort(keys, kind="stable")
    first, last = (np.searchsorted(keys[order], found.class_key, side=side) for side in ("left", "right"))
    row, at = rows_of_runs(first, last - first)
    count = len(lineages.names)
    methods = distinct(body[found.name[row]] * count + class_of_key[order[at]])
    idx = idx_of_row.reshape(-1)[lineages.row]
    has = is_in(idx * count + lineages.idx, methods)
    of_standard = np.array(list(map(is_standard, lineages.names)), np.bool_)
    has |= of_standard[lineages.idx] & is_in(idx, distinct(body[is_of_standard])) | is_in(idx, distinct(body[is_any]))
    return np.bincount(lineages.row[has], minlength=len(vaddr)) > 0


def _linkage_names(finder: FoldFinder, vaddrs: U64) -> tuple[I64, list[str]]:
    """Return the names of all symbols and DIEs at some bodies, and the index of the body of each."""
    bodies, symbols = finder.bodies, finder.image.symbols
    rows = np.flatnonzero(is_in(bodies.symbol_value, vaddrs))
    body = np.searchsorted(vaddrs, bodies.symbol_value[rows])
    names = symbols.names(bodies.symbol_rows[rows].tolist())
    if finder.functions is not None and finder.identities is not None:
        rows = np.flatnonzero(is_in(bodies.dwarf_low, vaddrs))
        found = finder.identities.of(finder.functions.die[bodies.dwarf_rows[rows]].tolist())
        body = np.append(body, np.searchsorted(vaddrs, bodies.dwarf_low[rows]))
        names += [described.linkage for described in found]
    return body, names


def _has_nameless(finder: FoldFinder, vaddr: int, types: Sequence[str]) -> bool:
    """Return whether a DIE at a body, without a linkage name, may be that of a method of one of these classes."""
    if finder.functions is None or finder.identities is None:
        return False
    dies = finder.functions.die[finder.bodies.dwarf_at(vaddr)].tolist()
    owners = finder.identities.classes_of(dies)
    words = list(map(_words_of_type, types))
    return any(owner and any(identifiers(owner) <= own for own in words) for owner in owners)


@cache
def _words_of_type(name: str) -> frozenset[str]:
    return identifiers_of(demangle(f"_ZTI{name}"))
