"""Where the instruction that forms or loads an address has its operand: the place that a relocation fills.

    48 8d 1d ?? ?? ?? ??     lea ?(%rip), %rbx          48 c7 c3 ?? ?? ?? ??     mov $?, %rbx
    48 8b 1d ?? ?? ?? ??     mov ?(%rip), %rbx          bb ?? ?? ?? ??           mov $?, %ebx
    ff 15 ?? ?? ?? ??        call *?(%rip)              48 bb ?? (8)             movabs $?, %rbx

On AArch64 it is the instruction itself: the last of those that form the address.
"""

from __future__ import annotations

import numpy as np

from icf.code.calls import PREFIXES
from icf.code.view import CodeView
from icf.columns import U64
from icf.elf.types import Machine

_LONGEST_OPCODE_BYTES = 8


def find_operands(image: CodeView, sources: U64) -> U64:
    """Return the place of the operand of each instruction at `sources`; its start where it has none of these forms."""
    if image.machine is Machine.AARCH64:
        return sources
    return np.array(
        [_x86_64(bytes(image.read(vaddr, _LONGEST_OPCODE_BYTES)), vaddr) for vaddr in sources.tolist()], np.uint64
    )


def _x86_64(code: bytes, vaddr: int) -> int:
    opcode = len(code) - len(code.lstrip(PREFIXES))
    insn = code[opcode : opcode + 2]
    if len(insn) < 2:
        return vaddr
    if insn[0] >> 3 == 0xB8 >> 3:
        return vaddr + opcode + 1
    is_relative = insn[0] in (0x8B, 0x8D, 0xFF) and insn[1] & 0xC7 == 0x05
    return vaddr + opcode + 2 if is_relative or insn[0] == 0xC7 and insn[1] >> 6 == 3 else vaddr
