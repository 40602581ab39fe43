"""A line of a text that shows a frame of a stack."""

from __future__ import annotations

from dataclasses import dataclass

from unwind.samples.recording import RecordedModule


@dataclass(slots=True)
class FrameLine:
    """A line that shows a frame: what it says, and its text in parts."""

    number: int = -1  # of the frame, as written; -1: the format counts none
    address: int | None = None  # run-time
    module: RecordedModule | None = None
    vaddr: int | None = None  # in `module`, as linked
    symbol: str = ""  # instead of `vaddr`: it is `vaddr` bytes after this symbol of `module`
    name: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    is_signal: bool = False  # a signal handler was called: the next frame is a program counter
    parts: tuple[bytes, ...] = ()  # for writing the line anew; what they are the dialect knows

    @property
    def has_place(self) -> bool:
        """Whether the line says where the frame is: else it is inlined in another, or not known."""
        return self.address is not None or self.vaddr is not None
