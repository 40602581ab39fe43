"""What functions are called with, in columns: the types of their parameters, and whether their results are in memory.

Big Each::add(int, Visitor*)        parameters Each*, int, Visitor*; a method; its result is in memory
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I8, I64, U64, Mask
from icf.dwarf import columns as col
from icf.dwarf.layouts import DieRows, is_result_in_memory
from icf.sets import distinct

_FUNCTIONS = 1 << 10  # read together: the types of their results are in the same units, which are at hand then

NO_RESULT, ELSEWHERE, IN_MEMORY, UNCLEAR = range(4)  # as Prototypes.result


class Prototypes(NamedTuple):
    """A row for each DIE of a function."""

    is_known: Mask  # the DIE can be read
    is_method: Mask  # it says so itself
    result: I8
    start: I64  # first row of `type` of each function; one more than there are functions
    type: U64  # of each parameter; 0 for none

    def types(self, row: int) -> list[int]:
        """Return the types of the parameters of one function."""
        found: list[int] = self.type[self.start[row] : self.start[row + 1]].tolist()
        return found


def read_prototypes(rows: DieRows, dies: U64) -> Prototypes:
    """Return the prototypes of the functions with these DIEs, which ascend."""
    parts = [_read(rows, dies[first : first + _FUNCTIONS]) for first in range(0, len(dies) or 1, _FUNCTIONS)]
    known, method, result, counts, types = map(np.concatenate, zip(*parts, strict=True))
    return Prototypes(known, method, result, np.append(0, np.cumsum(counts)), types)


def _read(rows: DieRows, dies: U64) -> tuple[Mask, Mask, I8, I64, U64]:
    """Return the columns of a part of the functions, with numbers of parameters in place of their rows."""
    table = rows.reader.read(dies)
    owner, flags = table[:, col.L_OWNER].astype(np.intp), table[:, col.L_FLAGS]
    own = np.flatnonzero(np.diff(owner, prepend=-1))
    is_known, is_method, type_ = np.zeros(len(dies), np.bool_), np.zeros(len(dies), np.bool_), np.zeros_like(dies)
    is_known[owner[own]] = (table[own, col.L_TAG] != 0) & (flags[own] & np.uint64(col.L_FAILED) == 0)
    is_method[owner[own]] = flags[own] & np.uint64(col.L_METHOD) != 0
    type_[owner[own]] = table[own, col.L_TYPE]
    is_parameter = table[:, col.L_TAG] == col.TAG_FORMAL_PARAMETER
    is_parameter[own] = False
    counts = np.bincount(owner[is_parameter], minlength=len(dies))
    return is_known, is_method, _results(rows, type_), counts, table[is_parameter, col.L_TYPE]


def _results(rows: DieRows, types: U64) -> I8:
    asked = distinct(types)
    kind_of = {False: ELSEWHERE, True: IN_MEMORY, None: UNCLEAR}
    kinds = np.array([kind_of[each] for each in rows.answer(map(is_result_in_memory, asked.tolist()))], np.int8)
    kinds[asked == 0] = NO_RESULT
    return kinds[np.searchsorted(asked, types)]
