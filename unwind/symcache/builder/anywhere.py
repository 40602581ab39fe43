"""The line tables of bodies that no debug information describes: assembly, thunks of gcc.

Any unit may have their lines, so the tables of all units are asked, some units at a time. The sequence that begins last
before a body decides. Several begin at one place where gold or mold have folded sections, or taken one of several
copies: copies have the same lines, folded functions have others. If their first rows differ nothing is known. Nor is it
where the one table is that of a definition which lost (`Losing.tables`): then that of the symbol is not described.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.dwarf.line import LineProgram

_LINE_BITS = np.uint64(32)


class Anywhere:
    """What the tables that were asked so far say of each claim."""

    def __init__(self, claim_count: int, lost_tables: Mapping[int, frozenset[int]] | None = None) -> None:
        """Take for some claims the offsets of tables whose lines at the body are another definition's."""
        self._lost_tables = lost_tables or {}
        self._begin: U64 = np.zeros(claim_count, np.uint64)  # of the sequence that decides, plus 1; 0: none
        self._place: U64 = np.zeros(claim_count, np.uint64)  # of its first row
        self.is_open: Mask = np.zeros(claim_count, np.bool_)  # it ends before the body, or others differ from it

    def choose(self, tables: list[LineProgram | None], file_maps: list[U32], claims: I64, start: U64) -> I64:
        """Return the table of each claim, whose body begins at `start`; -1 for none.

        -1 also where an earlier table has the same lines, or a better sequence.
        """
        found = np.full(len(claims), -1)
        live = [
            (program.sequences.start[i], program.sequences.end[i], _places(program, files, i), np.full(len(i), table))
            for table, (program, files) in enumerate(zip(tables, file_maps, strict=True))
            if program is not None and len(i := np.flatnonzero(~program.sequences.dead))
        ]
        if not live or not len(claims):
            return found
        low, high, place, table = map(np.concatenate, zip(*live, strict=True))
        order = np.argsort(low, kind="stable")
        low, high, place, table = low[order], high[order], place[order], table[order]
        firsts = np.flatnonzero(np.append(True, low[1:] != low[:-1]))
        differs = np.minimum.reduceat(place, firsts) != np.maximum.reduceat(place, firsts)

        run = np.searchsorted(low[firsts], start, side="right") - 1
        rows = np.flatnonzero(run >= 0)
        at, run, asked = firsts[run[rows]], run[rows], claims[rows]
        begin, known = low[at] + np.uint64(1), self._begin[asked]
        is_new, is_same = begin > known, begin == known
        is_open = differs[run] | (np.maximum.reduceat(high, firsts)[run] <= start[rows])
        self.is_open[asked[is_same]] |= (is_open | (place[at] != self._place[asked]))[is_same]
        new = asked[is_new]
        self._begin[new], self._place[new], self.is_open[new] = begin[is_new], place[at][is_new], is_open[is_new]
        is_found = is_new & ~is_open
        found[rows[is_found]] = table[at][is_found]
        for row in np.flatnonzero(found >= 0).tolist() if self._lost_tables else ():
            program = tables[int(found[row])]
            if program is not None and program.offset in self._lost_tables.get(int(claims[row]), ()):
                found[row], self.is_open[claims[row]] = -1, True
        return found


def _places(program: LineProgram, files: U32, sequences: I64) -> U64:
    """Return file and line of the first row of each sequence."""
    rows = program.sequences.row_start[sequences].astype(np.int64)
    file_idx = program.file_idx[rows].astype(np.int64)
    file = np.append(files, np.uint32(0))[np.minimum(file_idx, len(files))]
    return file.astype(np.uint64) << _LINE_BITS | program.line[rows].astype(np.uint64)
