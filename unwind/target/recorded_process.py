"""The stacks of one process of a recording: cut where frames may be missing, answered with the recording's addresses.

Where frames may be missing (`lost_callers`), the resolver allows what is possible with them. Where a call that the
processor noted has led elsewhere, a stack is cut: what stands on one side of a gap says nothing about the other. A
stack with vtable pointers or signals is cut wherever frames may be missing.

gdb leaves out the address of a frame at the beginning of a line of source, mostly that of the innermost frame. Its
function is the one that its caller calls directly, if that has the name which gdb has printed, or shares its body.

Stacks share their outer frames, so what a frame means after its callers is kept by states (`unwind.target.states`).
Only two kinds of stacks need more than that: where a frame restricts its caller, and where the frames outwards say how
an address is meant, by a vtable pointer or after the trampoline of a signal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from icf.demangle import demangle, qualified_name
from icf.model import Verdict
from unwind.program.frame import Frame
from unwind.resolve.answer import Facts
from unwind.resolve.chain import Step
from unwind.resolve.explain import explain, explain_steps
from unwind.resolve.places import Marked, Sampled
from unwind.resolve.reasons import LOST_CALLER, NO_CALLER
from unwind.resolve.resolved import StackAnswers
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import Losses, RecordedFrame, RecordedProcess, Sample
from unwind.samples.stack import Stack
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import NO_MODULE
from unwind.target.frame_places import FramePlaces
from unwind.target.lost_callers import LostCallers
from unwind.target.recorded_images import Located, RecordedImages
from unwind.target.states import State

_KEPT = 1 << 20
_ADDRESS = re.compile("0x[0-9a-f]+")


class ProcessStacks:
    """One process: its resolver, what is known of its frames, and how far its modules lie from their places."""

    def __init__(
        self,
        recorded: RecordedProcess,
        resolver: Resolver,
        images: RecordedImages,
        located: Sequence[Located],
        losses: Losses,
    ) -> None:
        self.recorded, self.resolver = recorded, resolver
        self.stacks: dict[object, StackAnswers] = {}  # of whole stacks; kept by the caller
        self.fresh: list[Answer] = []  # what was looked up since the caller emptied this list
        self.lost_callers: set[RecordedFrame] = set()  # frames of merged functions that stay open for that
        self.root = State(self, resolver.root)
        self._places = FramePlaces(resolver.process, images, located, recorded.root)
        self._lost = LostCallers(losses, resolver.places, self._places)
        self._states: dict[tuple[Step, RecordedFrame, bool, bool], State] = {}
        self._entered: dict[
            tuple[RecordedFrame, bool], State
        ] = {}  # the same after each call that leads straight there
        self._recorded: dict[tuple[RecordedFrame, Answer], Answer] = {}

    def after(self, caller: State, frame: RecordedFrame, is_first: bool) -> State:
        """Return the state of a frame after that of its caller; `is_first`: no frame lies inwards of it."""
        entered = self._entered.get((frame, is_first))
        if entered is not None and entered.step.body is not None and caller.step.enters(entered.step.body):
            return entered
        address, is_pc = self._places.address(frame), is_first or frame.is_exact
        if address is None and frame.address is None and is_first:
            address = _called(caller.step, frame.name)
        sampled: Sampled = Marked(address, 0, True) if is_pc and not is_first and address is not None else address
        step = self.resolver.step(caller.step, sampled, is_first)
        is_cut = False
        if step.depends_on_caller and address is not None:
            callee = caller.frame.callee
            is_cut = not self._lost.was_called(frame, is_pc, callee)
            losses = Losses.NONE if is_cut or callee else self._lost.between(frame, is_pc)
            if losses is not Losses.NONE:
                sampled = Marked(address, 0, is_pc and not is_first, losses)
            if is_cut or losses is not Losses.NONE:
                step = self.resolver.step(self.resolver.root if is_cut else caller.step, sampled, is_first)
        key = step, frame, is_first, is_cut
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= _KEPT:
                self._states.clear()
                self._entered.clear()
            state = self._states[key] = State(self, step, frame, is_cut=is_cut)
            self.fresh.append(step.answer)
            if step.body is not None and not step.depends_on_caller:
                self._entered[frame, is_first] = state
        return state

    def of_whole(self, sample: Sample, states: Sequence[State]) -> list[Answer]:
        """Return the answers for a stack that follow from all of it, in the address space of all images.

        `states` are those of its frames, innermost first; none if it has vtable pointers.
        """
        if sample.vptrs or any(state.step.is_trampoline for state in states):
            answers = self._with_marks(sample)
        else:
            answers = self._swept(states)
        self.fresh += answers
        return answers

    def answered(self, sample: Sample, answers: Sequence[Answer]) -> StackAnswers:
        """Return the answers for a stack with the addresses of the recording."""
        return StackAnswers([self.answer(*pair) for pair in zip(sample.frames, answers, strict=True)])

    def address(self, frame: RecordedFrame) -> int | None:
        """Return where a frame lies in the address space of all images; None if it is in none of them."""
        return self._places.address(frame)

    def _swept(self, states: Sequence[State]) -> list[Answer]:
        """Return the answers for a stack in which some frame restricts its caller."""
        answers: list[Answer] = []
        start = 0
        for end, state in enumerate(states, 1):
            if state.is_cut or end == len(states):
                answers += self.resolver.answers([each.step for each in states[start:end]])
                start = end
        return answers

    # Stacks whose frames are not what their addresses alone say

    def _with_marks(self, sample: Sample) -> list[Answer]:
        answers: list[Answer] = []
        for first, part in self.marked_parts(sample):
            answers += self.resolver.resolve(part.addresses, part.vptrs, part.exact)[first:]
        return answers

    def marked_parts(self, sample: Sample) -> Iterator[tuple[int, Stack]]:
        """Yield the stack of a sample in parts, cut where frames may be missing, and the first frame of each in them.

        Nothing is known of what called the last frame of a part.
        """
        frames = sample.frames
        vptrs = tuple([(idx, self._places.moved(vptr)) for idx, vptr in sample.vptrs])
        start = 0
        for idx, (frame, caller) in enumerate(zip(frames, (*frames[1:], None), strict=True)):
            is_pc = frame.is_exact or (idx == 0 and not sample.is_called)
            if self._lost.may_be(frame, is_pc, caller.callee if caller else 0) or caller is None:
                yield self._part(sample, vptrs, start, idx + 1)
                start = idx + 1

    def _part(self, sample: Sample, vptrs: tuple[tuple[int, int], ...], start: int, end: int) -> tuple[int, Stack]:
        first = 0
        part = [self._places.address(frame) for frame in sample.frames[start:end]]
        if start or sample.is_called:  # the first address follows a call, too: something unknown was called
            part.insert(0, None)
            first = 1
        exact = [idx - start + first for idx in range(start, end) if idx and sample.frames[idx].is_exact]
        moved = tuple([(idx - start + first, vptr) for idx, vptr in vptrs if start <= idx < end])
        return first, Stack(tuple(part), 1, moved, tuple(exact))

    # Why the answers are what they are

    def explained(self, sample: Sample, answers: Sequence[Answer]) -> Facts:
        """Return the facts on which the answers for a stack rest, with the addresses of the recording."""
        states: list[State] = []
        state = self.root
        for idx in range(len(sample.frames) - 1, -1, -1):
            state = self.after(state, sample.frames[idx], idx == 0 and not sample.is_called)
            states.insert(0, state)
        facts: Facts = []
        if sample.vptrs or any(each.step.is_trampoline for each in states):
            for first, part in self.marked_parts(sample):
                found = self.resolver.resolve(part.addresses, part.vptrs, part.exact)
                facts += explain(self.resolver, part, found)[first:]
        else:
            start = 0
            for end, each in enumerate(states, 1):
                if each.is_cut or end == len(states):
                    facts += explain_steps([part.step for part in states[start:end]], answers[start:end])
                    start = end
        return [[_ADDRESS.sub(self._as_recorded, fact) for fact in frame] for frame in facts]

    def _as_recorded(self, address: re.Match[str]) -> str:
        return f"{self._places.back(int(address[0], 16)):#x}"

    # Answers with the addresses of the recording

    def answer(self, frame: RecordedFrame, answer: Answer) -> Answer:
        """Return the answer for a frame, with the addresses of the recording."""
        known = self._recorded.get((frame, answer))
        if known is None:
            if len(self._recorded) >= _KEPT:
                self._recorded.clear()
            known = self._recorded[frame, answer] = self._made(frame, answer)
        return known

    def _made(self, frame: RecordedFrame, answer: Answer) -> Answer:
        if answer.address is None:
            if frame.is_certain:
                frames = (Frame(frame.name, frame.file, frame.line, 0, False),) if frame.file else None
                return Answer(frame.address, Verdict.UNMERGED, frame.name or None, frames=frames)
            path = self._places.unknown_path(frame)
            recorded = Answer(frame.address, Verdict.UNKNOWN, reason=NO_MODULE, module=path)
        elif answer.address == frame.address and answer.is_named and not self._places.are_moved:
            return answer
        else:
            recorded = self._places.as_recorded(answer)
            recorded.address = frame.address
        if recorded.verdict is Verdict.UNKNOWN:
            recorded.recorded_name = frame.name
        elif frame.address is None:
            recorded.set_frames((Frame(recorded.name or "", frame.file, frame.line, 0, False),))
        elif recorded.reason is NO_CALLER and self._lost.was(frame):
            recorded.reason = LOST_CALLER
        if recorded.reason is LOST_CALLER:
            self.lost_callers.add(frame)
        return recorded


def _called(caller: Step, name: str) -> int | None:
    """Return where the function starts that a frame calls directly; None if no function there has this name."""
    if caller.body is None or not caller.return_address or not name:
        return None
    program = caller.body.program
    target = program.code.call_site(caller.return_address).target
    called = program.body_at(target) if target else None
    if called is None or called.start != target:
        return None
    names = {demangle(each.name) for each in called.members}
    return target + program.bias if name in names.union(map(qualified_name, names)) else None
