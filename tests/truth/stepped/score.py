"""Answers against the truth, frame by frame; each distinct stack counts once.

right      the name is the true one
narrowed   several names, the true one among them, fewer than the body has; `open` where all are left
no claim   nothing is named where the tables say that functions are missing, or the frame is unknown
wrong      a name that is not the true one, or several without it where the tables are complete
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.truth.names import identifier
from tests.truth.stepped.align import Frame, Stack
from tests.truth.stepped.ask import Answer
from tests.truth.stepped.identity import demangled, function_of, without_file

OUTCOMES = ("right", "narrowed", "open", "no claim", "wrong")


@dataclass
class Score:
    merged: Counter[str] = field(default_factory=Counter)
    unmerged: Counter[str] = field(default_factory=Counter)
    contradicted: int = 0
    findings: dict[str, str] = field(default_factory=dict)  # what is wrong -> the first stack that has it

    @property
    def frame_count(self) -> int:
        return self.merged.total() + self.unmerged.total()

    @property
    def wrong_count(self) -> int:
        return self.merged["wrong"] + self.unmerged["wrong"]

    def add(self, other: Score) -> None:
        self.merged += other.merged
        self.unmerged += other.unmerged
        self.contradicted += other.contradicted


def share(counts: Mapping[str, int], outcome: str) -> float:
    total = sum(counts.values())
    return 100 * counts.get(outcome, 0) / total if total else 100.0


def score_answers(
    stacks: Mapping[Stack, str],
    answers: Mapping[str, Sequence[Answer]],
    incomplete: frozenset[int],
    starts: Mapping[int, int],
) -> Score:
    """`stacks` with the line that was asked; `starts`: body of each program counter or return address."""
    score = Score()
    for stack, line in stacks.items():
        said = answers[line]
        words = line.split()
        if len(said) != len(stack.frames):
            raise ValueError(f"{len(said)} answers for {len(stack.frames)} frames: {line}")
        for row, (frame, answer) in enumerate(zip(stack.frames, said, strict=True)):
            if frame is None or not frame.truth or words[row] == "?":
                continue
            outcome = judge(frame, answer, starts.get(frame.pc) in incomplete)
            (score.merged if len(frame.members) > 1 else score.unmerged)[outcome] += 1
            is_contradicted = answer.verdict == "contradicted"
            score.contradicted += is_contradicted
            if outcome == "wrong" or is_contradicted:
                shown = answer.name or answer.text or ", ".join(answer.candidates) or "nothing"
                what = "wrong" if outcome == "wrong" else answer.verdict
                finding = (
                    f"{what}: frame {row} {frame.pc:#x} is {' or '.join(frame.truth)}, said {answer.verdict}: {shown}"
                )
                score.findings.setdefault(finding, line)
    return score


def judge(frame: Frame, answer: Answer, is_incomplete: bool) -> str:
    """The outcome for one frame."""
    name = answer.name or answer.text
    if name is not None:
        return "right" if is_true(name, answer.file, frame) else "wrong"
    if answer.verdict == "unknown" or not answer.candidates:
        return "no claim"
    if not any(is_true(candidate, "", frame) for candidate in answer.candidates):
        says_more = is_incomplete or (answer.verdict == "ambiguous" and len(answer.candidates) == 1)
        return "no claim" if says_more else "wrong"
    return "narrowed" if answer.verdict == "narrowed" else "open"


def is_true(name: str, file: str, frame: Frame) -> bool:
    """Whether `name` is the frame's function.

    A text is what a function without linkage name has. Where several members have the name, the file decides.
    """
    said = without_file(function_of(name))
    found = [function for function in frame.truth if _is_called(function, said)]
    twins = [function for function in frame.members if _is_called(function, said)]
    if len(twins) < 2 or not found or not file:
        return bool(found)
    return any(function.partition("@")[2].rpartition("/")[2] == file.rpartition("/")[2] for function in found)


def _is_called(function: str, said: str) -> bool:
    if without_file(function) == said:
        return True
    if said.startswith("_Z") or not function.startswith("_Z"):
        return False
    return said in (demangled(function), identifier(demangled(function))[0])
