"""The operations of one function, as the kernels `icf.code._x86_64` and `icf.code._aarch64` decode them."""

from __future__ import annotations

import numpy as np

from icf.code._x86_64 import decode
from icf.code.operations import COLUMN_COUNT
from icf.code.x86_64_opcodes import OPCODES
from icf.columns import I64
from icf.elf.types import Machine

_MORE_ROWS = 32  # than one for two bytes, which is more than most functions need


def decode_function(code: memoryview, machine: Machine = Machine.X86_64) -> I64:
    """Return the rows of the function with these bytes: operation, a, b, c, value, offset."""
    rows = np.empty((len(code) // 2 + _MORE_ROWS, COLUMN_COUNT), np.int64)
    function, first_row, result = np.array([[0, len(code)]], np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64)
    while True:
        out = rows.data, first_row.data, result.data
        if machine is Machine.AARCH64:
            from icf.code import _aarch64

            _aarch64.decode(code, 0, function.data, 0, *out)
        else:
            decode(code, 0, function.data, 0, OPCODES.data, *out)
        if result[0]:
            return rows[: first_row[1]]
        rows = np.empty((2 * len(rows), COLUMN_COUNT), np.int64)
