"""The call sites of single functions, with their places in the tree of DIEs.

    DW_TAG_subprogram               scope 0
      DW_TAG_inlined_subroutine     scope 1
        DW_TAG_call_site  f         a
        DW_TAG_call_site  g         b
      DW_TAG_call_site  h           c

Compilers append the sites of one scope in the order of the code: a before b. Between scopes the order of DIEs
says nothing: c may be the first of the three. So each site comes with its scope. The bulk scan leaves that
out, as few functions are ever asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from icf.dwarf import columns as col
from icf.dwarf.units import MAX_DEPTH, DebugInfo
from icf.sets import distinct


class Site(NamedTuple):
    """A call site with a callee."""

    pc: int  # as in icf.dwarf.scan.CallSites
    origin: int
    scope: int  # tells apart the scopes of one function
    is_tail_call: bool
    at_instruction: bool


def read_sites(debug: DebugInfo, functions: Iterable[int]) -> dict[int, list[Site]]:
    """Return the call sites of the functions at these DIEs, in the order of the DIEs."""
    dies = distinct(np.array(list(functions), np.uint64))
    units = debug.unit_of(dies)
    dies, units = dies[units >= 0], units[units >= 0]
    sites_of: dict[int, list[Site]] = {die: [] for die in dies.tolist()}
    picks = np.stack([dies, units.astype(np.uint64)], axis=1)
    stack, result = np.empty(2 * MAX_DEPTH, np.int32), np.zeros(col.R_SIZE, np.uint64)
    functions_room = np.empty((1 << 10, col.S_COUNT), np.uint64)
    sites = np.empty((1 << 12, col.C_COUNT_SCOPED), np.uint64)
    row_of: dict[int, tuple[int, int]] = {}
    at = 0
    while at < len(picks):
        debug.run(at, len(picks), picks, functions_room, sites, stack, result, mode=col.READ_SITES_OF)
        reached, site_count = int(result[col.R_NEXT]), int(result[col.R_SITES])
        if reached == at:  # not even one function fits
            functions_room = np.empty((2 * len(functions_room), col.S_COUNT), np.uint64)
            sites = np.empty((2 * len(sites), col.C_COUNT_SCOPED), np.uint64)
            continue
        for pc, origin, packed, scope in sites[:site_count].tolist():
            flags, row = packed >> 32, packed & 0xFFFFFFFF
            if flags & col.NO_CALLER:
                continue
            caller = int(functions_room[row, col.S_DIE])
            # a function may hold others, methods of its own classes: then they are met twice
            if caller in sites_of and row_of.setdefault(caller, (at, row)) == (at, row):
                site = Site(pc, origin, scope, bool(flags & col.TAIL_CALL), bool(flags & col.AT_INSTRUCTION))
                sites_of[caller].append(site)
        at = reached
    return sites_of
