"""What a reader asks about the objects of a stack as long as it has the registers and the memory of it.

    reader                                            resolver
    each frame once ────────────────────────────────> may it be of a virtual function?
    stacks with such frames ────────────────────────> which frames stay open?
    registers and memory of a stack that has any ───> which vtables do their objects point to?
    sample with vtable pointers

Memory holds no copies of stacks: a recording has gigabytes of them, and few frames stay open. Most copies have none of
the vtable pointers in question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from icf.columns import U64
from unwind.resolve.vptrs import Vptrs
from unwind.samples.recording import RecordedFrame, RecordedProcess, Sample
from unwind.walk.frame import Memory, WalkedFrame


class OpenFrames(NamedTuple):
    """The frames of a stack, by index, that its addresses leave open; an object with one of `vtables` would help."""

    frames: tuple[int, ...]
    vtables: U64  # run-time addresses, ascending


class StackObjects(Protocol):
    """Finds the vtable pointers of the objects that the frames of a recording were called for."""

    def is_virtual(self, frame: RecordedFrame, process: RecordedProcess) -> bool:
        """Return whether a frame of a process lies in a body of merged virtual functions."""

    def open_frames(self, stacks: Sequence[Sample]) -> list[OpenFrames | None]:
        """Return the open frames of each stack; None if it has none that an object would help."""

    def vptrs(self, stack: Sample, wanted: OpenFrames, walked: Sequence[WalkedFrame], memory: Memory) -> Vptrs:
        """Return the vtable pointers of open frames where they are known; `walked` are the outermost frames."""
