"""What a walk yields, and what further questions about it need: a frame with its registers, and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Memory(Protocol):
    """Memory of a process as it was when its stacks were taken."""

    def read(self, address: int, size_bytes: int, /) -> bytes | None:
        """Return that many bytes at a run-time address; None if one of them is not known."""


@dataclass(frozen=True, slots=True)
class WalkedFrame:
    """A frame of a stack; all addresses are run-time ones."""

    pc: int
    is_call: bool  # `pc` is a return address; else it is a program counter: innermost, or where a signal interrupted
    cfa: int  # 0: not known
    registers: list[int | None]  # as they were in this frame, by DWARF number; None: not known
    is_signal: bool = False  # the code that a signal handler returns to
    loses_caller: bool = False  # an unwinder that follows frame pointers would have left out this frame's caller
