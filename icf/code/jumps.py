"""The jump at an address; a retpoline jumps to the address in a register by returning to it.

call 1f; 2: pause; jmp 2b; 1: mov %r11, (%rsp); ret         is jmp *%r11
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from icf.code.branches import executable_sections
from icf.code.view import CodeView
from icf.columns import U64
from icf.elf.types import Machine

if TYPE_CHECKING:
    from icf.image import AnyImage

_RETPOLINE = re.compile(rb"[\x48\x4c]\x89[\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x24(?=\xc3)")  # mov %reg, (%rsp); ret
_RETPOLINE_MOV_BYTES = 4
_PREFIXES = b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf2\xf3"


def jump_at(image: AnyImage, vaddr: int) -> int | None:
    """Return the target of the direct jump, conditional or not, at `vaddr`; None if there is none."""
    if image.machine is Machine.AARCH64:
        return _aarch64(bytes(image.read(vaddr, 4)), vaddr)
    code = bytes(image.read(vaddr, 6))
    if len(code) >= 5 and code[0] == 0xE9:
        return (vaddr + 5 + int.from_bytes(code[1:5], "little", signed=True)) & (1 << 64) - 1
    if len(code) >= 6 and code[0] == 0x0F and code[1] >> 4 == 8:
        return (vaddr + 6 + int.from_bytes(code[2:6], "little", signed=True)) & (1 << 64) - 1
    if len(code) >= 2 and (code[0] == 0xEB or code[0] >> 4 == 7):  # within a section that holds several functions
        return (vaddr + 2 + int.from_bytes(code[1:2], "little", signed=True)) & (1 << 64) - 1
    return None


def is_pointer_jump(image: AnyImage, vaddr: int) -> bool:
    """Return whether the instruction at `vaddr` jumps through a register or memory; the `ret` of a retpoline does."""
    code = bytes(image.read(vaddr, 8))
    if image.machine is Machine.AARCH64:  # br, and braa and its kind
        return len(code) >= 4 and int.from_bytes(code[:4], "little") & 0xFEBFF000 == 0xD61F0000
    if code[:1] == b"\xc3":
        before = image.read(max(vaddr - _RETPOLINE_MOV_BYTES, 0), _RETPOLINE_MOV_BYTES + 1)
        return _RETPOLINE.match(before) is not None
    while code[:1] and (code[0] in _PREFIXES or code[0] >> 4 == 4):
        code = code[1:]
    return len(code) >= 2 and code[0] == 0xFF and code[1] >> 3 & 7 == 4


def is_retpoline(image: CodeView, vaddr: int) -> bool:
    """Return whether the code at `vaddr` calls into a retpoline at once."""
    code = bytes(image.read(vaddr, 5))
    if len(code) < 5 or code[0] != 0xE8 or image.machine is not Machine.X86_64:
        return False
    target = (vaddr + 5 + int.from_bytes(code[1:], "little", signed=True)) & (1 << 64) - 1
    return _RETPOLINE.match(image.read(target, _RETPOLINE_MOV_BYTES + 1)) is not None


def find_retpolines(image: AnyImage) -> U64:
    """Return the addresses of the `ret` of all retpolines, ascending."""
    found = []
    for section in executable_sections(image) if image.machine is Machine.X86_64 else ():
        text = section.code
        code = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero((code[:-1] == 0x24) & (code[1:] == 0xC3)) + 1  # few: the rest is checked one by one
        moves = (end - _RETPOLINE_MOV_BYTES for end in ends.tolist() if end >= _RETPOLINE_MOV_BYTES)
        found += [section.vaddr + _RETPOLINE_MOV_BYTES + at for at in moves if _RETPOLINE.match(text, at)]
    return np.array(sorted(found), np.uint64)


def _aarch64(code: bytes, vaddr: int) -> int | None:
    word = int.from_bytes(code, "little")
    if len(code) == 4 and word >> 26 == 0b000101:  # b
        return (vaddr + _signed((word & 0x3FFFFFF) << 2, 28)) & (1 << 64) - 1
    if len(code) == 4 and word >> 24 == 0x54 and not word & 0x10:  # b.cond
        return (vaddr + _signed((word >> 5 & 0x7FFFF) << 2, 21)) & (1 << 64) - 1
    return None


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value
