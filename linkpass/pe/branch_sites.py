"""The direct calls and jumps of COFF objects: the instructions whose operands are relocated against a function.

    x86-64   e8 00 00 00 00   call   REL32 fills bytes 1 to 4
    ARM64    00 00 00 94      bl     BRANCH26 fills the low 26 bits of the word

Source: Microsoft, "PE Format", type indicators of relocations.
"""

from __future__ import annotations

from typing import NamedTuple

from icf.coff.objectfile import REL32
from icf.elf.types import Machine

# Bytes that a relocation fills, by its type; of an instruction of ARM64, the whole word
_FILLED_BYTES = {
    Machine.X86_64: {1: 8, 2: 4, 3: 4, 4: 4, 5: 4, 6: 4, 7: 4, 8: 4, 9: 4, 10: 2, 11: 4, 12: 1},
    Machine.AARCH64: {**dict.fromkeys((*range(1, 12), 15, 16, 17), 4), 13: 2, 14: 8},
}
_CALL, _JUMP, _TWO_BYTES, _CONDITIONAL = 0xE8, 0xE9, 0x0F, 0x80
_OPERAND_BYTES = 4
# Of ARM64, by the type of relocation: the bits that tell the instructions, how these may be set, place and width of the
# distance. b and bl; b.cond, cbz and cbnz; tbz and tbnz
_BRANCH26, _BRANCH19, _BRANCH14 = 3, 15, 16
_WORDS = {
    _BRANCH26: (0x7C000000, (0x14000000,), 0, 26),
    _BRANCH19: (0x7E000000, (0x54000000, 0x34000000), 5, 19),
    _BRANCH14: (0x7E000000, (0x36000000,), 5, 14),
}
_LINK = 0xFC000000, 0x94000000  # bl


class Site(NamedTuple):
    """A direct call or jump; offsets are in the code of its function."""

    start: int
    end: int
    is_call: bool
    distance: int  # from `start` of ARM64, else from `end`


def filled_bytes(machine: Machine, kind: int) -> int:
    """Return how many bytes a relocation fills."""
    return _FILLED_BYTES[machine].get(kind, 0)


def branch_at(machine: Machine, code: bytes | memoryview, at: int, kind: int) -> Site | None:
    """Return the direct call or jump whose operand is relocated at an offset; None for other instructions."""
    if at < 0 or at + _OPERAND_BYTES > len(code):
        return None
    if machine is Machine.AARCH64:
        return _word_at(int.from_bytes(code[at : at + _OPERAND_BYTES], "little"), at, kind)
    opcode_bytes = branch_opcode_bytes(code, at) if kind == REL32 else 0
    if not opcode_bytes:
        return None
    distance = int.from_bytes(code[at : at + _OPERAND_BYTES], "little", signed=True)
    return Site(at - opcode_bytes, at + _OPERAND_BYTES, code[at - 1] == _CALL, distance)


def target_of(machine: Machine, site: Site, vaddr: int) -> int:
    """Return the address to which a call or jump leads, if its function is at `vaddr`."""
    return vaddr + site.distance + (site.start if machine is Machine.AARCH64 else site.end)


def call_target(machine: Machine, code: bytes | memoryview, end: int, vaddr: int) -> int | None:
    """Return where the direct call leads that ends at an offset of a function at `vaddr`; None for other calls."""
    kind = _BRANCH26 if machine is Machine.AARCH64 else REL32
    site = branch_at(machine, code, end - _OPERAND_BYTES, kind)
    return target_of(machine, site, vaddr) if site is not None and site.is_call else None


def branch_opcode_bytes(code: bytes | memoryview, at: int) -> int:
    """Return the bytes of the opcode before an operand of x86-64, if it is a direct call or jump; else 0.

    No other instruction has such a byte before a relative address: the byte there names a register.
    """
    if at >= 1 and code[at - 1] in (_CALL, _JUMP):
        return 1
    return 2 if at >= 2 and code[at - 2] == _TWO_BYTES and code[at - 1] & 0xF0 == _CONDITIONAL else 0


def _word_at(word: int, at: int, kind: int) -> Site | None:
    mask, patterns, shift, bits = _WORDS.get(kind, (0, (), 0, 1))
    if word & mask not in patterns:
        return None
    distance = word >> shift & (1 << bits) - 1
    distance -= (distance >> bits - 1) << bits
    return Site(at, at + _OPERAND_BYTES, word & _LINK[0] == _LINK[1], 4 * distance)
