"""A stack pointer on its way back to the return address, as a register of the frame and a distance from it."""

from __future__ import annotations

from dataclasses import dataclass, field

RSP, RIP = 7, 16  # DWARF's numbers
DWARF_NUMBER = (0, 2, 1, 3, RSP, 6, 4, 5, *range(8, 16))
"""DWARF's number of each register of x86-64 by the number that its instructions have."""
_WORD_BYTES = 8


@dataclass(slots=True)
class StackPointer:
    """Where the stack pointer is, and where the values of the caller's registers are: register and offset each."""

    place: tuple[int, int] = (RSP, 0)
    saved: dict[int, tuple[int, int]] = field(default_factory=dict)
    is_machine_frame: bool = False  # it points to what the processor has pushed

    def add(self, size_bytes: int) -> None:
        """Move it towards the caller."""
        self.place = self.place[0], self.place[1] + size_bytes

    def pop(self, register: int) -> None:
        """Take the value of a register from where it points."""
        self.saved[register] = self.place
        self.add(_WORD_BYTES)
