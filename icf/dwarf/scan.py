"""The bulk scan: all functions with code and all call sites with a callee."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import U8, U32, U64
from icf.dwarf import columns as col
from icf.dwarf.range_lists import expand_lists
from icf.dwarf.runs import Layout, Pieces, Rows, each_run
from icf.dwarf.units import MAX_DEPTH, DebugInfo

_SITES = Layout(col.READ_SITES, functions=(1 << 14, col.S_COUNT), rows=(1 << 16, col.C_COUNT), depth=MAX_DEPTH)


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


def scan_functions(debug: DebugInfo, threads: int | None = None) -> Scan:
    """Scan every unit. Units that cannot be read are in `debug.errors()` afterwards."""
    parts = each_run(debug, _SITES, _functions_and_sites, threads)
    if not parts:
        parts = [(np.empty((0, col.S_COUNT), np.uint64), np.empty((0, col.C_COUNT), np.uint64))]
    return _assemble(debug, parts)


def scan_unit(debug: DebugInfo, unit: int) -> Functions:
    """Return the functions with code of one unit."""
    subs, _ = _functions_and_sites(Rows(_SITES).scan(debug, unit, unit + 1))
    is_bare = (subs[:, col.S_FLAGS] & np.uint64(col.HAS_LOW | col.RANGES_AT | col.RANGES_INDEX)) == 0
    return _expand_ranges(debug, subs[~is_bare])


def _functions_and_sites(pieces: Pieces) -> tuple[U64, U64]:
    """Return the rows of a run; callers in the sites are rows of this run."""
    functions: list[U64] = []
    sites: list[U64] = []
    base = 0
    for found, rows in pieces:
        functions.append(found.copy())
        part = rows.copy()
        part[:, col.C_CALLER] += np.uint64(base)
        sites.append(part)
        base += len(found)
    if len(functions) == 1:
        return functions[0], sites[0]
    return np.concatenate(functions), np.concatenate(sites)


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
