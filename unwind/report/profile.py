"""A recording before and after: what each frame is called by today's tools, and what it was.

    recorded       before                  after
    0x1136         List<Order>::grow()     List<Payment>::grow()                          changed
    0x1180         List<Order>::grow()     List<Order>::grow()                            the same
    0x1192         List<Order>::grow()     List<Order>::grow() | List<Session>::grow()    open

Before is one name for each body, as in tools that know nothing of the calls: that of the function which the linker
kept. Tools differ in which name of a body they take; this one does not depend on the tool. Functions that are inlined
in a frame stand in both where its name is the same; those of a changed frame, and the frames that tail calls left out,
are known after alone.

Stacks become a tree of such frames, callers outermost: what the resolver found of a call is looked at once, however
many stacks it is part of, and all sums are made of the tree (`unwind.report.tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from icf.demangle import demangle
from icf.errors import IcfError
from icf.model import Verdict
from unwind.program.program import Body, Program
from unwind.report.data import Kind, Profile
from unwind.report.functions import functions_of
from unwind.report.merged import kept_idx
from unwind.report.rows import DEPTH_LIMIT, FrameNumbers, Shown, rows_of
from unwind.report.tree import TreeSums
from unwind.resolve.resolved import AnsweredSums
from unwind.samples.recording import RecordedFrame, RecordedProcess, Recording
from unwind.symbolize.answer import Answer
from unwind.target.recorded import RecordedResolver
from unwind.writers.added_stacks import AddedStacks
from unwind.writers.named import Namer
from unwind.writers.stack_tree import ROOT, NumberRows, StackTree

_KEPT = 1 << 18
_OPEN = (Verdict.NARROWED, Verdict.AMBIGUOUS, Verdict.CONTRADICTED)


class BodyWeights:
    """The weights of one merged body, as `MergedBody` has them."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.total = self.self_ = self.settled = self.open = 0
        self.evidence: dict[str, int] = {}
        self.reasons: dict[str, int] = {}


class BodyPlace(NamedTuple):
    """A body, whichever processes have it."""

    path: str
    build_id: bytes  # as the recording has it
    address: int  # as linked


