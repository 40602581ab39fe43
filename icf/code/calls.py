"""The call instruction that ends at a return address.

A return address is the key of a call site, so the question is always asked backwards: which call ends
here? On x86-64 a direct call is `e8 rel32`, whatever prefix it has; an indirect one is `ff /2` with an
operand of 0 to 5 further bytes. Reading backwards can meet bytes that merely look like a call, so an answer
only checks a statement from another source ("this site calls f"), and never makes one. Some bytes
can be read both ways: `4c 39 e8 74 ce ff d0` is cmp, je and `call *%rax`, and ends in an
`e8 rel32` as well. Then it is a direct call only if its target is the start of a function.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.code.view import CodeView
from icf.columns import U8, U64
from icf.elf.types import PF_X, PT_LOAD, Machine

if TYPE_CHECKING:
    from icf.elf.image import Image


class CallKind(Enum):
    DIRECT = "direct"  # `target` is the callee's address
    INDIRECT = "indirect"  # through a register or memory; `slot` is the memory's address if it is fixed
    NONE = "none"  # no call ends here


class CallInsn(NamedTuple):
    """A call, as far as its bytes show."""

    kind: CallKind
    target: int | None = None
    slot: int | None = None


NO_CALL = CallInsn(CallKind.NONE)
_LAST_VADDR = (1 << 64) - 1
LONGEST_INSN_BYTES = 15
PREFIXES = bytes((0x26, 0x2E, 0x36, 0x3E, *range(0x40, 0x50), *range(0x64, 0x68), 0xF2, 0xF3))  # REX among them
LONGEST_CALL_BYTES = 7  # ff /2 with SIB and disp32; a REX or segment prefix before it changes nothing


def call_ending_at(image: CodeView, return_address: int) -> CallInsn:
    """Return the call whose next instruction is at `return_address` (a link-time address)."""
    for size_bytes in (4,) if image.machine is Machine.AARCH64 else (LONGEST_CALL_BYTES, 5, 2):
        code = bytes(image.read(return_address - size_bytes, size_bytes))
        if len(code) == size_bytes:
            return call_at_end(image, code, return_address)
    return NO_CALL


def call_at_end(image: CodeView, code: bytes, return_address: int) -> CallInsn:
    """Return what `call_ending_at` returns, from at most `LONGEST_CALL_BYTES` bytes before `return_address`."""
    if image.machine is Machine.AARCH64:
        return _aarch64(code[-4:], return_address)
    indirect = _x86_64_indirect(code, return_address) if 0xFF in code else NO_CALL
    if len(code) < 5 or code[-5] != 0xE8:
        return indirect
    target = (return_address + int.from_bytes(code[-4:], "little", signed=True)) & _LAST_VADDR
    if indirect.kind is CallKind.NONE or image.may_start_function(target):
        return CallInsn(CallKind.DIRECT, target=target)
    return indirect


def call_size(machine: Machine, code: bytes) -> int:
    """Return the size in bytes of the call that `code` starts with; 0 if it starts with none."""
    if machine is Machine.AARCH64:
        return 4 if _aarch64(code[:4], 0).kind is not CallKind.NONE else 0
    opcode = len(code) - len(code.lstrip(PREFIXES))
    insn = code[opcode:]
    if insn[:1] == b"\xe8":
        return opcode + 5 if len(insn) >= 5 else 0
    if len(insn) < 2 or insn[0] != 0xFF or insn[1] >> 3 & 7 != 2:
        return 0
    operand_bytes = _operand_size(insn)
    return opcode + 2 + operand_bytes if 0 <= operand_bytes <= len(insn) - 2 else 0


def direct_targets(image: Image, return_addresses: U64) -> U64:
    """Return the targets of the direct calls that end there; 0 where only `call_ending_at` can decide.

    That is so if no direct call ends there, or if it could be an indirect one as well.
    """
    size_bytes = 4 if image.machine is Machine.AARCH64 else LONGEST_CALL_BYTES
    targets = np.zeros(len(return_addresses), np.uint64)
    for segment in image.segments:
        code = np.frombuffer(image.read(segment.vaddr, segment.filesz), np.uint8)
        end = segment.vaddr + len(code)
        if segment.type != PT_LOAD or not segment.flags & PF_X or len(code) < size_bytes or end > _LAST_VADDR:
            continue
        first = np.uint64(segment.vaddr + size_bytes)
        inside = (return_addresses >= first) & (return_addresses <= np.uint64(end))
        ends = return_addresses[inside]
        windows = np.lib.stride_tricks.sliding_window_view(code, size_bytes)
        targets[inside] = _targets(image.machine, ends, windows[(ends - first).astype(np.int64)])
    return targets


def _targets(machine: Machine, ends: U64, code: U8) -> U64:
    """Return what `direct_targets` returns, from the bytes before each end, a row for each."""
    words = np.ascontiguousarray(code[:, -4:]).view("<i4").reshape(-1).astype(np.int64)
    if machine is Machine.AARCH64:
        is_call = (words >> 26) & 0x3F == 0b100101
        return np.where(is_call, ends - np.uint64(4) + ((words << 38) >> 36).astype(np.uint64), np.uint64(0))
    is_call = code[:, -5] == 0xE8
    for at in range(-LONGEST_CALL_BYTES, -1):
        is_call &= (code[:, at] != 0xFF) | (code[:, at + 1] >> 3 & 7 != 2)
    return np.where(is_call, ends + words.astype(np.uint64), np.uint64(0))


def _x86_64_indirect(code: bytes, end: int) -> CallInsn:
    at = code.rfind(0xFF, 0, len(code) - 1)
    while at >= 0:
        insn = code[at:]
        if insn[1] >> 3 & 7 == 2 and _operand_size(insn) == len(insn) - 2:
            if insn[1] == 0x15:  # call *disp32(%rip)
                displacement = int.from_bytes(insn[2:], "little", signed=True)
                return CallInsn(CallKind.INDIRECT, slot=(end + displacement) & _LAST_VADDR)
            return CallInsn(CallKind.INDIRECT)
        at = code.rfind(0xFF, 0, at)
    return NO_CALL


def _operand_size(insn: bytes) -> int:
    """Return the number of bytes of SIB and displacement after the ModRM byte `insn[1]`.

    -1 if the SIB byte is cut off.
    """
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
        return NO_CALL
    word = int.from_bytes(code, "little")
    if word >> 26 == 0b100101:  # bl
        displacement = (word & 0x3FFFFFF) << 2
        if displacement >> 27:
            displacement -= 1 << 28
        return CallInsn(CallKind.DIRECT, target=(end - 4 + displacement) & _LAST_VADDR)
    # blr, and blraa and its kind with pointer authentication
    if word & 0xFFFFFC1F == 0xD63F0000 or word & 0xFEFFF800 == 0xD63F0800:
        return CallInsn(CallKind.INDIRECT)
    return NO_CALL
