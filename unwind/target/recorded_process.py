"""The stacks of one process of a recording: cut where frames may be missing, answered with the recording's addresses.

Where frames may be missing (`Losses`), a stack is cut: what stands on one side of a gap says nothing about the other. A
walk along frame pointers leaves out the caller of each function that has no frame at its address, as its code and its
call frame information show. A call that the
processor noted is certain: it is the caller of the function that it led to, and of no other.

Stacks share their outer frames, so they are kept as a tree, from the outermost frame inwards:

    (root) --main--> run --a--> grow      a frame is looked up once after these callers, however many samples have it
                         --b--> grow

Only two kinds of stacks need more than that: where a frame restricts its caller, and where the frames outwards say how
an address is meant, by a vtable pointer or after the trampoline of a signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from icf.model import RuntimeAddr, Verdict
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
        self._images, self._root, self._losses = images, root, losses
        self._addresses: dict[RecordedFrame, int | None] = {}  # in the address space of all images
        self._recorded: dict[tuple[RecordedFrame, Answer], Answer] = {}
        self._met: tuple[dict[RecordedFrame, _Met], dict[RecordedFrame, _Met]] = {}, {}  # further out; the first
        self._losing: dict[tuple[RecordedFrame, bool], bool] = {}  # may its caller be missing; is it a program counter
        self._clear()
        # start and end of each place, and what to add to an address there to get one of the process
        self._moves = [(each.image.start, each.image.end, -each.to_linked - each.image.bias) for each in located]
        self._placed = [each.image for each in located]
        self._is_moved = any(move for _, _, move in self._moves)

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
        known = self._addresses
        if frame not in known:
            if len(known) >= _KEPT:
                known.clear()
            known[frame] = None
            if frame.address is not None and frame.module is not None:
                address = self._images.address(frame.address, frame.module, self._root, in_call=frame.in_call)
                known[frame] = self._returns_to(address) if frame.callee and address is not None else address
        return known[frame]

    def _returns_to(self, call: int) -> int | None:
        """Return where a call returns to, by the address of its first byte; None if no call is there."""
        process = self.resolver.process
        module = process.module_at(RuntimeAddr(call))
        if module is None:
            return None
        end = process.program(module).code.call_end(module.linked(RuntimeAddr(call)))
        return end + module.bias if end else None

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
        is_cut = self._may_lose_caller(frame, met.address, is_first or frame.is_exact, callee) if callee else met.is_cut
        step = self.resolver.step(self.resolver.root if is_cut else caller.step, met.sampled, is_first)
        node = _Node(frame, caller, step, is_cut)
        if met.address in self.resolver.places.trampolines:
            node.is_marked = True
        if node.is_marked:
            node.is_plain = False
        self.fresh.append(step.answer)
        return node

    def _meet(self, frame: RecordedFrame, is_first: bool) -> _Met:
        address = self.address(frame)
        is_exact = is_first or frame.is_exact
        sampled = Marked(address, 0, True) if is_exact and not is_first and address is not None else address
        known = self._met[is_first]
        if len(known) >= _KEPT:
            known.clear()
        known[frame] = met = _Met(sampled, address, self._may_lose_caller(frame, address, is_exact, 0))
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
        vptrs = tuple([(idx, self._moved(vptr)) for idx, vptr in sample.vptrs])
        answers: list[Answer] = []
        start = 0
        for idx, (frame, caller) in enumerate(zip(frames, (*frames[1:], None), strict=True)):
            is_pc = frame.is_exact or (idx == 0 and not sample.is_called)
            if self._may_lose_caller(frame, self.address(frame), is_pc, caller.callee if caller else 0) or not caller:
                answers += self._part_with_marks(sample, vptrs, start, idx + 1)
                start = idx + 1
        return answers

    def _part_with_marks(
        self, sample: Sample, vptrs: tuple[tuple[int, int], ...], start: int, end: int
    ) -> tuple[Answer, ...]:
        """Return the answers for the frames `start:end`; nothing is known of what called the last one."""
        first = 0
        part = [self.address(frame) for frame in sample.frames[start:end]]
        if start or sample.is_called:  # the first address follows a call, too: something unknown was called
            part.insert(0, None)
            first = 1
        exact = [idx - start + first for idx in range(start, end) if idx and sample.frames[idx].is_exact]
        moved = tuple([(idx - start + first, vptr) for idx, vptr in vptrs if start <= idx < end])
        return self.resolver.resolve(part, moved, exact)[first:]

    # Callers that may be missing

    def _may_lose_caller(self, frame: RecordedFrame, address: int | None, is_pc: bool, callee: int) -> bool:
        """Return whether the caller of a frame may be missing; the one that is there has called `callee`, if not 0."""
        if self._losses is Losses.NONE:
            return False
        if callee:
            return not self._is_entered(address, is_pc, callee)
        if self._losses is Losses.ANY:
            return True
        known = self._losing.get((frame, is_pc))
        if known is None:
            if len(self._losing) >= _KEPT:
                self._losing.clear()
            known = self._losing[frame, is_pc] = address is not None and not self._has_frame(address, is_pc)
        return known

    def _is_entered(self, address: int | None, is_pc: bool, callee: int) -> bool:
        """Return whether the function at an address is the one that a call led to."""
        if address is None:
            return False
        body = self.resolver.places.of(address, is_pc).body
        entered = self.resolver.places.of(self._moved(callee), True)
        return body is not None and entered.body is body and entered.vaddr == body.start

    def _has_frame(self, address: int, is_pc: bool) -> bool:
        """Return whether a walk along frame pointers finds the caller of the function at an address."""
        place = self.resolver.places.of(address, is_pc)
        if place.body is None:
            return False
        code = place.body.program.code
        if code.has_frame(place.body.start, place.vaddr, is_called=not is_pc and place.return_address != 0):
            return True
        image = next((each for each in self._placed if each.start <= address < each.end), None)
        return image is not None and image.has_frame(place.vaddr)

    def _loses_caller(self, frame: RecordedFrame) -> bool:
        """Return whether a frame was met whose caller may be missing."""
        return self._losses is Losses.ANY or any(self._losing.get((frame, is_pc), False) for is_pc in (True, False))

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
            recorded = Answer(frame.address, Verdict.UNKNOWN, reason=NO_MODULE, module=self._path(frame))
        else:
            recorded = self._moved_back(answer)
            recorded.address = frame.address
        if recorded.verdict is Verdict.UNKNOWN:
            recorded.recorded_name = frame.name
        elif recorded.reason is NO_CALLER and self._loses_caller(frame):
            recorded.reason = LOST_CALLER
            self.lost_callers.add(frame)
        return recorded

    def _path(self, frame: RecordedFrame) -> str:
        """Return the path of the module of an unknown frame; "" if its image is known, and has nothing there."""
        if frame.module is None or self._images.locate(frame.module, self._root) is not None:
            return ""
        return frame.module.path

    def _moved_back(self, answer: Answer) -> Answer:
        """Return a copy of an answer, with the addresses of this process."""
        recorded = answer.copy()
        if self._is_moved:
            if answer.address is not None:
                recorded.address = self._back(answer.address)
            if answer.size_bytes:
                recorded.start = self._back(answer.start)
            recorded.missing = tuple(self._moved_back(each) for each in answer.missing)
            if answer.reason is not None and answer.reason.address is not None:
                recorded.reason = answer.reason._replace(address=self._back(answer.reason.address))
        return recorded

    def _moved(self, address: int) -> int:
        """Return the place of an address of this process."""
        for start, end, move in self._moves:
            if start <= address - move < end:
                return address - move
        return address

    def _back(self, address: int) -> int:
        for start, end, move in self._moves:
            if start <= address <= end:
                return address + move
        return address
