"""Where a function has set up its frame pointer: there, a walk along frame pointers finds its caller.

    endbr64 ; push %rbp ; .. ; mov %rsp,%rbp     from here on          up to `pop %rbp` or `leave`
    stp x29, x30, [sp, #-32]! ; mov x29, sp      from here on          up to `ldp x29, x30`

A function that begins in another way, or that is interrupted before or after it has a frame, has none that such a walk
finds: the profiler then leaves its caller out. Only these plain beginnings count. What begins in another way may have
a frame all the same, which its call frame information shows (`unwind.walk.frame_pointer`). To say that it has none
costs an answer, and never makes a wrong one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cache
from struct import unpack_from
from typing import Any

from icf.code import operations as op
from icf.elf.types import Machine

_SET_UP = bytes.fromhex("554889e5")  # push %rbp ; mov %rsp,%rbp
HEAD_BYTES = 48  # of a function: its frame is set up there
_ENDBR = b"\xf3\x0f\x1e\xfa"
_PUSH_RBP, _POP_RBP, _LEAVE = 0x55, 0x5D, 0xC9
_CHANGES_STACK = re.compile(r"(?:push|pop|call|ret|leave|enter|j|int|sys|loop)|\S+ [er]?[sb]p\b")
_PAIR_MASK, _STORE_PAIR, _LOAD_PAIR = 0xFC407FFF, 0xA8007BFD, 0xA8407BFD  # of x29, x30 at sp
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


def calls_have_frame(code: memoryview) -> bool:
    """Return whether an x86-64 function has its frame wherever it calls; False: not known.

    It may return early before that: the code on the way from its start to `push %rbp ; mov %rsp,%rbp` calls nothing.
    """
    from icf.code.rows import decode_function  # with numpy, which most runs do not need here

    set_up = bytes(code).find(_SET_UP)
    if set_up < 0:
        return False
    rows = decode_function(code).tolist()
    places = [row[op.AT] for row in rows]  # ascending; instructions that matter to no other have none
    todo, seen = [0], set[int]()
    while todo:
        row = bisect_left(places, todo.pop())
        while row < len(rows) and row not in seen and places[row] != set_up:
            seen.add(row)
            kind, target = rows[row][op.KIND], rows[row][op.VALUE]
            if kind in (op.CALL, op.CALL_VALUE, op.JUMP_VALUE, op.BAD):
                return False
            if kind in (op.JUMP, op.BRANCH) and 0 <= target < len(code):
                todo.append(target)
            if kind in (op.JUMP, op.STOP):
                break
            row += 1
    return True


def ends_frame(machine: Machine, before: bytes) -> bool:
    """Return whether the instruction that ends `before`, four bytes, may be the one that ends the frame."""
    if machine is Machine.X86_64:
        return before[-1:] == b"" or before[-1] in (_POP_RBP, _LEAVE)
    return int.from_bytes(before[-4:], "little") & _PAIR_MASK == _LOAD_PAIR