class _Frame(NamedTuple):
    """What one recorded frame is before and after: numbers of frames of trees, outermost first."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    kind: Kind
    body: BodyWeights | None = None  # of a merged one
    evidence: str = ""
    reason: str = ""


class ProfileCollector:
    """Collects the samples of a recording; weights are those of the value that it shows."""

    def __init__(self, resolver: RecordedResolver, recording: Recording) -> None:
        self._resolver, self._recording = resolver, recording
        value = recording.values[recording.shown]
        self.profile = Profile(recording.format, value.name, value.unit, depth_limit=DEPTH_LIMIT)
        self.bodies: dict[BodyPlace, BodyWeights] = {}
        self.programs: dict[tuple[str, bytes], Program] = {}  # of the images that samples lie in
        self._namer = Namer()
        self._numbers = FrameNumbers()
        self._frames: list[_Frame] = []
        self._frame_numbers: dict[_Frame, int] = {}
        self._known: dict[tuple[RecordedFrame, Answer], int] = {}
        self._stacks = AddedStacks(self._frame)  # of numbers of `_frames`

    def collect(self, step: Callable[[int], None]) -> tuple[Profile, IcfError | None]:
        """Return the profile, and the error that ended the recording early, if one did."""
        problem: IcfError | None = None
        try:
            self._read(step)
        except IcfError as error:
            problem = error
        tree = self._stacks.tree()
        self._sum_up(TreeSums(tree))
        profile, shown = self.profile, self._numbers.frames
        before = _shown(tree, [frame.before for frame in self._frames])
        after = _shown(tree, [frame.after for frame in self._frames])
        profile.before, profile.after = rows_of(before, shown), rows_of(after, shown)
        profile.functions, profile.functions_left_out = functions_of(shown, before, after)
        return profile, problem

    def _read(self, step: Callable[[int], None]) -> None:
        for part in self._resolver.added_up(self._recording.samples):
            if isinstance(part, AnsweredSums):
                self._stacks.add_sums(part, self._recording.shown)
                count = part.sample_count
            else:
                for resolved in part:
                    if (weight := resolved.sample.weights[self._recording.shown]) > 0:
                        self._stacks.add(resolved, weight)
                count = len(part)
            self.profile.samples += count
            step(count)

    # What it adds up to

    def _sum_up(self, sums: TreeSums) -> None:
        profile, kinds = self.profile, [frame.kind.value for frame in self._frames]
        with_kind = sums.of_stacks(kinds)
        profile.weight = sums.weight
        profile.changed = with_kind.get(Kind.CHANGED, 0)
        profile.changed_self = sums.of_innermost(kinds).get(Kind.CHANGED, 0)
        profile.open = with_kind.get(Kind.OPEN, 0)
        profile.unknown = with_kind.get(Kind.UNKNOWN, 0)
        for number, weight in sums.of_frames(range(len(self._frames))).items():
            self._count(self._frames[number], weight)
        bodies = list(self.bodies.values())
        number_of = {body: number for number, body in enumerate(bodies)}
        in_bodies = [-1 if frame.body is None else number_of[frame.body] for frame in self._frames]
        for number, weight in sums.of_stacks(in_bodies).items():
            bodies[number].total = weight
        for number, weight in sums.of_innermost(in_bodies).items():
            bodies[number].self_ = weight

    def _count(self, frame: _Frame, weight: int) -> None:
        profile, body = self.profile, frame.body
        if frame.kind is Kind.OPEN:
            profile.open_frames += weight
            _increase(profile.reasons, frame.reason, weight)
            if body is not None:
                body.open += weight
                _increase(body.reasons, frame.reason, weight)
        elif body is not None and frame.kind is not Kind.UNKNOWN:
            profile.settled_frames += weight
            body.settled += weight
            _increase(profile.evidence, frame.evidence, weight)
            _increase(body.evidence, frame.evidence, weight)

    # Frames

    def _frame(self, frame: RecordedFrame, answer: Answer, process: RecordedProcess) -> list[int]:
        """Return the number of what a frame is."""
        known = self._known.get((frame, answer))
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            named = self._name(frame, answer, process)
            known = self._known[frame, answer] = self._frame_numbers.setdefault(named, len(self._frames))
            if known == len(self._frames):
                self._frames.append(named)
        return [known]

    def _name(self, frame: RecordedFrame, answer: Answer, process: RecordedProcess) -> _Frame:
        named = self._namer.frame(frame, answer)
        own_idx = next(idx for idx, each in enumerate(named) if not each.is_inlined)
        own, number = named[own_idx].name, self._numbers.of
        body = self._resolver.body_of(frame, answer, process)
        if body is not None and frame.module is not None:
            self.programs.setdefault((frame.module.path, frame.module.build_id), body.program)
        left_out = [Shown(each.name, _kind(each.is_inlined, each.is_settled)) for each in named[own_idx + 1 :]]
        inlined = [number(Shown(each.name, Kind.INLINED)) for each in reversed(named[:own_idx])]
        kept = demangle(answer.members[kept_idx(answer.members)].name) if answer.members else own
        if answer.verdict is Verdict.UNKNOWN and not frame.name:
            kind = Kind.UNKNOWN
        elif answer.verdict in _OPEN:
            kind = Kind.OPEN
        else:
            kind = Kind.SAME if kept == own else Kind.CHANGED
        is_same = kind in (Kind.SAME, Kind.UNKNOWN)
        before = [number(Shown(kept, kind, "" if is_same else own)), *(inlined if is_same else ())]
        after = [*map(number, reversed(left_out)), number(Shown(own, kind, "" if is_same else kept)), *inlined]
        reason = answer.reason.code.value if answer.reason is not None else ""
        weights = self._weights(frame, body) if body is not None and len(body.members) > 1 else None
        return _Frame(tuple(before), tuple(after), kind, weights, answer.evidence, reason)

    def _weights(self, frame: RecordedFrame, body: Body) -> BodyWeights:
        module = frame.module
        path, build_id = (module.path, module.build_id) if module is not None else ("", b"")
        return self.bodies.setdefault(BodyPlace(path, build_id, body.start), BodyWeights(body))


def _shown(tree: StackTree, paths: Iterable[Sequence[int]]) -> TreeSums:
    """Return the sums over the stacks with the frames of each frame in its place."""
    shown, rows = StackTree(), NumberRows()
    for path in paths:
        rows.append(path)
    nodes = np.fromiter(tree.weights, np.uint64, len(tree.weights))
    frames = tree.frames.astype(np.uint32).data
    added = shown.add_along(tree, nodes, frames, rows, ([ROOT], ROOT))
    for node, weight in zip(added.tolist(), tree.weights.values(), strict=True):
        shown.weights[node] += weight
    return TreeSums(shown)


def _kind(is_inlined: bool, is_settled: bool) -> Kind:
    """Return the kind of a frame that a tail call left out, or that is inlined in one."""
    if not is_settled:
        return Kind.OPEN
    return Kind.INLINED if is_inlined else Kind.TAIL_CALL


def _increase(weights: dict[str, int], key: str, weight: int) -> None:
    weights[key] = weights.get(key, 0) + weight
