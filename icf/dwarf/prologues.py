"""Where the body of a function begins, by its line table: before that, parameters are not yet where it keeps them.

    low        push %rbp ; mov %rsp,%rbp ; mov %rdi,-8(%rbp)      draw()      first row
    low + 8    ...                                                return r;   second row, or one marked `prologue_end`

Unoptimized code has one location for a parameter in the whole function. It holds from the second row on.
"""

from __future__ import annotations

import numpy as np

from icf.dwarf import columns as col
from icf.dwarf.line import LineProgram, LineSections, RowFlag, scan_all
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image

_LONGEST_BYTES = 512  # without a line table


class Prologues:
    """The prologues of one image; the line table of a unit is read when it is first asked for."""

    def __init__(self, image: Image, debug: DebugInfo) -> None:
        self._debug = debug
        line, line_str = map(image.debug.contents, (".debug_line", ".debug_line_str"))
        self._sections = LineSections(line, line_str, debug.str_, image.debug.path)
        self._programs: dict[int, LineProgram | None] = {}

    def has(self, unit: int, low: int, vaddr: int) -> bool:
        """Return whether an address is, or may be, in the prologue of the function of a unit that begins at `low`."""
        if not low <= vaddr < low + _LONGEST_BYTES:
            return False
        program = self._program(unit)
        if program is None:
            return True
        for sequence in program.sequences_at(low).tolist():
            rows = slice(int(program.sequences.row_start[sequence]), int(program.sequences.row_end[sequence]))
            address, flags = program.address[rows], program.flags[rows]
            later = address > np.uint64(low)
            marked = address[(address >= np.uint64(low)) & (flags & RowFlag.PROLOGUE_END != 0)]
            ends = marked if len(marked) else address[later]
            if len(ends):
                return vaddr < int(ends.min())
        return True

    def _program(self, unit: int) -> LineProgram | None:
        columns = self._debug.units[unit]
        if not int(columns[col.FLAGS]) & col.HAS_STMT_LIST:
            return None
        offset = int(columns[col.STMT_LIST])
        if offset not in self._programs:
            (found,) = scan_all(self._sections, [offset])
            self._programs[offset] = found if isinstance(found, LineProgram) else None
        return self._programs[offset]
