"""The jump at an address."""

from __future__ import annotations

from icf.elf.image import Image
from icf.elf.types import Machine

_PREFIXES = b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf2\xf3"


def jump_at(image: Image, vaddr: int) -> int | None:
    """The target of the direct jump, conditional or not, at `vaddr`; None if there is none."""
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


def is_pointer_jump(image: Image, vaddr: int) -> bool:
    """Whether the instruction at `vaddr` jumps to where a register or memory says."""
    code = bytes(image.read(vaddr, 8))
    if image.machine is Machine.AARCH64:  # br, and braa and its kind
        return len(code) >= 4 and int.from_bytes(code[:4], "little") & 0xFEBFF000 == 0xD61F0000
    while code[:1] and (code[0] in _PREFIXES or code[0] >> 4 == 4):
        code = code[1:]
    return len(code) >= 2 and code[0] == 0xFF and code[1] >> 3 & 7 == 4


def _aarch64(code: bytes, vaddr: int) -> int | None:
    word = int.from_bytes(code, "little")
    if len(code) == 4 and word >> 26 == 0b000101:  # b
        return (vaddr + _signed((word & 0x3FFFFFF) << 2, 28)) & (1 << 64) - 1
    if len(code) == 4 and word >> 24 == 0x54 and not word & 0x10:  # b.cond
        return (vaddr + _signed((word >> 5 & 0x7FFFF) << 2, 21)) & (1 << 64) - 1
    return None


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value
