"""Where a function has set up its frame pointer: there, a walk along frame pointers finds its caller.

    endbr64 ; push %rbp ; .. ; mov %rsp,%rbp     from here on          up to `pop %rbp` or `leave`
    stp x29, x30, [sp, #-32]! ; mov x29, sp      from here on          up to `ldp x29, x30`

A function that is interrupted before or after it has a frame has none that such a walk finds: the profiler then leaves
its caller out. Here are the plain beginnings; `icf.code.frame_states` follows the jumps of a function. What begins in
another way may have a frame all the same, which its call frame information shows (`unwind.walk.frame_pointer`). To say
that it has none costs an answer, and never makes a wrong one.
"""

from __future__ import annotations

import re
from functools import cache
from struct import iter_unpack, unpack_from
from typing import Any

from icf.elf.types import Machine

HEAD_BYTES = 48  # of a function: its frame is set up there
_ENDBR = b"\xf3\x0f\x1e\xfa"
_PUSH_RBP = 0x55
_CHANGES_STACK = re.compile(r"(?:push|pop|call|ret|leave|enter|j|int|sys|loop)|\S+ [er]?[sb]p\b")
_PAIR_MASK, _STORE_PAIR, _LOAD_PAIR = 0xFC407FFF, 0xA8007BFD, 0xA8407BFD  # of x29, x30 at sp
_RETURN, _JUMP = 0xD65F03C0, 0x14000000  # ret; b
_SET_MASK, _SET = 0xFFC003FF, 0x910003FD  # add x29, sp, #number: `mov x29, sp` is one


def frame_offset(machine: Machine, head: bytes) -> int | None:
    """Return from which offset on a function has its frame; None: from none.

    Args:
        machine: of the code.
        head: the first bytes of the function, `HEAD_BYTES` of them or all.
    """
    if machine is Machine.X86_64:
        return _x86_64(head)
    is_stored = False
    for idx, word in enumerate(unpack_from(f"<{len(head) // 4}I", head)):
        is_stored |= word & _PAIR_MASK == _STORE_PAIR
        if is_stored and word & _SET_MASK == _SET:
            return 4 * idx + 4
    return None


def _x86_64(head: bytes) -> int | None:
    start = len(_ENDBR) if head.startswith(_ENDBR) else 0
    if head[start : start + 1] != bytes([_PUSH_RBP]):
        return None
    for offset, size_bytes, mnemonic, operands in _decoder().disasm_lite(head[start + 1 :], start + 1):
        text = f"{mnemonic} {operands}"
        if text == "mov rbp, rsp":
            return int(offset + size_bytes)
        if _CHANGES_STACK.match(text):
            return None
    return None


@cache
def _decoder() -> Any:
    import capstone  # only recordings of walks along frame pointers need it

    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def may_have_ended(code: bytes) -> bool:
    """Return whether the frame of an AArch64 function may have ended in its first bytes `code`.

    Its end, `ldp x29, x30`, counts up to the next jump or return; after that another way may lead to the code.
    """
    for (word,) in reversed(list(iter_unpack("<I", code[: len(code) // 4 * 4]))):
        if word & _PAIR_MASK == _LOAD_PAIR:
            return True
        if word == _RETURN or word & 0xFC000000 == _JUMP:
            return False
    return False
