"""Comparing answers with the truth, frame by frame.

A frame in a merged function is
    right      one name, and it is the true one
    narrowed   several names, the true one among them, fewer than the body has
    no claim   all of them
    wrong      one name that is not the true one, or several without it
The bar is set for *direct* frames: their caller holds a direct call to them. Names are compared without what tells
local symbols or clones (`.part.0`, `.cold`) apart, and as demangled text, so that the two symbols of one constructor
are equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import cxxfilt

from tests.truth.align import Frame, Stack
from tests.truth.peers import Names, lookup_vaddr
from tests.truth.tool import Answer

CLONE = re.compile(r"\.(part|cold|constprop|isra|lto_priv|llvm|__uniq)(\.\d+)*")
KINDS = ("right", "narrowed", "no claim", "wrong")


@cache
def plain_name(name: str) -> str:
    """Demangled, without clone suffixes."""
    name = CLONE.sub("", name.split("@", 1)[0])
    try:
        return str(cxxfilt.demangle(name))
    except cxxfilt.InvalidName:
        return name


def is_same(name: str, names: Iterable[str]) -> bool:
    names = tuple(names)
    return name in names or plain_name(name) in {plain_name(true_name) for true_name in names}


@dataclass
class Score:
    """Counts weighted by how often a stack was seen, and where it went wrong."""

    merged: Counter[str] = field(default_factory=Counter)
    direct: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)  # direct, and the call is in a relocation or DWARF call site
    anchored: Counter[str] = field(default_factory=Counter)  # direct, all merged callers up to an unmerged one as well
    other: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)

    def judge(self, frame: Frame, caller: Frame | None, kind: str, weight: int, is_known: bool, said: str) -> None:
        self.merged[kind] += weight
        if frame.is_direct:
            self.direct[kind] += weight
            if is_known:
                self.known[kind] += weight
            if frame.is_anchored:
                self.anchored[kind] += weight
        if kind == "wrong" or (is_known and kind != "right"):
            how = "direct" if frame.is_direct else "not direct"
            at = f"{caller.pc:#x} (unfolded {caller.original_pc:#x}) in {caller.names[0]}" if caller else "?"
            self.findings[f"{kind}: {how}: frame {frame.pc:#x} truth {frame.names[0]} said {said} caller {at}"] += (
                weight
            )

    def share(self, counts: Mapping[str, int], kind: str) -> float:
        total = sum(counts.get(each, 0) for each in KINDS)
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


def score_answers(
    stacks: Mapping[Stack, int], answers: Sequence[Sequence[Answer]], known_sites: frozenset[int] | None
) -> Score:
    """`known_sites`: return addresses, in the unfolded image, of calls that a tool can know; None for all."""
    score = Score()
    for (stack, weight), answer in zip(stacks.items(), answers, strict=True):
        if len(answer) != len(stack.frames):
            raise ValueError(f"{len(answer)} answers for {len(stack.frames)} frames")
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
            is_known = frame.is_direct and caller is not None
            if known_sites is not None and caller is not None:
                is_known = is_known and caller.original_pc in known_sites
            kind = _kind(frame, said)
            shown = said.name or f"{said.verdict} of {len(said.candidates)}"
            score.judge(frame, caller, kind, weight, is_known, shown)
            if said.candidates and not any(is_same(name, frame.names) for name in said.candidates):
                score.other["truth not a candidate"] += weight
                score.findings[f"not a candidate: {frame.pc:#x} truth {frame.names[0]}"] += weight
    return score


def score_names(stacks: Mapping[Stack, int], names: Names) -> Score:
    """A tool that gives one name for each address."""
    score = Score()
    for stack, weight in stacks.items():
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
            score.judge(frame, caller, kind, weight, False, str(name))
    return score
