"""Where a walk along frame pointers finds the caller of a function, by its call frame information.

    push %rbp ; mov %rsp,%rbp                  CFA = rbp + 16, rbp at CFA - 16, the return address at CFA - 8
    stp x29, x30, [sp, #-32]! ; mov x29, sp    CFA = x29 + 32, x29 at CFA - 32, x30 at CFA - 24

So it holds wherever the frame is set up, also in a function that returns early before that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from icf.dwarf.cfi import rules
from icf.dwarf.cfi.frames import Row
from icf.elf.types import Machine

_WORD_BYTES = 8
_MASK = (1 << 64) - 1
FRAME_POINTERS = {
    Machine.X86_64: (6, 16),
    Machine.AARCH64: (29, 30),
}  # the frame pointer, and what has the return address


def has_frame(row: Row, machine: Machine) -> bool:
    """Return whether the frame pointer leads to the caller's, with the return address after it."""
    frame_pointer, return_address = FRAME_POINTERS[machine]
    columns = row.columns
    offset = int(columns[rules.CFA_OFFSET])
    return (
        int(columns[rules.CFA_REGISTER]) == frame_pointer
        and _is_saved(columns[rules.FIRST + 2 * frame_pointer :], -offset)
        and _is_saved(columns[rules.FIRST + 2 * return_address :], _WORD_BYTES - offset)
    )


def _is_saved(rule: NDArray[np.uint64], offset: int) -> bool:
    return int(rule[0]) == rules.OFFSET and int(rule[1]) == offset & _MASK
