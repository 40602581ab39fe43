"""The entries of a symcache: the bodies of an image, and the members of each.

Three sources, best first: the fold classes that the link pass left in the image, the symbols, and the functions
with code in the debug information, for those that no symbol names. Where an image has no tables, several symbols at one
address are members, and there may be others (`unwind.program.functions`).

Entries may nest (labels in assembly). The innermost then has an address, and the part of the outer one that follows
it is a *rest*: an entry that only names its function.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.dwarf.inlines import Ranges
from icf.elf.image import Image
from icf.elf.types import SHF_ALLOC, SHF_EXECINSTR
from icf.model import ClassFlag, FoldClass
from icf.sets import is_in
from icf.tables.icftable import parse_icf
from icf.tables.place import ICF, file_with_tables, has_tables
from unwind.program.functions import SymbolFunctions
from unwind.symcache.builder.losing import Losing

_LAST_VADDR = (1 << 64) - 1
_OVERLAP_FACTOR = 4  # bytes of bodies at most, in bytes from the first to the last


class Bodies(NamedTuple):
    """One row for each body, by start; each has exactly one of `symbol`, `function` and `folds`."""

    start: U64
    end: U64
    symbol: I64  # row of the only symbol there, else -1
    function: I64  # row of `Ranges` if no symbol and no table names it, else -1
    folds: dict[int, FoldClass]  # by row: those of the tables, and those of several symbols
    are_all_named: bool  # whether a body with one symbol can have no other members

    @property
    def is_complete(self) -> Mask:
        """Whether a body can have no other members than those that are known."""
        found = np.full(len(self.start), self.are_all_named, np.bool_)
        for row, fold in self.folds.items():
            # to compare flags takes longer than all else of a body
            found[row] = fold.flags is ClassFlag.MEMBERS_COMPLETE or bool(fold.flags & ClassFlag.MEMBERS_COMPLETE)
        return found


def find_bodies(
    image: Image, ranges: Ranges | None, classes: list[FoldClass] | None = None, losing: Losing | None = None
) -> Bodies:
    """Return all bodies; `ranges` are those of the functions in the debug information.

    `classes`: the fold classes of the image; None: those of its tables.
    `losing`: tells whose ranges are left out, as any function may run there.
    """
    classes = _classes(image) if classes is None else _usable(classes)
    if ranges is None:
        ranges = Ranges(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64))
    functions = SymbolFunctions(image, folds_known=classes is not None, described=(ranges.low, ranges.high))
    folds, start, end = _sized(classes or [], functions)

    rows = np.flatnonzero(~np.isin(functions.starts, start) & (functions.ends > functions.starts))
    counts = np.diff(functions.first, append=len(functions.rows))[rows]
    several = rows[counts > 1]
    folds += [fold for at in functions.starts[several].tolist() if (fold := functions.find(at)) is not None]
    only = rows[counts == 1]
    symbol_start = np.concatenate([start, functions.starts[rows]])
    symbol_end = np.concatenate([end, functions.ends[rows]])
    nameless = _uncovered(image, ranges, symbol_start, symbol_end)
    if losing is not None:
        nameless = nameless[~losing.of(ranges.owner[nameless])]
    start = np.concatenate([start, functions.starts[several], functions.starts[only], ranges.low[nameless]])
    end = np.concatenate([end, functions.ends[several], functions.ends[only], ranges.high[nameless]])
    symbol, function = np.full(len(start), -1, np.int64), np.full(len(start), -1, np.int64)
    first_symbol, first_function = len(folds), len(folds) + len(only)
    symbol[first_symbol:first_function] = functions.rows[functions.first[only]]
    function[first_function:] = nameless
    order = np.argsort(start, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    by_row = dict(zip(place[: len(folds)].tolist(), folds, strict=True))
    start, end = start[order], end[order]
    if len(start) and float((end - start).sum(dtype=np.float64)) > _OVERLAP_FACTOR * float(end.max() - start[0]):
        end[:-1] = np.minimum(end[:-1], np.maximum(start[1:], start[:-1]))  # sizes of a hostile symbol table
    end = np.minimum(end, np.maximum(start, np.uint64(min(image.span[1], _LAST_VADDR))))  # no code is beyond
    return Bodies(start, end, symbol[order], function[order], by_row, functions.are_all_named)


def _classes(image: Image) -> list[FoldClass] | None:
    """Return the fold classes of the tables; None without tables."""
    if not has_tables(image):
        return None
    file = file_with_tables(image)
    table = parse_icf(file.contents(ICF), file.path, image.debug.streamed(".debug_str"))
    return _usable(table.classes)


def _usable(classes: Iterable[FoldClass]) -> list[FoldClass]:
    return [fold for fold in classes if fold.members]


def _sized(classes: list[FoldClass], functions: SymbolFunctions) -> tuple[list[FoldClass], U64, U64]:
    """Return the classes that have code, where each starts and ends: without a size where its symbol does."""
    start = np.array([fold.vaddr for fold in classes], np.uint64)
    end = start + np.array([fold.size_bytes for fold in classes], np.uint64)
    bare = np.flatnonzero(end == start)
    at, known = np.searchsorted(functions.starts, start[bare]), is_in(start[bare], functions.starts)
    end[bare[known]] = functions.ends[at[known]]
    rows = np.flatnonzero(end > start)
    return [classes[row] for row in rows.tolist()], start[rows], end[rows]


def _uncovered(image: Image, ranges: Ranges, starts: U64, ends: U64) -> I64:
    """Return the ranges of functions, one for each start, that begin in code and in no body."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order]) if len(ends) else ends
    _, rows = np.unique(ranges.low, return_index=True)
    at = np.searchsorted(starts, ranges.low[rows], side="right") - 1
    free = (at < 0) | (reach[np.maximum(at, 0)] <= ranges.low[rows]) if len(starts) else np.ones(len(rows), np.bool_)
    rows = rows[free].astype(np.int64)
    is_code = np.zeros(len(rows), np.bool_)
    for section in image.sections:
        if section.flags & SHF_EXECINSTR and section.flags & SHF_ALLOC:
            low, limit = np.uint64(section.vaddr), np.uint64(section.vaddr + section.size_bytes)
            is_code |= (ranges.low[rows] >= low) & (ranges.high[rows] <= limit)
    return rows[is_code]


def bodies_at(bodies: Bodies, vaddrs: list[int]) -> tuple[Bodies, list[int]]:
    """Return the bodies that hold one of some ascending addresses, and the addresses that are in none."""
    asked = np.array(vaddrs, np.uint64)
    is_wanted = np.searchsorted(asked, bodies.start) < np.searchsorted(asked, bodies.end)
    rows = np.flatnonzero(is_wanted)
    reach = np.maximum.accumulate(bodies.end[rows]) if len(rows) else bodies.end[rows]
    at = np.searchsorted(bodies.start[rows], asked, side="right") - 1
    is_held = (at >= 0) & (reach[np.maximum(at, 0)] > asked) if len(rows) else np.zeros(len(asked), np.bool_)
    folds = {new: bodies.folds[old] for new, old in enumerate(rows.tolist()) if old in bodies.folds}
    columns = bodies.start[rows], bodies.end[rows], bodies.symbol[rows], bodies.function[rows]
    return Bodies(*columns, folds, bodies.are_all_named), asked[~is_held].tolist()
