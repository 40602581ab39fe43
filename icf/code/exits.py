"""By which jumps control may leave a function other than by return: x86-64, with the kernel that also follows values.

A call into the middle of the own function counts: a retpoline then overwrites the return address, and returns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.code._x86_64 import decode
from icf.code.x86_64_opcodes import OPCODES

_CALL, _JUMP, _BRANCH, _JUMP_VALUE, _BAD = 10, 12, 13, 14, 16  # operations of the kernel
_MORE_ROWS = 32  # than one for two bytes, which is more than most functions need


class Exit(NamedTuple):
    """A jump out of a function, or to its start."""

    at: int  # offset in the function
    target: int | None  # likewise, outside of it or 0; None: a register or memory says it


def find_exits(code: memoryview) -> list[Exit] | None:
    """Those of the function with these bytes, in order; None if it cannot be decoded up to its end."""
    rows = np.empty((len(code) // 2 + _MORE_ROWS, 6), np.int64)
    function, first_row, result = np.array([[0, len(code)]], np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64)
    while True:
        decode(code, 0, function.data, 0, OPCODES.data, rows.data, first_row.data, result.data)
        if result[0]:
            break
        rows = np.empty((2 * len(rows), 6), np.int64)
    exits = []
    for kind, _, _, _, target, at in rows[np.flatnonzero(rows[: first_row[1], 0] >= _CALL)].tolist():
        if kind == _BAD:
            return None
        inside = 0 < target < len(code)
        if kind == _JUMP_VALUE or (kind == _CALL and inside):
            exits.append(Exit(at, None))
        elif (kind == _JUMP or kind == _BRANCH) and not inside:
            exits.append(Exit(at, target))
    return exits
