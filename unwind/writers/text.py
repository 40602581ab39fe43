"""Write resolved stacks for people: a block for each stack, an indented line for each candidate.

Samples that a reader adds up are written at the end, each stack once, the most frequent first; others as they come.

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

import numpy as np

from icf.demangle import demangle, demangle_all
from icf.model import Verdict
from icf.printable import printable
from unwind.program.frame import Frame
from unwind.resolve.answer import Facts
from unwind.resolve.resolved import AnsweredSums, Resolved, StackAnswers
from unwind.samples.recording import Recording
from unwind.symbolize.answer import Answer
from unwind.writers.kept import KeptTexts
from unwind.writers.named import Namer
from unwind.writers.stack_counts import StackCounts
from unwind.writers.stack_texts import StackTexts, number_width

_SHOWN_CANDIDATES = 16
_KEPT_FRAMES = 1 << 18


def open_writer(recording: Recording, namer: Namer) -> TextWriter:
    """Return the writer of the samples of a recording."""
    return TextWriter(with_lines=namer.with_lines, max_candidates=namer.max_candidates)


class TextWriter:
    """Turns answers into blocks of text; without `with_lines` it leaves out files, lines and inlined functions.

    Of the functions that a frame can be it shows the first `max_candidates`, and the count of the others.
    """

    def __init__(self, *, with_lines: bool = True, max_candidates: int | None = None) -> None:
        self._with_lines = with_lines
        self._max_candidates = _SHOWN_CANDIDATES if max_candidates is None else max_candidates
        # by the width of a frame's number: the text before that, and after it
        self._frames: dict[int, dict[Answer, tuple[str, str]]] = {}
        self._stacks = KeptTexts[StackAnswers, bytes]()
        self._stack_count = 0
        self._counts: StackCounts | None = None  # of samples that are added up, and not written yet

    def write_explained(self, resolved: Resolved, facts: Facts) -> bytes:
        """Return the lines of a sample, with those that explain its frames."""
        return self.block(resolved.sample.weights[0], resolved.answers, facts).encode("utf-8", "surrogateescape")

    def write(self, resolved: Resolved) -> bytes:
        """Return the lines of a sample."""
        answers = resolved.answers
        frames = self._stacks.get(answers)
        if frames is None:
            frames = self._stacks.keep(answers, self._numbered(answers, None).encode("utf-8", "surrogateescape"))
        return b"%b%b" % (self._head(resolved.sample.weights[0]).encode(), frames)

    def write_sums(self, answered: AnsweredSums) -> Iterator[bytes]:
        """Take samples that are added up; yield those that were taken before, if these are of another tree."""
        if self._counts is None or self._counts.tree is not answered.tree:
            yield from self.end()
            self._counts = StackCounts(answered.tree)
        self._counts.add(answered)

    def end(self) -> Iterator[bytes]:
        """Yield the stacks that were added up, the most frequent first; samples by themselves were written."""
        counts, self._counts = self._counts, None
        if counts is None:
            return
        tree, stacks = counts.tree, counts.by_count()
        nodes = np.array([node for node, _ in stacks], np.uint64)
        heads = [self._head(count).encode() for _, count in stacks]
        width = number_width(tree, nodes)
        texts = StackTexts(tree, width, lambda state: self._texts(tree.answers[state], width))
        start = 0
        for end, (node, _) in enumerate(stacks):
            if node in counts.whole:
                yield from texts.write(nodes[start:end], heads[start:end])
                yield heads[end] + self._numbered(counts.whole[node].answers, None, width).encode(
                    "utf-8", "surrogateescape"
                )
                start = end + 1
        yield from texts.write(nodes[start:], heads[start:])

    def block(self, count: int, answers: tuple[Answer, ...], facts: Facts | None = None) -> str:
        """Return the lines of a stack that was seen `count` times, and an empty one; `facts` explain its frames."""
        return self._head(count) + self._numbered(answers, facts)

    def _head(self, count: int) -> str:
        self._stack_count += 1
        weight = f", seen {count:,} times" if count > 1 else ""
        return f"stack {self._stack_count}{weight}\n"

    def _numbered(self, answers: tuple[Answer, ...], facts: Facts | None, width: int = 0) -> str:
        """Return the lines of the frames of a stack, and an empty one; `width`: of their numbers, if not as needed."""
        width = width or len(str(len(answers) - 1)) + 1
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

    def _texts(self, answer: Answer, width: int) -> tuple[bytes, bytes]:
        before, after = self._lines(answer, width, iter(()))
        return before.encode("utf-8", "surrogateescape"), after.encode("utf-8", "surrogateescape")

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
        return [
            *inlined,
            "\n        ".join([printable("  ".join(words)), *candidates_of(answer, self._max_candidates)]),
        ]


def counted(answer: Answer) -> str:
    """Return in words how many functions a frame can be."""
    count = len(answer.linkage_names)
    if count == 1 and answer.verdict is not Verdict.CONTRADICTED:
        return "one known, or another"
    more = ", or another" if not answer.is_complete and answer.verdict is not Verdict.CONTRADICTED else ""
    return _COUNTED[answer.verdict].format(count) + more


def remarks_of(answer: Answer) -> list[str]:
    """Return the remark on an answer, in brackets; none for an unmerged function, the usual case."""
    remarks = [answer.verdict.value] if answer.verdict is not Verdict.UNMERGED else []
    if answer.evidence:
        remarks.append(answer.evidence)
    if answer.tail_call:
        remarks.append("tail call")
    reason = "" if answer.reason is None else f": {answer.reason}"
    return [f"[{', '.join(remarks)}{reason}]"] if remarks else []


def candidates_of(answer: Answer, limit: int = _SHOWN_CANDIDATES) -> list[str]:
    """Return a line for each function that a frame can be, or for the first ones and the count of the others."""
    shown = [printable(name) for name in demangle_all(answer.linkage_names[:limit])]
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
