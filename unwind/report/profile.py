"""A recording before and after: what each frame is called by today's tools, and what it was.

    recorded       before                  after
    0x1136         List<Order>::grow()     List<Payment>::grow()                          changed
    0x1180         List<Order>::grow()     List<Order>::grow()                            the same
    0x1192         List<Order>::grow()     List<Order>::grow() | List<Session>::grow()    open

Before is one name for each body, as in tools that know nothing of the calls: that of the function which the linker
kept. Tools differ in which name of a body they take; this one does not depend on the tool. Functions that are inlined
in a frame stand in both where its name is the same; those of a changed frame, and the frames that tail calls left out,
are known after alone.

Stacks are counted first and resolved some thousands at a time: a recording may repeat one of them a million times.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from icf.demangle import demangle
from icf.errors import IcfError
from icf.model import Verdict
from unwind.program.program import Body, Program
from unwind.report.data import Kind, Profile
from unwind.report.functions import FunctionWeights
from unwind.report.merged import kept_idx
from unwind.report.tree import DEPTH_LIMIT, FrameNumbers, Path, Shown, tree_of
from unwind.samples.recording import RecordedFrame, RecordedProcess, Recording, Sample
from unwind.symbolize.answer import Answer
from unwind.target.recorded import RecordedResolver
from unwind.writers.named import Namer

_TOGETHER = 4096  # stacks that are resolved
_WAITING = 1 << 17  # different stacks that are counted before
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

    before: Path
    after: Path
    kind: Kind
    body: BodyWeights | None = None  # of a merged one
    evidence: str = ""
    reason: str = ""


class ProfileCollector:
    """Collects the samples of a recording; weights are those of its value `value_idx`."""

    def __init__(self, resolver: RecordedResolver, recording: Recording, value_idx: int = -1) -> None:
        self._resolver, self._recording, self._value_idx = resolver, recording, value_idx
        value = recording.values[value_idx]
        self.profile = Profile(recording.format, value.name, value.unit, depth_limit=DEPTH_LIMIT)
        self.bodies: dict[BodyPlace, BodyWeights] = {}
        self.programs: dict[tuple[str, bytes], Program] = {}  # of the images that samples lie in
        self._namer = Namer()
        self._numbers = FrameNumbers()
        self._known: dict[tuple[RecordedFrame, Answer], _Frame] = {}
        self._functions = FunctionWeights(self._numbers)
        self._before: dict[Path, int] = {}
        self._after: dict[Path, int] = {}

    def collect(self, step: Callable[[int], None]) -> tuple[Profile, IcfError | None]:
        """Return the profile, and the error that ended the recording early, if one did."""
        problem: IcfError | None = None
        try:
            self._read(step)
        except IcfError as error:
            problem = error
        profile = self.profile
        profile.before = tree_of(self._before, self._numbers.frames)
        profile.after = tree_of(self._after, self._numbers.frames)
        profile.functions, profile.functions_left_out = self._functions.heaviest()
        return profile, problem

    def _read(self, step: Callable[[int], None]) -> None:
        waiting: dict[Sample, int] = {}
        try:
            for sample in self._recording:
                self.profile.samples += 1
                if self.profile.samples % _TOGETHER == 0:
                    step(_TOGETHER)
                weight = sample.weights[self._value_idx]
                if weight <= 0 or not sample.frames:
                    continue
                stack = sample._replace(weights=(), labels=(), time_ns=0, origin=None)
                waiting[stack] = waiting.get(stack, 0) + weight
                if len(waiting) >= _WAITING:
                    self._resolve(waiting)
        finally:
            self._resolve(waiting)

    def _resolve(self, waiting: dict[Sample, int]) -> None:
        stacks = iter(waiting)
        while together := list(islice(stacks, _TOGETHER)):
            for resolved in self._resolver.resolve(together):
                process = resolved.sample.process
                pairs = zip(resolved.sample.frames, resolved.answers, strict=True)
                self._add([self._frame(frame, answer, process) for frame, answer in pairs], waiting[resolved.sample])
        waiting.clear()

    def _add(self, frames: list[_Frame], weight: int) -> None:
        """Add a stack, innermost frame first."""
        before = tuple([number for frame in reversed(frames) for number in frame.before])
        after = tuple([number for frame in reversed(frames) for number in frame.after])
        self._before[before] = self._before.get(before, 0) + weight
        self._after[after] = self._after.get(after, 0) + weight
        self._functions.add(before, after, weight)
        profile, kinds = self.profile, {frame.kind for frame in frames}
        profile.weight += weight
        profile.changed += weight * (Kind.CHANGED in kinds)
        profile.changed_self += weight * (frames[0].kind is Kind.CHANGED)
        profile.open += weight * (Kind.OPEN in kinds)
        profile.unknown += weight * (Kind.UNKNOWN in kinds)
        for frame in frames:
            self._count(frame, weight)
        for body in {frame.body for frame in frames if frame.body is not None}:
            body.total += weight
        if frames[0].body is not None:
            frames[0].body.self_ += weight

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

    def _frame(self, frame: RecordedFrame, answer: Answer, process: RecordedProcess) -> _Frame:
        known = self._known.get((frame, answer))
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[frame, answer] = self._name(frame, answer, process)
        return known

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


def _kind(is_inlined: bool, is_settled: bool) -> Kind:
    """Return the kind of a frame that a tail call left out, or that is inlined in one."""
    if not is_settled:
        return Kind.OPEN
    return Kind.INLINED if is_inlined else Kind.TAIL_CALL


def _increase(weights: dict[str, int], key: str, weight: int) -> None:
    weights[key] = weights.get(key, 0) + weight
