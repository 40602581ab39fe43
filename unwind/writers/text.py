"""Write resolved stacks for people: a block for each stack, an indented line for each candidate.

    stack 1, seen 42 times
        0x0000000000401136  std::max(int, int) (bits/stl_algo.h:257)  [inlined]
    #0  0x0000000000401136  fir::taps(int) (src/fir.cc:12)  [unique, relocation]
    #1  0x0000000000401180  one of 2  [ambiguous: indirect call before 0x4011f0]
            fir::left()
            fir::right()
    #2  0x00000000004011f0  main (src/main.cc:40)
    #3                   ?  [unknown: outside of the image]

An unmerged function, the usual case, has no remark. The name that a recording has of an unknown frame is quoted.
Functions that are inlined in one stand above it, without a number; the line of each is where it calls the one above. A
frame that a tail call has left out of the stack has no number; its address is that of the jump:

    #0  0x0000000000401136  Account::find(int) (src/account.cc:12)
        0x00000000004011a0  Bank::find(int) (src/bank.cc:31)  [tail call]
    #1  0x00000000004011f0  main (src/main.cc:40)
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from icf.demangle import demangle
from icf.model import Verdict
from icf.printable import printable
from unwind.program.frame import Frame
from unwind.resolve.answer import Facts
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Recording
from unwind.symbolize.answer import Answer
from unwind.writers.kept import KeptTexts
from unwind.writers.named import Namer

_SHOWN_CANDIDATES = 16
_KEPT_FRAMES = 1 << 18


def open_writer(recording: Recording, namer: Namer) -> TextWriter:
    """Return the writer of the samples of a recording."""
    return TextWriter(with_lines=namer.with_lines)


class TextWriter:
    """Turns answers into blocks of text; without `with_lines` it leaves out files, lines and inlined functions."""

    def __init__(self, *, with_lines: bool = True) -> None:
        self._with_lines = with_lines
        # by the width of a frame's number: the text before that, and after it
        self._frames: dict[int, dict[Answer, tuple[str, str]]] = {}
        self._stacks = KeptTexts()
        self._stack_count = 0

    def write(self, resolved: Resolved) -> bytes:
        """Return the lines of a sample."""
        answers = resolved.answers
        frames = self._stacks.get(answers)
        if frames is None:
            frames = self._stacks.keep(answers, self._numbered(answers, None).encode("utf-8", "surrogateescape"))
        return b"%b%b" % (self._head(resolved.sample.weights[0]).encode(), frames)

    def end(self) -> Iterator[bytes]:
        """Yield nothing: every sample is written by itself."""
        yield from ()

    def block(self, count: int, answers: tuple[Answer, ...], facts: Facts | None = None) -> str:
        """Return the lines of a stack that was seen `count` times, and an empty one; `facts` explain its frames."""
        return self._head(count) + self._numbered(answers, facts)

    def _head(self, count: int) -> str:
        self._stack_count += 1
        weight = f", seen {count:,} times" if count > 1 else ""
        return f"stack {self._stack_count}{weight}\n"

    def _numbered(self, answers: tuple[Answer, ...], facts: Facts | None) -> str:
        """Return the lines of the frames of a stack, and an empty one."""
        width = len(str(len(answers) - 1)) + 1
        known = self._frames.setdefault(width, {})
        if len(known) > _KEPT_FRAMES:
            known.clear()
        pieces: list[str] = []
        explained = iter(facts or ())
        for idx, answer in enumerate(answers):
            frame = known.get(answer) if facts is None else self._lines(answer, width, explained)
            if frame is None:
                frame = known[answer] = self._lines(answer, width, explained)
            pieces += (frame[0], f"#{idx}".ljust(width), frame[1])
        pieces.append("\n")
        return "".join(pieces)

    def _lines(self, answer: Answer, width: int, explained: Iterator[list[str]]) -> tuple[str, str]:
        """Return the lines of an answer before and after its number; remove from `explained` what it is about."""
        indent = " " * (width + 2)
        *inlined, own = self._frame(answer)
        before = "".join([f"{indent}{text}\n" for text in inlined])
        after = [f"  {own}\n", *_facts(explained)]
        for missing in answer.missing:
            after += [f"{indent}{text}\n" for text in self._frame(missing)]
            after += _facts(explained)
        return before, "".join(after)

    def _frame(self, answer: Answer) -> list[str]:
        address = "?".rjust(18) if answer.address is None else f"{answer.address:#018x}"
        inlined: list[str] = []
        words = [address]
        if answer.name is not None:
            frames = answer.frames if self._with_lines else ()
            words.append(answer.name + _place(frames[-1]) if frames else answer.name)
            for each in frames[:-1]:
                inlined.append(printable(f"{address}  {demangle(each.linkage_name)}{_place(each)}  [inlined]"))
        elif answer.linkage_names:
            words.append(counted(answer))
        elif answer.recorded_name:
            words.append(f'"{answer.recorded_name}"')
        if answer.module:
            words[-1] += f" in {os.path.basename(answer.module)}"
        words += remarks_of(answer)
        return [*inlined, "\n        ".join([printable("  ".join(words)), *candidates_of(answer)])]


def counted(answer: Answer) -> str:
    """Return in words how many functions a frame can be."""
    return _COUNTED[answer.verdict].format(len(answer.linkage_names))


def remarks_of(answer: Answer) -> list[str]:
    """Return the remark on an answer, in brackets; none for an unmerged function, the usual case."""
    remarks = [answer.verdict.value] if answer.verdict is not Verdict.UNMERGED else []
    if answer.evidence:
        remarks.append(answer.evidence)
    if answer.tail_call:
        remarks.append("tail call")
    reason = "" if answer.reason is None else f": {answer.reason}"
    return [f"[{', '.join(remarks)}{reason}]"] if remarks else []


def candidates_of(answer: Answer) -> list[str]:
    """Return a line for each function that a frame can be, or for the first ones and the count of the others."""
    shown = [printable(demangle(name)) for name in answer.linkage_names[:_SHOWN_CANDIDATES]]
    more = len(answer.linkage_names) - len(shown)
    return shown if more <= 0 else [*shown, f"and {more} more"]


def _facts(explained: Iterator[list[str]]) -> list[str]:
    return [f"        - {printable(fact)}\n" for fact in next(explained, ())]


def _place(frame: Frame) -> str:
    return f" ({frame.file}:{frame.line})" if frame.file and frame.line else ""


_COUNTED = {
    Verdict.AMBIGUOUS: "one of {}",
    Verdict.NARROWED: "one of {} left",
    Verdict.CONTRADICTED: "none of {} fits",
}
