"""What the resolver says of a frame, and why it does not say more."""

from __future__ import annotations

from dataclasses import dataclass

from icf.demangle import demangle
from icf.model import Verdict
from unwind.program.program import Body
from unwind.resolve.reasons import Reason

BY_VPTR = "vptr"  # the vtable pointer of an object decided
Facts = list[list[str]]  # why, for each frame and each that tail calls left out, in the order of the output


@dataclass(frozen=True, slots=True, eq=False)
class FrameAnswer:
    """One resolved frame; equal answers to one address are one object, so writers can keep its text."""

    address: int | None  # as sampled; None is a frame outside of the image
    verdict: Verdict
    linkage_name: str | None = None  # only of `unmerged` and `unique` frames
    candidates: tuple[str, ...] = ()  # linkage names still possible, of all others
    evidence: str = ""  # what the record that decided rests on; BY_VPTR: what memory held when the stack was taken
    reason: Reason | None = None  # what keeps the answer from being one name
    vaddr: int = 0  # where the frame was looked up: the program counter, or a byte inside the call
    body: Body | None = None
    member_idx: int = -1  # the member of `body` that it is, if that is known
    source_name: str | None = None  # instead of a linkage name that the image does not have
    missing: tuple[FrameAnswer, ...] = ()  # frames left out by tail calls between it and its caller, from inside
    tail_call: bool = False  # is such a frame: `address` is that of its jump, None if it was one of several

    module_path: str = ""  # of a frame that lies in no function

    @property
    def module(self) -> str:
        """The path of its module; "" if it is in none that is known, or in the only one there is."""
        return self.module_path if self.body is None else self.body.program.path

    @property
    def name(self) -> str | None:
        """The demangled name."""
        return self.source_name if self.linkage_name is None else demangle(self.linkage_name)
