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

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.dwarf import columns as col
from icf.dwarf.units import MAX_DEPTH, DebugInfo
from icf.sets import distinct

_FLAGS, _ROW = np.uint64(32), np.uint64(0xFFFFFFFF)  # of `C_CALLER`


class Sites(NamedTuple):
    """Call sites with a callee, by function and then in the order of their DIEs."""

    die: U64  # the functions, ascending
    start: I64  # first site of each; one more than there are functions
    pc: U64  # as in icf.dwarf.scan.CallSites
    origin: U64
    scope: U64  # tells apart the scopes of one function
    is_tail_call: Mask
    at_instruction: Mask


def read_sites(debug: DebugInfo, functions: U64) -> Sites:
    """Return the call sites of the functions at these DIEs, as far as they are in a unit."""
    dies = distinct(functions)
    units = debug.unit_of(dies)
    dies, units = dies[units >= 0], units[units >= 0]
    picks = np.stack([dies, units.astype(np.uint64)], axis=1)
    stack, result = np.empty(2 * MAX_DEPTH, np.int32), np.zeros(col.R_SIZE, np.uint64)
    functions_room = np.empty((1 << 10, col.S_COUNT), np.uint64)
    room = np.empty((1 << 12, col.C_COUNT_SCOPED), np.uint64)
    is_met = np.zeros(len(dies), np.bool_)
    found, owners = [room[:0]], [np.empty(0, np.int64)]
    at = 0
    while at < len(picks):
        debug.run(at, len(picks), picks, functions_room, room, stack, result, mode=col.READ_SITES_OF)
        reached, site_count = int(result[col.R_NEXT]), int(result[col.R_SITES])
        if reached == at:  # not even one function fits
            functions_room = np.empty((2 * len(functions_room), col.S_COUNT), np.uint64)
            room = np.empty((2 * len(room), col.C_COUNT_SCOPED), np.uint64)
            continue
        rows = room[:site_count]
        rows = rows[rows[:, col.C_CALLER] >> _FLAGS & np.uint64(col.NO_CALLER) == 0]
        owner = _owners(dies, is_met, functions_room[:, col.S_DIE], rows[:, col.C_CALLER] & _ROW)
        found.append(rows[owner >= 0])
        owners.append(owner[owner >= 0])
        at = reached
    owner, rows = np.concatenate(owners), np.concatenate(found)
    order = np.argsort(owner, kind="stable")
    pc, origin, packed, scope = rows[order].T
    flags = packed >> _FLAGS
    start = np.searchsorted(owner[order], np.arange(len(dies) + 1))
    is_tail_call, at_instruction = (flags & np.uint64(bit) != 0 for bit in (col.TAIL_CALL, col.AT_INSTRUCTION))
    return Sites(dies, start, pc, origin, scope, is_tail_call, at_instruction)


def _owners(dies: U64, is_met: Mask, die_of_row: U64, row: U64) -> I64:
    """Return which of the functions each site is in, by the row of its function in this part; -1 for none.

    A function may hold others, methods of its own classes, which are met twice then: the first row counts, and
    `is_met` tells those of earlier parts.
    """
    die = die_of_row[row]
    owner = np.searchsorted(dies, die)
    owner[dies[np.minimum(owner, len(dies) - 1)] != die] = -1
    fresh = np.flatnonzero((owner >= 0) & ~is_met[owner])
    functions, at = np.unique(owner[fresh], return_index=True)
    first_row = np.full(len(dies) + 1, -1)  # the last one is for -1
    first_row[functions] = row[fresh[at]]
    is_met[functions] = True
    return np.where(first_row[owner] == row, owner, -1)
