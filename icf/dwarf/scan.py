"""The bulk scan: all functions with code and all call sites with a callee, by a pool of threads.

Units are independent, so threads take runs of units and the kernel releases the interpreter lock. Each
thread scans into one small set of arrays that stays in its cache, and copies the rows out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from icf.columns import I64, U8, U32, U64
from icf.dwarf import _ranges
from icf.dwarf import columns as col
from icf.dwarf.units import MAX_DEPTH, DebugInfo

Scratch = TypeVar("Scratch")
Found = TypeVar("Found")

_RUN_BYTES = 1 << 20  # .debug_info bytes that a thread takes at a time


class Functions(NamedTuple):
    """One row for each range of each function, functions in the order of their DIEs.

    A function that is split into a hot and a cold part has two rows of one DIE, `part` 0 and 1.
    """

    die: U64
    low: U64
    high: U64
    origin: U64
    unit: U32
    part: U32


class CallSites(NamedTuple):
    """One row for each call site with a callee.

    `pc` is the return address, or with AT_INSTRUCTION the address of the call or jump itself; `caller` is the DIE of
    the enclosing function, 0 if none is recorded (gcc hangs a few sites into the abstract instance).
    """

    pc: U64
    origin: U64
    caller: U64
    flags: U8


class Scan(NamedTuple):
    functions: Functions
    sites: CallSites
    bare: U64  # DIEs of local functions without code: no declarations, no abstract instances


def thread_count() -> int:
    """Return the processors this process may use."""
    return len(os.sched_getaffinity(0))


def scan_functions(debug: DebugInfo, threads: int | None = None) -> Scan:
    """Scan every unit. Units that cannot be read are in `debug.errors()` afterwards."""
    parts = each_run(debug, _Scanner(debug).scan_run, _Scratch, threads)
    if not parts:
        parts = [(np.empty((0, col.S_COUNT), np.uint64), np.empty((0, col.C_COUNT), np.uint64))]
    return _assemble(debug, parts)


def scan_unit(debug: DebugInfo, unit: int) -> Functions:
    """Return the functions with code of one unit."""
    subs, _ = _Scanner(debug).scan_run((unit, unit + 1), _Scratch())
    is_bare = (subs[:, col.S_FLAGS] & np.uint64(col.HAS_LOW | col.RANGES_AT | col.RANGES_INDEX)) == 0
    return _expand_ranges(debug, subs[~is_bare])


def each_run(
    debug: DebugInfo,
    scan_run: Callable[[tuple[int, int], Scratch], Found],
    make_scratch: Callable[[], Scratch],
    threads: int | None = None,
    units: slice = slice(None),
) -> list[Found]:
    """Return what `scan_run` finds in each run of `units`, in order; a thread has one scratch for all of its runs."""
    runs = _runs_of_units(debug, units)
    workers = min(threads or thread_count(), len(runs))
    if workers <= 1:
        scratch = make_scratch()
        return [scan_run(run, scratch) for run in runs]
    spare = [make_scratch() for _ in range(workers)]

    def work(run: tuple[int, int]) -> Found:
        scratch = spare.pop()
        try:
            return scan_run(run, scratch)
        finally:
            spare.append(scratch)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, runs))


def _runs_of_units(debug: DebugInfo, units: slice) -> list[tuple[int, int]]:
    first, last, _ = units.indices(debug.unit_count)
    if first == last:
        return []
    ends = debug.units[first:last, col.END] // np.uint64(_RUN_BYTES)
    cuts = first + np.flatnonzero(np.diff(ends)) + 1
    edges = [first, *cuts.tolist(), last]
    return list(zip(edges[:-1], edges[1:], strict=True))


class _Scratch:
    """What one thread scans into; grown when a single unit does not fit."""

    def __init__(self) -> None:
        self.functions = np.empty((1 << 14, col.S_COUNT), np.uint64)
        self.sites = np.empty((1 << 16, col.C_COUNT), np.uint64)
        self.stack = np.empty(MAX_DEPTH, np.int32)
        self.result = np.zeros(col.R_SIZE, np.uint64)


class _Scanner:
    def __init__(self, debug: DebugInfo) -> None:
        self.debug = debug
        self.no_picks = np.empty((0, 2), np.uint64)

    def scan_run(self, run: tuple[int, int], scratch: _Scratch) -> tuple[U64, U64]:
        """Return the rows of units run[0]..run[1]; callers in the sites are rows of this run."""
        subs: list[U64] = []
        sites: list[U64] = []
        at, last = run
        base = 0
        while at < last:
            self.debug.run(
                at,
                last,
                self.no_picks,
                scratch.functions,
                scratch.sites,
                scratch.stack,
                scratch.result,
                mode=col.READ_SITES,
            )
            reached, sub_count, site_count = (int(x) for x in scratch.result[:3])
            if reached == at:  # not even one unit fits
                scratch.functions = np.empty((2 * len(scratch.functions), col.S_COUNT), np.uint64)
                scratch.sites = np.empty((2 * len(scratch.sites), col.C_COUNT), np.uint64)
                continue
            subs.append(scratch.functions[:sub_count].copy())
            part = scratch.sites[:site_count].copy()
            part[:, col.C_CALLER] += np.uint64(base)
            sites.append(part)
            base += sub_count
            at = reached
        if len(subs) == 1:
            return subs[0], sites[0]
        return np.concatenate(subs), np.concatenate(sites)


def _assemble(debug: DebugInfo, parts: list[tuple[U64, U64]]) -> Scan:
    sites = CallSites(
        pc=np.concatenate([site[:, col.C_PC] for _, site in parts]),
        origin=np.concatenate([site[:, col.C_ORIGIN] for _, site in parts]),
        caller=np.concatenate([_callers(sub, site) for sub, site in parts]),
        flags=np.concatenate([(site[:, col.C_CALLER] >> np.uint64(32)).astype(np.uint8) for _, site in parts]),
    )
    subs = np.concatenate([sub for sub, _ in parts])
    is_bare = (subs[:, col.S_FLAGS] & np.uint64(col.HAS_LOW | col.RANGES_AT | col.RANGES_INDEX)) == 0
    return Scan(_expand_ranges(debug, subs[~is_bare]), sites, subs[is_bare, col.S_DIE])


def _callers(subs: U64, sites: U64) -> U64:
    callers = np.zeros(len(sites), np.uint64)
    known = (sites[:, col.C_CALLER] >> np.uint64(32)) & np.uint64(col.NO_CALLER) == 0
    callers[known] = subs[(sites[known, col.C_CALLER] & np.uint64(0xFFFFFFFF)).astype(np.intp), col.S_DIE]
    return callers


def range_requests(debug: DebugInfo, rows: I64, ranges: U64, forms: U64, unit: U64) -> U64:
    """Return the arguments of `_ranges.expand` for range lists given by DW_AT_ranges.

    Those of split units have a base.
    """
    units = debug.units[unit.astype(np.intp)]
    split = (units[:, col.FLAGS] & col.BASES_GIVEN) != 0
    if split.any():
        is_old = units[:, col.VERSION] < 5
        header = np.where(units[:, col.OFFSET_SIZE] == 8, np.uint64(20), np.uint64(12))
        base = np.where(is_old, units[:, col.RNGLISTS_BASE], units[:, col.RNGLISTS_BASE] - header)
        ranges = ranges + np.where(split & (forms == col.RANGES_AT), base, np.uint64(0))
    return np.stack([rows.astype(np.uint64), ranges, forms, unit], axis=1)


def expand_lists(debug: DebugInfo, rows: I64, ranges: U64, forms: U64, unit: U64) -> U64:
    """Return the ranges in the range lists of `rows`, in order: u64[n, 4] of row, low, high, position in the list."""
    ask = range_requests(debug, rows, ranges, forms, unit)
    capacity = 4 * len(rows) + 64
    while True:
        out = np.empty((capacity, 4), np.uint64)
        count = _ranges.expand(ask.data, debug.units.data, debug.ranges, debug.rnglists, debug.addr, out.data)
        # every range takes two bytes or more, but hostile lists may be shared: their functions lose ranges
        if count < capacity or capacity > len(debug.ranges) + len(debug.rnglists):
            return out[:count]
        capacity *= 4


def _expand_ranges(debug: DebugInfo, subs: U64) -> Functions:
    """Replace each function that has a range list by its ranges."""
    flags = subs[:, col.S_FLAGS] & np.uint64(0xFFFFFFFF)
    unit = subs[:, col.S_FLAGS] >> np.uint64(32)
    forms = flags & np.uint64(col.RANGES_AT | col.RANGES_INDEX)
    listed = forms != 0
    rows = np.flatnonzero(listed)
    out = expand_lists(debug, rows, subs[rows, col.S_RANGES], forms[rows], unit[rows])
    plain = np.flatnonzero(~listed)
    row = np.concatenate([plain, out[:, 0].astype(np.intp)])
    part = np.concatenate([np.zeros(len(plain), np.uint32), out[:, 3].astype(np.uint32)])
    low = np.concatenate([subs[plain, col.S_LOW], out[:, 1]])
    high = np.concatenate([subs[plain, col.S_HIGH], out[:, 2]])
    order = np.argsort(row, kind="stable")
    row = row[order]
    return Functions(
        die=subs[row, col.S_DIE],
        low=low[order],
        high=high[order],
        origin=subs[row, col.S_ORIGIN],
        unit=unit[row].astype(np.uint32),
        part=part[order],
    )
