"""Single DIEs by offset, in bulk: the names, origins and declarations of a few functions of many.

A name often stands at the end of a chain: a concrete function refers to its abstract instance
(DW_AT_abstract_origin), that to its declaration in the class (DW_AT_specification). `resolve` follows
the chains of all asked DIEs together, level by level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.dwarf.units import END, MAX_DEPTH, OFFSET, DebugInfo

U64 = NDArray[np.uint64]

DECLARATION, EXTERNAL, INLINE, ARTIFICIAL, FAILED = 8, 16, 32, 64, 128
_MAX_CHAIN = 8


class Dies(NamedTuple):
    """One row for each asked offset; strings are references (see `DebugInfo.string`)."""

    offset: U64
    low: U64
    high: U64
    ranges: U64
    flags: U64
    unit: U64
    origin: U64
    name: U64
    linkage_name: U64
    decl_line: U64
    decl_file: U64
    decl_column: U64
    tag: U64
    containing_type: U64  # of a virtual method, the DIE of its class; 0 for none
    vtable_slot: U64  # of a virtual method, its slot + 1; 0 for none

    @property
    def failed(self) -> NDArray[np.bool_]:
        return np.asarray((self.flags & np.uint64(FAILED)) != 0)


def read_dies(debug: DebugInfo, offsets: U64) -> Dies:
    """Read the DIEs at `offsets`; one that cannot be read has the flag FAILED."""
    count = len(offsets)
    units = debug.unit_of(offsets)
    picks = np.empty((count, 2), np.uint64)
    picks[:, 0] = np.where(units >= 0, offsets, 0)
    picks[:, 1] = np.maximum(units, 0)
    rows = np.zeros((count, 14), np.uint64)
    if count and debug.unit_count:
        result = np.zeros(3 + 64, np.uint64)
        debug.run(0, count, picks, rows, np.empty((0, 3), np.uint64), np.empty(0, np.int32), result)
    elif count:
        rows[:, 4] = FAILED
    return _columns(rows)


def defined_subprograms(debug: DebugInfo, unit_idx: int) -> Dies:
    """All subprograms of a unit that are no declarations, with or without code; none of a corrupt unit."""
    none, stack, result = np.empty((0, 2), np.uint64), np.empty(MAX_DEPTH, np.int32), np.zeros(3 + 64, np.uint64)
    no_sites = np.empty((0, 3), np.uint64)
    rows = np.empty((1 << 12, 14), np.uint64)
    unit_bytes = int(debug.units[unit_idx, END] - debug.units[unit_idx, OFFSET])
    while True:
        debug.run(unit_idx, unit_idx + 1, none, rows, no_sites, stack, result, mode=2)
        if result[0] > unit_idx or len(rows) > unit_bytes:
            return _columns(rows[: int(result[1])])
        rows = np.empty((4 * len(rows), 14), np.uint64)


def _columns(rows: U64) -> Dies:
    column = rows.T
    return Dies(
        offset=column[0],
        low=column[1],
        high=column[2],
        ranges=column[3],
        flags=column[4] & np.uint64(0xFFFFFFFF),
        unit=column[4] >> np.uint64(32),
        origin=column[5],
        name=column[6],
        linkage_name=column[7],
        decl_line=column[8],
        decl_file=column[9],
        decl_column=column[10],
        tag=column[11],
        containing_type=column[12],
        vtable_slot=column[13],
    )


class Identity(NamedTuple):
    """What the chain of origins of each asked DIE says."""

    name: U64  # string reference of the first DW_AT_name met
    linkage_name: U64  # likewise
    external: NDArray[np.bool_]
    root: U64  # the DIE at the end of the chain
    declared: U64  # the first DIE met that has a DW_AT_decl_line, 0 if none
    decl_line: U64
    decl_file: U64  # index in the line table of the unit of `declared`
    from_abstract: NDArray[np.bool_]  # its origin is an abstract instance, not a mere declaration

    def rows(self, at: NDArray[np.intp]) -> Identity:
        """Some of them."""
        return Identity(*(column[at] for column in self))  # type: ignore[arg-type]  # each as it was


def resolve(debug: DebugInfo, offsets: U64) -> Identity:
    """Follow the origins of the DIEs at `offsets` to names and declarations."""
    distinct, inverse = np.unique(offsets, return_inverse=True)
    count = len(distinct)
    name, linkage, declared, line, file = (np.zeros(count, np.uint64) for _ in range(5))
    external, from_abstract = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    root = distinct.copy()
    at, rows = distinct, np.arange(count)
    for depth in range(_MAX_CHAIN):
        if not len(rows):
            break
        unique, back = np.unique(at, return_inverse=True)
        dies = read_dies(debug, unique)
        for target, source in ((name, dies.name), (linkage, dies.linkage_name)):
            target[rows] = np.where(target[rows] == 0, source[back], target[rows])
        fresh = (line[rows] == 0) & (dies.decl_line[back] != 0)
        line[rows] = np.where(fresh, dies.decl_line[back], line[rows])
        declared[rows] = np.where(fresh, at, declared[rows])
        # a file that is not said here is that of the next DIE of the chain
        file[rows] = np.where((file[rows] == 0) & (dies.decl_file[back] != 0), dies.decl_file[back], file[rows])
        external[rows] |= (dies.flags[back] & EXTERNAL) != 0
        root[rows] = at
        if depth == 1:
            from_abstract[rows] = (dies.flags[back] & DECLARATION) == 0
        origin = dies.origin[back]
        more = (origin != 0) & ~dies.failed[back]
        at, rows = origin[more], rows[more]
    back = inverse.reshape(-1)
    return Identity(
        name[back],
        linkage[back],
        external[back],
        root[back],
        declared[back],
        line[back],
        file[back],
        from_abstract[back],
    )
