"""Single DIEs by offset, in bulk: the names, origins and declarations of a few functions of many.

A name often stands at the end of a chain: a concrete function refers to its abstract instance
(DW_AT_abstract_origin), that to its declaration in the class (DW_AT_specification). `resolve` follows
the chains of all asked DIEs together, level by level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.columns import U64, Mask
from icf.dwarf import columns as col
from icf.dwarf.columns import DECLARATION, EXTERNAL, FAILED
from icf.dwarf.units import MAX_DEPTH, DebugInfo

_MAX_CHAIN = 8
_NEAR_BITS = 21  # DIEs within 2 MB are followed together, so that what a chain visits next was just read


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
    def failed(self) -> Mask:
        return np.asarray((self.flags & np.uint64(FAILED)) != 0)


def read_dies(debug: DebugInfo, offsets: U64) -> Dies:
    """Read the DIEs at `offsets`; one that cannot be read has the flag FAILED."""
    count = len(offsets)
    if (offsets[1:] < offsets[:-1]).any():  # units are read one after the other
        order = np.argsort(offsets, kind="stable")
        place = np.empty(count, np.intp)
        place[order] = np.arange(count)
        return Dies(*(column[place] for column in read_dies(debug, offsets[order])))
    units = debug.unit_of(offsets)
    picks = np.empty((count, 2), np.uint64)
    picks[:, 0] = np.where(units >= 0, offsets, 0)
    picks[:, 1] = np.maximum(units, 0)
    rows = np.zeros((count, col.S_COUNT_ALL), np.uint64)
    if not debug.unit_count:
        rows[:, col.S_FLAGS] = FAILED
        return _columns(rows)
    no_sites, no_stack = np.empty((0, col.C_COUNT), np.uint64), np.empty(0, np.int32)
    result = np.zeros(col.R_SIZE, np.uint64)
    while (first := int(result[col.R_NEXT])) < count:
        debug.run(first, count, picks, rows[first:], no_sites, no_stack, result, mode=col.READ_DIES)
    return _columns(rows)


def defined_subprograms(debug: DebugInfo, unit_idx: int) -> Dies:
    """Return all subprograms that a unit defines, with or without code; none of a corrupt unit."""
    none, stack, result = np.empty((0, 2), np.uint64), np.empty(MAX_DEPTH, np.int32), np.zeros(col.R_SIZE, np.uint64)
    no_sites = np.empty((0, col.C_COUNT), np.uint64)
    rows = np.empty((1 << 12, col.S_COUNT_ALL), np.uint64)
    unit_bytes = int(debug.units[unit_idx, col.END] - debug.units[unit_idx, col.OFFSET])
    while True:
        debug.run(unit_idx, unit_idx + 1, none, rows, no_sites, stack, result, mode=col.READ_SUBPROGRAMS)
        if result[col.R_NEXT] > unit_idx or len(rows) > unit_bytes:
            return _columns(rows[: int(result[col.R_FUNCTIONS])])
        rows = np.empty((4 * len(rows), col.S_COUNT_ALL), np.uint64)


def _columns(rows: U64) -> Dies:
    column = rows.T
    return Dies(
        offset=column[col.S_DIE],
        low=column[col.S_LOW],
        high=column[col.S_HIGH],
        ranges=column[col.S_RANGES],
        flags=column[col.S_FLAGS] & np.uint64(0xFFFFFFFF),
        unit=column[col.S_FLAGS] >> np.uint64(32),
        origin=column[col.S_ORIGIN],
        name=column[col.S_NAME],
        linkage_name=column[col.S_LINKAGE_NAME],
        decl_line=column[col.S_DECL_LINE],
        decl_file=column[col.S_DECL_FILE],
        decl_column=column[col.S_DECL_COLUMN],
        tag=column[col.S_TAG],
        containing_type=column[col.S_CONTAINING_TYPE],
        vtable_slot=column[col.S_VTABLE_SLOT],
    )


class Identity(NamedTuple):
    """What the chain of origins of each asked DIE yields."""

    name: U64  # string reference of the first DW_AT_name met
    linkage_name: U64  # string reference of the first linkage name met
    external: Mask
    root: U64  # the DIE at the end of the chain
    declared: U64  # the first DIE met that has a DW_AT_decl_line, 0 if none
    decl_line: U64
    decl_file: U64  # index in the line table of the unit of `declared`
    from_abstract: Mask  # its origin is an abstract instance, not a mere declaration

    def rows(self, at: NDArray[np.intp]) -> Identity:
        """Return some of them."""
        return Identity(*(column[at] for column in self))  # type: ignore[arg-type]  # each as it was


def resolve(debug: DebugInfo, offsets: U64) -> Identity:
    """Follow the origins of the DIEs at `offsets` to names and declarations."""
    distinct, inverse = np.unique(offsets, return_inverse=True)
    near = distinct >> np.uint64(_NEAR_BITS) if debug.info.in_memory is None else distinct[:0]
    parts = [_follow(debug, part) for part in np.split(distinct, np.flatnonzero(np.diff(near)) + 1)]
    found = Identity(*map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]
    return found.rows(inverse.reshape(-1))


def _follow(debug: DebugInfo, distinct: U64) -> Identity:
    """Return what the chain of each of these DIEs, ascending, yields."""
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
        # a file that this DIE lacks is that of the next DIE of the chain
        file[rows] = np.where((file[rows] == 0) & (dies.decl_file[back] != 0), dies.decl_file[back], file[rows])
        external[rows] |= (dies.flags[back] & EXTERNAL) != 0
        root[rows] = at
        if depth == 1:
            from_abstract[rows] = (dies.flags[back] & DECLARATION) == 0
        origin = dies.origin[back]
        more = (origin != 0) & ~dies.failed[back]
        at, rows = origin[more], rows[more]
    return Identity(name, linkage, external, root, declared, line, file, from_abstract)
