"""Epilogues of Windows on x86-64, which its calling convention limits to few instructions:

    add $n,%rsp            or  lea n(%frame register),%rsp, or neither
    pop %register          any number of them
    ret                    or  jmp to another function: direct, through `n(%rip)`, or through anything with REX.W

An unwinder recognizes them by these bytes alone, from the program counter on: no table says where they are (version 2
of the unwind information does, for some of them).

Source: Microsoft, "x64 prolog and epilog".
"""

from __future__ import annotations

from collections.abc import Callable

from unwind.walk.stackpointer import DWARF_NUMBER, StackPointer

_POP_LIMIT = 16


def read_epilogue(code: bytes, frame_register: int, leaves: Callable[[int], bool]) -> StackPointer | None:
    """Return the stack pointer after the rest of an epilogue, at the return address; None if this is none.

    Args:
        code: from the program counter to the end of the function.
        frame_register: by the number that instructions have; 0: none.
        leaves: returns whether the target of a jump, counted from the program counter, is another function.
    """
    pointer = StackPointer()
    at = _adjust(code, frame_register, pointer)
    for _ in range(_POP_LIMIT):
        extended = code[at : at + 1] == b"\x41"
        opcode = code[at + extended : at + extended + 1]
        if not b"\x58" <= opcode <= b"\x5f" or (opcode == b"\x5c" and not extended):
            break
        pointer.pop(DWARF_NUMBER[opcode[0] - 0x58 + 8 * extended])
        at += 1 + extended
    return pointer if _ends(code, at, leaves) else None


def _adjust(code: bytes, frame_register: int, pointer: StackPointer) -> int:
    """Follow the instruction that moves the stack pointer; return where the next one is."""
    if code[:3] == b"\x48\x83\xc4" and len(code) >= 4:  # add imm8
        pointer.add(_signed(code[3:4]))
        return 4
    if code[:3] == b"\x48\x81\xc4" and len(code) >= 7:  # add imm32
        pointer.add(_signed(code[3:7]))
        return 7
    if frame_register and len(code) >= 4 and code[0] in (0x48, 0x49) and code[1] == 0x8D:  # lea
        mode, register, base = code[2] >> 6, code[2] >> 3 & 7, (code[2] & 7) + 8 * (code[0] & 1)
        displacement_at = 4 if code[2] & 7 == 4 else 3  # r12 needs a SIB byte
        is_plain = displacement_at == 3 or code[3] == 0x24
        end = displacement_at + {1: 1, 2: 4}.get(mode, 0)
        if mode in (1, 2) and register == 4 and base == frame_register and is_plain and len(code) >= end:
            displacement = _signed(code[displacement_at:end])
            pointer.place = DWARF_NUMBER[base], displacement
            return end
    return 0


def _ends(code: bytes, at: int, leaves: Callable[[int], bool]) -> bool:
    """Return whether an instruction ends the function: a return, or a jump to another one."""
    rest = code[at : at + 8]
    if rest[:1] in (b"\xc3", b"\xc2") or rest[:2] in (b"\xf3\xc3", b"\xf2\xc3"):
        return True
    if rest[:1] == b"\xeb" and len(rest) >= 2:
        return leaves(at + 2 + _signed(rest[1:2]))
    if rest[:1] == b"\xe9" and len(rest) >= 5:
        return leaves(at + 5 + _signed(rest[1:5]))
    has_prefix = b"\x48" <= rest[:1] <= b"\x4f"  # REX.W; without it the jump may be that of a switch
    insn = rest[has_prefix:]
    return insn[:2] == b"\xff\x25" or (has_prefix and insn[:1] == b"\xff" and insn[1:] != b"" and insn[1] >> 3 & 7 == 4)


def _signed(content: bytes) -> int:
    return int.from_bytes(content, "little", signed=True)
