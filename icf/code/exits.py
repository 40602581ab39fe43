"""The jumps by which control may leave a function, on x86-64; the kernel that follows values decodes them.

A call into the middle of the own function counts: a retpoline then overwrites the return address, and returns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.code.operations import BAD, BRANCH, CALL, JUMP, JUMP_VALUE
from icf.code.rows import decode_function


class Exit(NamedTuple):
    """A jump out of a function, or to its start."""

    at: int  # offset in the function
    target: int | None  # offset too, outside of the function or 0; None: a register or memory holds it


def find_exits(code: memoryview) -> list[Exit] | None:
    """Return the exits of the function with these bytes, in order; None if it cannot be decoded up to its end."""
    rows = decode_function(code)
    exits = []
    for kind, _, _, _, target, at in rows[np.flatnonzero(rows[:, 0] >= CALL)].tolist():
        if kind == BAD:
            return None
        inside = 0 < target < len(code)
        if kind == JUMP_VALUE or (kind == CALL and inside):
            exits.append(Exit(at, None))
        elif (kind == JUMP or kind == BRANCH) and not inside:
            exits.append(Exit(at, target))
    return exits
