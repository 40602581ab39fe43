"""How instructions are shown: in which syntax, and at which address.

Code is decoded as Intel writes it, at the addresses that it was linked for: by that the notes are found. What is shown
may differ: AT&T's syntax, and where the code lies in a process that runs.

    Intel    call    qword ptr [rip + 0x69]
    AT&T     callq   *0x69(%rip)
"""

from __future__ import annotations

from enum import Enum

import capstone

from icf.elf.types import Machine
from unwind.disasm.instructions import UNDECODED, WORD, Instruction


class Syntax(Enum):
    """How x86-64 code is written; there is one way for AArch64."""

    INTEL = "intel"
    ATT = "att"


class Display:
    """The text of instructions; `bias` is added to all addresses."""

    def __init__(self, machine: Machine, syntax: Syntax = Syntax.INTEL, bias: int = 0) -> None:
        self.syntax = syntax if machine is Machine.X86_64 else Syntax.INTEL
        self.bias = bias
        self._capstone: capstone.Cs | None = None
        if machine is Machine.X86_64:
            self._capstone = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
            if self.syntax is Syntax.ATT:
                self._capstone.syntax = capstone.CS_OPT_SYNTAX_ATT
        elif bias:
            self._capstone = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        self._is_as_decoded = self.syntax is Syntax.INTEL and not bias

    @property
    def comment(self) -> str:
        """What a comment begins with."""
        return "#" if self.syntax is Syntax.ATT else ";"

    def text(self, instruction: Instruction) -> tuple[str, str]:
        """Return the mnemonic and the operands."""
        if self._is_as_decoded or self._capstone is None or instruction.mnemonic in (UNDECODED, WORD):
            return instruction.mnemonic, instruction.operands
        decoded = self._capstone.disasm_lite(instruction.code, instruction.vaddr + self.bias)
        for _, _, mnemonic, operands in decoded:
            return mnemonic, operands
        return instruction.mnemonic, instruction.operands
