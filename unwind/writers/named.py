"""The frames of a sample as formats of profilers show them: a name each, inlined functions and tail calls included.

    recorded            answer                        shown
    0x1136 in shop      List<Order>::grow() [unique]  copy (inlined), List<Order>::grow()
    0x1180 in shop      one of 3 [ambiguous]          List<Order>::grow() | List<Payment>::grow() | List<User>::grow()
    0x10 in gone.so     unknown                       what the recording calls it, else [gone.so]
    do_syscall_64       -                             do_syscall_64

Such formats have one name for each frame. What stands there for a frame that is still one of several, `Ambiguous` says:

    JOINED   the functions that it can be: `a | b`, or the first four and how many more; `a | ?` if there may be others
    FIRST    the first of them, which may be the wrong one
    BODY     the same for all frames of one body, whatever is left of it: `a [one of 3]`
"""

from __future__ import annotations

import os
from enum import Enum
from typing import NamedTuple

from icf.demangle import demangle, demangle_all
from icf.model import Verdict
from unwind.program.frame import Frame
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import RecordedFrame
from unwind.symbolize.answer import Answer

_NO_FRAME = Frame("", "", 0, 0, False)
_SHOWN = 4
_KEPT = 1 << 18


class Ambiguous(Enum):
    """How a frame that can be several functions is shown."""

    JOINED = "joined"
    FIRST = "first"
    BODY = "body"


class NamedFrame(NamedTuple):
    """One line of a stack; "" and 0 where something is not known."""

    name: str
    linkage_name: str = ""  # "" also if the function is one of several
    file: str = ""
    line: int = 0
    column: int = 0
    module: str = ""  # path
    address: int | None = None  # as recorded; None also for a frame that a tail call left out
    is_inlined: bool = False
    is_settled: bool = True  # else it can be several functions


class Namer:
    """Names the frames of samples, each pair of a recorded frame and its answer once.

    `max_candidates` is for formats that list the functions that a frame can be; None: as the format has it.
    """

    def __init__(
        self, ambiguous: Ambiguous = Ambiguous.JOINED, *, with_lines: bool = True, max_candidates: int | None = None
    ) -> None:
        self._ambiguous, self.with_lines, self.max_candidates = ambiguous, with_lines, max_candidates
        self._known: dict[tuple[RecordedFrame, Answer], tuple[NamedFrame, ...]] = {}

    def stack(self, resolved: Resolved) -> list[NamedFrame]:
        """Return all frames of a sample, innermost first."""
        shown: list[NamedFrame] = []
        for frame, answer in zip(resolved.sample.frames, resolved.answers, strict=True):
            shown += self.frame(frame, answer)
        return shown

    def frame(self, frame: RecordedFrame, answer: Answer) -> tuple[NamedFrame, ...]:
        """Return what one recorded frame stands for, innermost first."""
        key = frame, answer
        shown = self._known.get(key)
        if shown is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            shown = self._known[key] = self._name(frame, answer)
        return shown

    def _name(self, frame: RecordedFrame, answer: Answer) -> tuple[NamedFrame, ...]:
        module = answer.module
        if answer.verdict is Verdict.UNKNOWN or frame.is_certain:
            name = frame.name or (f"[{os.path.basename(module)}]" if module else "[unknown]")
            own = NamedFrame(name, "", frame.file, frame.line, 0, module, frame.address)
            inlined = [
                NamedFrame(name, "", file, line, 0, module, own.address, True) for name, file, line in frame.inlined
            ]
            return (*inlined, own)
        shown = self._settled(answer, module, frame.address) or [self._open(answer, module, frame.address)]
        for missing in answer.missing:
            where = missing.module or module
            shown += self._settled(missing, where, None) or [self._open(missing, where, None)]
        return tuple(shown)

    def _settled(self, answer: Answer, module: str, address: int | None) -> list[NamedFrame]:
        """Return the function of an answer and what is inlined in it; nothing if it can be several."""
        if answer.name is None:
            return []
        *inlined, own = (answer.frames if self.with_lines else ()) or (_NO_FRAME,)
        shown = [
            NamedFrame(each.name, each.linkage_name, each.file, each.line, each.column, module, address, True)
            for each in inlined
        ]
        place = own.file, own.line, own.column
        shown.append(NamedFrame(answer.name, answer.linkage_name or "", *place, module, address))
        return shown

    def _open(self, answer: Answer, module: str, address: int | None) -> NamedFrame:
        names = demangle_all(answer.linkage_names)
        if self._ambiguous is Ambiguous.FIRST:
            name = names[0]
        elif self._ambiguous is Ambiguous.BODY and answer.members:
            name = f"{demangle(answer.members[0].name)} [one of {len(answer.members)}]"
        else:
            shown = names if len(names) <= _SHOWN + 1 else [*names[:_SHOWN], f"{len(names) - _SHOWN} more"]
            name = " | ".join(shown if answer.is_complete else [*shown, "?"])
        return NamedFrame(name, module=module, address=address, is_settled=False)
