"""Units are scanned in runs, by a pool of threads: the kernel releases the interpreter lock.

Each thread has one small set of arrays, which stays in its cache, and scans all of its runs into that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from icf.columns import U64
from icf.dwarf import columns as col
from icf.dwarf.units import DebugInfo
from icf.threads import in_threads

Found = TypeVar("Found")
Pieces = Iterator[tuple[U64, U64]]

_RUN_BYTES = 1 << 20  # .debug_info bytes that a thread takes at a time
_NO_PICKS = np.empty((0, 2), np.uint64)


class Layout(NamedTuple):
    """What the kernel reads of each unit, and the arrays for it: rows and columns to begin with."""

    mode: int  # READ_SITES, READ_INLINED
    functions: tuple[int, int]
    rows: tuple[int, int]  # of call sites, of inlined calls
    depth: int  # of the kernel's stack


class Rows:
    """What one thread scans into; grown when a single unit does not fit."""

    def __init__(self, layout: Layout) -> None:
        self._mode = layout.mode
        self._functions = np.empty(layout.functions, np.uint64)
        self._rows = np.empty(layout.rows, np.uint64)
        self._stack = np.empty(layout.depth, np.int32)
        self._result = np.zeros(col.R_SIZE, np.uint64)

    def scan(self, debug: DebugInfo, first: int, last: int) -> Pieces:
        """Yield the functions of units first..last and their rows, in pieces; the next piece overwrites the last.

        Rows number their functions within the piece.
        """
        while first < last:
            debug.run(first, last, _NO_PICKS, self._functions, self._rows, self._stack, self._result, mode=self._mode)
            reached, function_count, row_count = (int(x) for x in self._result[:3])
            if reached == first:  # not even one unit fits
                self._functions = _twice(self._functions)
                self._rows = _twice(self._rows)
                continue
            yield self._functions[:function_count], self._rows[:row_count]
            first = reached


def each_run(
    debug: DebugInfo,
    layout: Layout,
    collect: Callable[[Pieces], Found],
    threads: int | None = None,
    units: slice = slice(None),
) -> list[Found]:
    """Return what `collect` makes of the pieces of each run of `units`, in order."""
    runs = _runs_of_units(debug, units)
    workers = min(threads or thread_count(), len(runs))
    spare = [Rows(layout) for _ in range(workers)]

    def work(run: tuple[int, int]) -> Found:
        rows = spare.pop()
        try:
            return collect(rows.scan(debug, *run))
        finally:
            spare.append(rows)

    return in_threads(work, runs, workers)


def thread_count() -> int:
    """Return the processors this process may use."""
    return len(os.sched_getaffinity(0))


def _runs_of_units(debug: DebugInfo, units: slice) -> list[tuple[int, int]]:
    first, last, _ = units.indices(debug.unit_count)
    if first == last:
        return []
    ends = debug.units[first:last, col.END] // np.uint64(_RUN_BYTES)
    cuts = first + np.flatnonzero(np.diff(ends)) + 1
    edges = [first, *cuts.tolist(), last]
    return list(zip(edges[:-1], edges[1:], strict=True))


def _twice(rows: U64) -> U64:
    return np.empty((2 * len(rows), rows.shape[1]), np.uint64)
