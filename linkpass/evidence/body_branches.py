"""Possible branches in the code of one body.

As in icf.code._branches every position is tried as the start of an instruction, so that no branch is missed. The result
is thus a superset, and right for statements of the form "nothing else in here can be a call of f".

On x86-64 a call through a slot of the GOT (-fno-plt) names its callee like a direct call does. Calls through registers
are not here (`linkpass.evidence.reach`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from icf.columns import U8, Mask
from icf.elf.types import Machine
from icf.image import Image

_MASK = (1 << 64) - 1


@dataclass(slots=True)
class BodyBranches:
    """Possible targets of the calls and jumps in some code."""

    calls: list[tuple[int, int]] = field(default_factory=list)  # return address, target; ascending
    jumps: list[tuple[int, int]] = field(default_factory=list)  # address after the instruction, target; ascending
    call_slots: set[int] = field(default_factory=set)  # words in memory that hold the target of a call
    jump_slots: set[int] = field(default_factory=set)


def find_body_branches(image: Image, start: int, end: int) -> BodyBranches | None:
    """Return the branches in start..end that may leave it or enter it anew; None if the file does not hold the code."""
    code = np.frombuffer(image.read(start, end - start), np.uint8)
    if len(code) != end - start or not len(code):
        return None
    branches = BodyBranches()
    if image.machine is Machine.AARCH64:
        _read_aarch64(code, start, branches)
    else:
        _read_x86_64(code, start, branches)
    branches.calls = sorted(row for row in branches.calls if not start < row[1] < end)
    branches.jumps = sorted(row for row in branches.jumps if not start < row[1] < end)
    return branches


def _read_x86_64(code: U8, start: int, branches: BodyBranches) -> None:
    branches.calls = _relative(code, start, code == 0xE8, 1, 4)
    second = np.append(code[1:], np.uint8(0))
    branches.jumps = [
        *_relative(code, start, code == 0xE9, 1, 4),
        *_relative(code, start, (code == 0x0F) & (second >> 4 == 8), 2, 4),
        *_relative(code, start, (code == 0xEB) | (code >> 4 == 7), 1, 1),
    ]
    branches.call_slots = {slot for _, slot in _relative(code, start, (code == 0xFF) & (second == 0x15), 2, 4)}
    branches.jump_slots = {slot for _, slot in _relative(code, start, (code == 0xFF) & (second == 0x25), 2, 4)}


def _relative(code: U8, start: int, hit: Mask, opcode_size: int, operand_size: int) -> list[tuple[int, int]]:
    """Return (end of the instruction, end + displacement) for each position that is hit."""
    raw = code.tobytes()
    found = []
    for at in np.flatnonzero(hit).tolist():
        operand = raw[at + opcode_size : at + opcode_size + operand_size]
        if len(operand) == operand_size:
            end = start + at + opcode_size + operand_size
            found.append((end, (end + int.from_bytes(operand, "little", signed=True)) & _MASK))
    return found


def _read_aarch64(code: U8, start: int, branches: BodyBranches) -> None:
    words = code[: len(code) // 4 * 4].view("<u4")
    for at, word in enumerate(words.tolist()):
        here = start + 4 * at
        if word >> 26 in (0b100101, 0b000101):  # bl, b
            rows = branches.calls if word >> 31 else branches.jumps
            rows.append((here + 4, (here + _signed((word & 0x3FFFFFF) << 2, 28)) & _MASK))
        elif word >> 24 == 0x54 and not word & 0x10:  # b.cond
            branches.jumps.append((here + 4, (here + _signed((word >> 5 & 0x7FFFF) << 2, 21)) & _MASK))


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value
