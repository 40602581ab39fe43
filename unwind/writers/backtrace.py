"""Write the stacks of threads as gdb's `bt` does, with what is certain about each function.

    Thread 1 (LWP 4711) "shop", SIGSEGV at address 0x8:
    #0  0x0000000000401136 in fir::taps(int) () at src/fir.cc:12  [unique, relocation]
        0x0000000000401180 in scale(int) () at src/scale.h:7  [inlined]
    #1  0x0000000000401180 in one of 2  [ambiguous: indirect call before 0x401180]
            fir::left()
            fir::right()
    #2  <signal handler called>
        0x00000000004011a0 in Bank::find(int) () at src/bank.cc:31  [tail call]
    #3  0x00000000004011f0 in main () at src/main.cc:40
    #4  0x00007f3dd2e4524a in ?? () from /opt/lib/gone.so  [unknown: in no module whose image is known]
    The stack goes on: /opt/lib/gone.so: no such file

Functions that are inlined in one stand above it, and frames that tail calls left out below the one that was called;
neither has a number. An unmerged function, the usual case, has no remark.
"""

from __future__ import annotations

from icf.demangle import demangle
from icf.printable import printable
from unwind.dumps.walk import WalkedThread
from unwind.program.frame import Frame
from unwind.resolve.resolved import Resolved
from unwind.symbolize.answer import Answer
from unwind.walk.walker import End
from unwind.writers.text import candidates_of, counted, remarks_of

_NO_FRAME = Frame("", "", 0, 0, False)
_ENDS = {
    End.NO_CALL_FRAMES: "its last frame is in code without call frame information",
    End.NO_MEMORY: "what its last frame has saved was not copied",
    End.NOT_GROWING: "its last frame does not lie above the one before it",
    End.BAD_EXPRESSION: "the call frame information of its last frame cannot be evaluated",
    End.OUT_OF_FRAMES: "only this many frames are shown",
}


class BacktraceWriter:
    """Turns threads into text; without `with_lines` it leaves out files, lines and inlined functions."""

    def __init__(self, *, with_lines: bool = True) -> None:
        self._with_lines = with_lines
        self._thread_count = 0

    def write(self, walked: WalkedThread, resolved: Resolved) -> str:
        """Return the lines of a thread, and an empty one."""
        self._thread_count += 1
        thread = walked.thread
        name = f' "{thread.name}"' if thread.name else ""
        stopped = f", {thread.stopped_by}" if thread.stopped_by else ""
        lines = [f"Thread {self._thread_count} (LWP {thread.tid}){name}{stopped}:"]
        for idx, (frame, answer) in enumerate(zip(walked.frames, resolved.answers, strict=True)):
            number = f"#{idx} ".ljust(4)
            lines += [f"{number}<signal handler called>"] if frame.is_signal else self._frame(answer, number)
        if walked.end in _ENDS:
            lines.append(f"The stack goes on: {walked.problem or _ENDS[walked.end]}")
        return "".join(f"{printable(line)}\n" for line in lines) + "\n"

    def _frame(self, answer: Answer, number: str) -> list[str]:
        """Return the lines of a frame, of what is inlined in it, and of the frames between it and its caller."""
        indent = " " * len(number)
        at = "" if answer.address is None else f"{answer.address:#018x} in "
        *inlined, own = (answer.frames if self._with_lines and answer.is_named else ()) or (_NO_FRAME,)
        lines = [f"{indent}{at}{demangle(each.linkage_name)} (){_place(each)}  [inlined]" for each in inlined]
        if answer.name is not None:
            words = [f"{at}{answer.name} ()" + (_place(own) or _module(answer))]
        elif answer.linkage_names:
            words = [f"{at}{counted(answer)}" + _module(answer)]
        else:
            words = [f"{at}{answer.recorded_name or '??'} ()" + _module(answer)]
        lines.append(number + "  ".join(words + remarks_of(answer)))
        lines += [f"{indent}    {candidate}" for candidate in candidates_of(answer)]
        for missing in answer.missing:
            lines += self._frame(missing, indent)
        return lines


def _place(frame: Frame) -> str:
    return f" at {frame.file}:{frame.line}" if frame.file and frame.line else ""


def _module(answer: Answer) -> str:
    return f" from {answer.module}" if answer.module else ""
