"""Comparing answers with the truth, frame by frame.

A frame in a merged function is
    right      one name, and it is the true one
    narrowed   several names, the true one among them, fewer than the body has
    no claim   all of them
    wrong      one name that is not the true one, or several without it
*Direct* frames are those whose caller holds a direct call to them, and is not merged or direct itself. (A caller that
was reached through a pointer may be any of its members, and then so may what it calls.) *Known* are those of them
whose callees are on record, too: in a call site in DWARF where there is nothing better.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.truth.align import Frame, Stack
from tests.truth.names import is_same
from tests.truth.peers import Names, lookup_vaddr
from tests.truth.tool import Answer

OUTCOMES = ("right", "narrowed", "no claim", "wrong")


@dataclass
class Score:
    """Counts weighted by how often a stack was seen, and where it went wrong."""

    merged: Counter[str] = field(default_factory=Counter)
    direct: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    ways: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # by how it was reached
    other: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)

    def judge(
        self,
        frame: Frame,
        caller: Frame | None,
        kind: str,
        weight: int,
        said: str,
        *,
        is_direct: bool = False,
        is_known: bool = False,
    ) -> None:
        self.merged[kind] += weight
        self.ways[frame.reached][kind] += weight
        self.direct[kind] += weight * is_direct
        self.known[kind] += weight * is_known
        if kind == "wrong" or (is_known and kind != "right"):
            at = f"{caller.pc:#x} (unfolded {caller.original_pc:#x}) in {caller.names[0]}" if caller else "?"
            self.findings[
                f"{kind}: {frame.reached}: frame {frame.pc:#x} truth {frame.names[0]} said {said} caller {at}"
            ] += weight

    def share(self, counts: Mapping[str, int], kind: str) -> float:
        total = sum(counts.get(each, 0) for each in OUTCOMES)
        return 100 * counts.get(kind, 0) / total if total else 100.0 if kind == "right" else 0.0


def _kind(frame: Frame, answer: Answer) -> str:
    if answer.name is not None:
        return "right" if is_same(answer.name, frame.names) else "wrong"
    if not answer.candidates:
        return "no claim"
    holds = any(is_same(name, frame.names) for name in answer.candidates)
    if answer.verdict == "narrowed":
        return "narrowed" if holds else "wrong"
    return "no claim"


def _direct_frames(frames: Sequence[Frame | None], known_sites: frozenset[int] | None) -> list[bool]:
    """Outermost first: a merged caller that may be anything leaves its callees open; None: every site is known."""
    known = [False] * len(frames)
    for row in range(len(frames) - 2, -1, -1):
        frame, caller = frames[row], frames[row + 1]
        if frame is not None and caller is not None and frame.is_direct:
            is_sited = known_sites is None or caller.original_pc in known_sites
            known[row] = is_sited and (not caller.candidates or known[row + 1])
    return known


def score_answers(
    stacks: Iterable[tuple[Stack, int]], answers: Sequence[Sequence[Answer]], known_sites: frozenset[int] | None
) -> Score:
    """`known_sites`: return addresses, in the unfolded image, of calls whose callee is on record; None for all."""
    score = Score()
    direct_of: dict[tuple[Frame | None, ...], tuple[list[bool], list[bool]]] = {}
    for (stack, weight), answer in zip(stacks, answers, strict=True):
        if len(answer) != len(stack.frames):
            raise ValueError(f"{len(answer)} answers for {len(stack.frames)} frames")
        if stack.frames not in direct_of:
            direct_of[stack.frames] = (_direct_frames(stack.frames, None), _direct_frames(stack.frames, known_sites))
        is_direct, is_known = direct_of[stack.frames]
        for row, (frame, said) in enumerate(zip(stack.frames, answer, strict=True)):
            if frame is None:
                continue
            score.other["contradicted"] += weight * (said.verdict == "contradicted")
            if not frame.candidates:
                score.other["unmerged"] += weight
                if said.name is None:
                    score.other["unmerged, not named"] += weight
                    score.findings[f"unmerged: {frame.pc:#x} truth {frame.names[0]} verdict {said.verdict}"] += weight
                elif not is_same(said.name, frame.names):
                    score.other["unmerged, wrong"] += weight
                    score.findings[f"unmerged: {frame.pc:#x} truth {frame.names[0]} said {said.name}"] += weight
                continue
            if said.verdict == "unmerged":
                score.other["merged, taken for unmerged"] += weight
                score.findings[f"taken for unmerged: {frame.pc:#x} truth {frame.names[0]} said {said.name}"] += weight
            caller = stack.frames[row + 1] if row + 1 < len(stack.frames) else None
            kind = _kind(frame, said)
            shown = said.name or f"{said.verdict} of {len(said.candidates)}"
            score.judge(frame, caller, kind, weight, shown, is_direct=is_direct[row], is_known=is_known[row])
            if said.candidates and not any(is_same(name, frame.names) for name in said.candidates):
                score.other["truth not a candidate"] += weight
                score.findings[f"not a candidate: {frame.pc:#x} truth {frame.names[0]}"] += weight
    return score


def score_names(stacks: Mapping[Stack, int], names: Names) -> Score:
    """A tool that gives one name for each address."""
    score = Score()
    for stack, weight in stacks.items():
        is_direct = _direct_frames(stack.frames, None)
        for row, frame in enumerate(stack.frames):
            if frame is None:
                continue
            name = names.get(lookup_vaddr(frame))
            is_right = name is not None and is_same(name, frame.names)
            if not frame.candidates:
                score.other["unmerged"] += weight
                score.other["unmerged, wrong"] += weight * (name is not None and not is_right)
                continue
            caller = stack.frames[row + 1] if row + 1 < len(stack.frames) else None
            kind = "no claim" if name is None else "right" if is_right else "wrong"
            score.judge(frame, caller, kind, weight, str(name), is_direct=is_direct[row])
    return score
