"""Where a function has set up its frame pointer: there, a walk along frame pointers finds its caller.

    endbr64 ; push %rbp ; mov %rsp,%rbp          from here on          up to `pop %rbp` or `leave`
    stp x29, x30, [sp, #-32]! ; mov x29, sp      from here on          up to `ldp x29, x30`

A function that begins in another way, or that is interrupted before or after it has a frame, has none that such a walk
finds: the profiler then leaves its caller out. Only these plain beginnings count. What begins in another way may have
a frame all the same: to say that it has none costs an answer, and never makes a wrong one.
"""

from __future__ import annotations

import re
from struct import unpack_from

from icf.elf.types import Machine

HEAD_BYTES = 32  # of a function: its frame is set up there
_X86_64 = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x55\x48(?:\x89\xe5|\x8b\xec)", re.DOTALL)
_POP_RBP, _LEAVE = 0x5D, 0xC9
_PAIR_MASK, _STORE_PAIR, _LOAD_PAIR = 0xFC407FFF, 0xA8007BFD, 0xA8407BFD  # of x29, x30 at sp
_SET_MASK, _SET = 0xFFC003FF, 0x910003FD  # add x29, sp, #number: `mov x29, sp` is one


def frame_offset(machine: Machine, head: bytes) -> int | None:
    """Return from which offset on a function has its frame; None: from none.

    Args:
        machine: of the code.
        head: the first bytes of the function, `HEAD_BYTES` of them or all.
    """
    if machine is Machine.X86_64:
        found = _X86_64.match(head)
        return None if found is None else found.end()
    is_stored = False
    for idx, word in enumerate(unpack_from(f"<{len(head) // 4}I", head)):
        is_stored |= word & _PAIR_MASK == _STORE_PAIR
        if is_stored and word & _SET_MASK == _SET:
            return 4 * idx + 4
    return None


def ends_frame(machine: Machine, before: bytes) -> bool:
    """Return whether the instruction that ends `before`, four bytes, may be the one that ends the frame."""
    if machine is Machine.X86_64:
        return before[-1:] == b"" or before[-1] in (_POP_RBP, _LEAVE)
    return int.from_bytes(before[-4:], "little") & _PAIR_MASK == _LOAD_PAIR
