"""Where the calls of a function end. Bytes read backwards do not show it, instruction boundaries do.

    48 89 e8  90  90  90  ff d0        mov %rbp,%rax ; nop ; nop ; nop ; call *%rax

The five bytes up to the middle of the last instruction, `e8 90 90 90 ff`, look like a call. So an x86-64 function is
decoded from its start. AArch64's instructions stand at multiples of four; data among them may look like a call.
"""

from __future__ import annotations

import numpy as np

from icf.code.operations import BAD, CALL, CALL_VALUE
from icf.code.rows import decode_function
from icf.elf.types import Machine

_NEAR_CALL = 0xE8
_NEAR_CALL_BYTES = 5  # from that byte on


def find_call_ends(code: memoryview, machine: Machine = Machine.X86_64) -> frozenset[int] | None:
    """Return the end, as an offset in the function, of each instruction that is a call.

    None for a function that cannot be decoded up to its end.
    """
    if machine is Machine.AARCH64:
        return _aarch64(code)
    rows = decode_function(code)
    if (rows[:, 0] == BAD).any():
        return None
    raw = bytes(code)
    is_call = (rows[:, 0] == CALL) | (rows[:, 0] == CALL_VALUE)
    return frozenset(
        raw.index(_NEAR_CALL, at) + _NEAR_CALL_BYTES if kind == CALL else at + value
        for kind, _, _, _, value, at in rows[np.flatnonzero(is_call)].tolist()
    )


def _aarch64(code: memoryview) -> frozenset[int]:
    words = np.frombuffer(code[: len(code) // 4 * 4], "<u4")
    # bl; blr; blraa and its kind
    is_call = (words >> 26 == 0b100101) | (words & 0xFFFFFC1F == 0xD63F0000) | (words & 0xFEFFF800 == 0xD63F0800)
    return frozenset((4 * np.flatnonzero(is_call) + 4).tolist())
