"""The meaning of relocation types for the place that they fill."""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U8, U32, Mask
from icf.elf.types import Machine
from icf.sets import is_one_of

# x86-64: distances from the place itself, and loads from the GOT, which may have become such
RELATIVE = (2, 4, 9, 41, 42)
GOT_LOADS = {Machine.X86_64: (9, 41, 42), Machine.AARCH64: (311, 312)}
# that name the function whose address an instruction forms or loads: in AArch64 the last of those instructions
FUNCTION_LOADS = {Machine.X86_64: RELATIVE, Machine.AARCH64: (274, 277, 309, 312, 313)}
# of operands: of calls and jumps, of `lea` and `add`, which form an address, of loads that the linker may have relaxed
_OPERANDS = {Machine.X86_64: RELATIVE, Machine.AARCH64: (277, 280, 282, 283)}
A64_BRANCHES = (279, 280, 282, 283, 314)  # TSTBR14, CONDBR19, JUMP26, CALL26, PLT32


def name_callee(types: U32, by_register: Mask, machine: Machine) -> Mask:
    """Return which relocations name the function that is called, each at the operand of a branch.

    `by_register`: of which branches the operand is that of the instruction that forms or loads the address.
    """
    return np.where(by_register, is_one_of(types, FUNCTION_LOADS[machine]), is_one_of(types, _OPERANDS[machine]))


def x86_64_branches(code: U8, operands: I64, types: U32) -> Mask:
    """Return which positions in `code`, not below 2, hold the operand of a direct call or jump with this relocation."""
    if len(code) < 6:
        return np.zeros(len(operands), np.bool_)
    before, opcode, last = code[operands - 2], code[operands - 1], code[operands + 3]
    found = (opcode == 0xE8) | (opcode == 0xE9) | ((before == 0x0F) & (opcode >> 4 == 8))
    # `jmp *f@GOTPCREL(%rip)`, relaxed: one byte shorter than it was, and a nop
    found |= is_one_of(types, GOT_LOADS[Machine.X86_64]) & (before == 0xE9) & (last == 0x90)
    is_operand: Mask = found & is_one_of(types, RELATIVE)
    return is_operand
