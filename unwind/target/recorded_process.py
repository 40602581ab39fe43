"""The stacks of one process of a recording: cut where frames may be missing, answered with the recording's addresses.

Where frames may be missing (`lost_callers`), a stack is cut: what stands on one side of a gap says nothing about the
other.

Stacks share their outer frames, so they are kept as a tree, from the outermost frame inwards:

    (root) --main--> run --a--> grow      a frame is looked up once after these callers, however many samples have it
                         --b--> grow

Only two kinds of stacks need more than that: where a frame restricts its caller, and where the frames outwards say how
an address is meant, by a vtable pointer or after the trampoline of a signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from icf.model import Verdict
from unwind.program.frame import Frame
from unwind.resolve.chain import Step
from unwind.resolve.places import Marked, Sampled
from unwind.resolve.reasons import LOST_CALLER, NO_CALLER
from unwind.resolve.resolved import AnsweredCall, StackAnswers
from unwind.resolve.resolver import Resolver
from unwind.samples.calls import Call, CallStack
from unwind.samples.recording import Losses, RecordedFrame, Sample
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import NO_MODULE
from unwind.target.frame_places import FramePlaces
from unwind.target.lost_callers import LostCallers
from unwind.target.recorded_images import Located, RecordedImages

_KEPT = 1 << 20


class _Node(AnsweredCall):
    """A frame after its callers; the root stands for a caller that is not known."""

    __slots__ = ("first", "inwards", "is_cut", "is_marked", "is_plain", "step")

    def __init__(self, frame: RecordedFrame | None, caller: _Node | None, step: Step, is_cut: bool) -> None:
        super().__init__(frame, caller)
        self.step = step
        self.is_cut = is_cut  # its caller may be missing
        # this frame or an outer one is the trampoline of a signal
        self.is_marked: bool = caller is not None and caller.is_marked
        # neither this frame nor any outer one restricts its caller
        self.is_plain: bool = caller is None or (caller.is_plain and step.plain)
        self.inwards: dict[RecordedFrame, _Node] = {}
        self.first: dict[RecordedFrame, _Node] = {}  # those that are the first of a stack


class _Met(NamedTuple):
    """What is known of a frame whatever called it."""

    sampled: Sampled  # in the address space of all images
    address: int | None
    is_cut: bool  # its caller may be missing, unless the processor has noted the call


class Found(NamedTuple):
    """What is known of a stack, innermost frame first: the frames after their callers, or answers if those differ."""

    nodes: Sequence[_Node]
    answers: Sequence[Answer]


class ProcessStacks:
    """One process: its resolver, what is known of its frames, and how far its modules lie from their places."""

    def __init__(
        self, resolver: Resolver, images: RecordedImages, located: Sequence[Located], root: str, losses: Losses
    ) -> None:
        self.resolver = resolver
        self.stacks: dict[object, StackAnswers] = {}  # of whole stacks; kept by the caller
        self.fresh: list[Answer] = []  # what was looked up since the caller emptied this list
        self.lost_callers: set[RecordedFrame] = set()  # frames of merged functions that stay open for that
        self._places = FramePlaces(resolver.process, images, located, root)
        self._lost = LostCallers(losses, resolver.places, self._places)
        self._met: tuple[dict[RecordedFrame, _Met], dict[RecordedFrame, _Met]] = {}, {}  # further out; the first
        self._recorded: dict[tuple[RecordedFrame, Answer], Answer] = {}
        self._clear()

    def look_up(self, sample: Sample) -> Found:
        """Return what is known of a stack, in the address space of all images."""
        nodes = self._walk(sample.frames, sample.is_called) if not sample.vptrs else ()
        if nodes and nodes[0].is_plain:
            return Found(nodes, ())
        answers = self._swept(nodes) if nodes and not nodes[0].is_marked else self._with_marks(sample)
        self.fresh += answers
        return Found(nodes, answers)

    def as_recorded(self, frames: Sequence[RecordedFrame], found: Found) -> StackAnswers:
        """Return the answers for a stack, with the addresses of the recording."""
        if found.answers:
            pairs = zip(frames, found.answers, strict=True)
            return StackAnswers([self._answer(frame, answer) for frame, answer in pairs])
        answers = StackAnswers([node.answer or self._of_node(node) for node in found.nodes])
        if found.nodes:
            answers.call = found.nodes[0]
        return answers

    def address(self, frame: RecordedFrame) -> int | None:
        """Return where a frame lies in the address space of all images; None if it is in none of them."""
        return self._places.address(frame)

    # The tree

    def _clear(self) -> None:
        self._tree = _Node(None, None, self.resolver.root, is_cut=False)
        self._node_count = 0
        self._calls: dict[Call, _Node] = {}

    def _walk(self, frames: Sequence[RecordedFrame], is_called: bool) -> list[_Node]:
        """Return the frames of a stack after their callers, innermost first."""
        if isinstance(frames, CallStack):
            return self._of_call(frames.call)
        nodes: list[_Node] = []
        node = self._tree
        try:
            for frame in frames[:0:-1]:
                node = node.inwards[frame]
                nodes.append(node)
            if frames:
                nodes.append((node.inwards if is_called else node.first)[frames[0]])
        except KeyError:  # a frame that is new after these callers
            self._go_on(nodes, frames, is_called)
        nodes.reverse()
        return nodes

    def _of_call(self, call: Call) -> list[_Node]:
        """Return the frames of a stack that shares its calls with others, which all have exact innermost frames."""
        if self._node_count > _KEPT:
            self._clear()
        known = self._calls
        new: list[Call] = []
        at: Call | None = call
        while at is not None and at not in known:
            new.append(at)
            at = at.caller
        node = self._tree if at is None else known[at]
        for each in reversed(new):
            node = known[each] = self._after(node, each.frame, False)
        self._node_count += len(new)
        nodes = []
        while node.caller is not None:
            nodes.append(node)
            node = node.caller
        return nodes

    def _go_on(self, nodes: list[_Node], frames: Sequence[RecordedFrame], is_called: bool) -> None:
        """Add to `nodes`, the outermost frames of a stack, all others."""
        if self._node_count >= _KEPT:
            self._clear()
            nodes.clear()
        node = nodes[-1] if nodes else self._tree
        for idx in range(len(frames) - 1 - len(nodes), -1, -1):
            node = self._inwards(node, frames[idx], idx == 0 and not is_called)
            nodes.append(node)

    def _inwards(self, caller: _Node, frame: RecordedFrame, is_first: bool) -> _Node:
        known = caller.first if is_first else caller.inwards
        node = known.get(frame)
        if node is None:
            node = known[frame] = self._after(caller, frame, is_first)
            self._node_count += 1
        return node

    def _after(self, caller: _Node, frame: RecordedFrame, is_first: bool) -> _Node:
        met = self._met[is_first].get(frame) or self._meet(frame, is_first)
        callee = caller.frame.callee if caller.frame is not None else 0
        is_cut = self._lost.may_be(frame, is_first or frame.is_exact, callee) if callee else met.is_cut
        step = self.resolver.step(self.resolver.root if is_cut else caller.step, met.sampled, is_first)
        node = _Node(frame, caller, step, is_cut)
        if met.address in self.resolver.places.trampolines:
            node.is_marked = True
        if node.is_marked:
            node.is_plain = False
        self.fresh.append(step.answer)
        return node

    def _meet(self, frame: RecordedFrame, is_first: bool) -> _Met:
        address = self._places.address(frame)
        is_exact = is_first or frame.is_exact
        sampled = Marked(address, 0, True) if is_exact and not is_first and address is not None else address
        known = self._met[is_first]
        if len(known) >= _KEPT:
            known.clear()
        known[frame] = met = _Met(sampled, address, self._lost.may_be(frame, is_exact))
        return met

    def _swept(self, nodes: Sequence[_Node]) -> list[Answer]:
        """Return the answers for a stack in which some frame restricts its caller."""
        answers: list[Answer] = []
        start = 0
        for end, node in enumerate(nodes, 1):
            if node.is_cut or end == len(nodes):
                answers += self.resolver.answers([each.step for each in nodes[start:end]])
                start = end
        return answers

    # Stacks whose frames are not what their addresses alone say

    def _with_marks(self, sample: Sample) -> list[Answer]:
        frames = sample.frames
        vptrs = tuple([(idx, self._places.moved(vptr)) for idx, vptr in sample.vptrs])
        answers: list[Answer] = []
        start = 0
        for idx, (frame, caller) in enumerate(zip(frames, (*frames[1:], None), strict=True)):
            is_pc = frame.is_exact or (idx == 0 and not sample.is_called)
            if self._lost.may_be(frame, is_pc, caller.callee if caller else 0) or caller is None:
                answers += self._part_with_marks(sample, vptrs, start, idx + 1)
                start = idx + 1
        return answers

    def _part_with_marks(
        self, sample: Sample, vptrs: tuple[tuple[int, int], ...], start: int, end: int
    ) -> tuple[Answer, ...]:
        """Return the answers for the frames `start:end`; nothing is known of what called the last one."""
        first = 0
        part = [self._places.address(frame) for frame in sample.frames[start:end]]
        if start or sample.is_called:  # the first address follows a call, too: something unknown was called
            part.insert(0, None)
            first = 1
        exact = [idx - start + first for idx in range(start, end) if idx and sample.frames[idx].is_exact]
        moved = tuple([(idx - start + first, vptr) for idx, vptr in vptrs if start <= idx < end])
        return self.resolver.resolve(part, moved, exact)[first:]

    # Answers with the addresses of the recording

    def _of_node(self, node: _Node) -> Answer:
        assert node.frame is not None
        node.answer = self._answer(node.frame, node.step.answer)
        return node.answer

    def _answer(self, frame: RecordedFrame, answer: Answer) -> Answer:
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
        else:
            recorded = self._places.as_recorded(answer)
            recorded.address = frame.address
        if recorded.verdict is Verdict.UNKNOWN:
            recorded.recorded_name = frame.name
        elif recorded.reason is NO_CALLER and self._lost.was(frame):
            recorded.reason = LOST_CALLER
            self.lost_callers.add(frame)
        return recorded
