"""The call instruction that ends at a return address.

A return address is the key of a call site, so the question is always asked backwards: which call ends
here? On x86-64 a direct call is `e8 rel32`, whatever prefix it has; an indirect one is `ff /2` with an
operand of 0 to 5 further bytes. Reading backwards can meet bytes that merely look like a call, so an answer
is used to check a statement that came from elsewhere ("this site calls f"), never to make one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from icf.elf.image import Image
from icf.elf.types import Machine


class CallKind(Enum):
    DIRECT = "direct"  # `target` is where it goes
    INDIRECT = "indirect"  # through a register or memory; `slot` is the memory's address if it is fixed
    NONE = "none"  # no call ends here


@dataclass(frozen=True, slots=True)
class CallInsn:
    """A call, as far as its bytes say."""

    kind: CallKind
    target: int | None = None
    slot: int | None = None


_NONE = CallInsn(CallKind.NONE)
_LONGEST = 7  # ff /2 with SIB and disp32; a REX or segment prefix before it changes nothing


def call_ending_at(image: Image, return_address: int) -> CallInsn:
    """The call whose next instruction is at `return_address` (a link-time address)."""
    if image.machine is Machine.AARCH64:
        return _aarch64(bytes(image.read(return_address - 4, 4)), return_address)
    for size_bytes in (_LONGEST, 5, 2):
        code = bytes(image.read(return_address - size_bytes, size_bytes))
        if code:
            return _x86_64(code, return_address)
    return _NONE


def _x86_64(code: bytes, end: int) -> CallInsn:
    if len(code) >= 5 and code[-5] == 0xE8:
        displacement = int.from_bytes(code[-4:], "little", signed=True)
        return CallInsn(CallKind.DIRECT, target=(end + displacement) & (1 << 64) - 1)
    for size_bytes in range(2, len(code) + 1):
        insn = code[-size_bytes:]
        if insn[0] == 0xFF and insn[1] >> 3 & 7 == 2 and _operand_size(insn) == size_bytes - 2:
            if insn[1] == 0x15:  # call *disp32(%rip)
                return CallInsn(CallKind.INDIRECT, slot=end + int.from_bytes(insn[2:], "little", signed=True))
            return CallInsn(CallKind.INDIRECT)
    return _NONE


def _operand_size(insn: bytes) -> int:
    """Bytes of SIB and displacement after the ModRM byte `insn[1]`; -1 if the SIB byte is cut off."""
    mod, rm = insn[1] >> 6, insn[1] & 7
    if mod == 3:
        return 0
    sib = 1 if rm == 4 else 0
    if sib and len(insn) < 3:
        return -1
    if mod == 0:
        base = insn[2] & 7 if sib else rm
        return sib + (4 if base == 5 else 0)
    return sib + (1 if mod == 1 else 4)


def _aarch64(code: bytes, end: int) -> CallInsn:
    if len(code) < 4:
        return _NONE
    word = int.from_bytes(code, "little")
    if word >> 26 == 0b100101:  # bl
        displacement = (word & 0x3FFFFFF) << 2
        if displacement >> 27:
            displacement -= 1 << 28
        return CallInsn(CallKind.DIRECT, target=(end - 4 + displacement) & (1 << 64) - 1)
    # blr, and blraa and its kind with pointer authentication
    if word & 0xFFFFFC1F == 0xD63F0000 or word & 0xFEFFF800 == 0xD63F0800:
        return CallInsn(CallKind.INDIRECT)
    return _NONE
