"""Resolve the frames of a stack: the exact set of members that each can be.

    from unwind import open_resolver

    resolver = open_resolver("shop")
    for frame in resolver.resolve((0x8e5, 0x8f5, 0x90f, 0x74a)):     # link-time return addresses, innermost first
        print(frame.verdict.value, frame.name or frame.linkage_names)

A stack is a chain: each frame restricts the one that it called, and is restricted by it. For a chain one
sweep in each direction finds, for every frame, exactly the members that it takes in at least one
assignment of the whole stack in which every pair is allowed:

    outermost -> innermost    what some possible caller allows (`unwind.resolve.chain`)
    innermost -> outermost    without the callers that allow nothing of what is left below them

so evidence flows both ways. Where the first sweep comes to a pair that allows nothing, its two frames are
`contradicted`, the pair is cut, and both sides are resolved without it. The second sweep is left out where
no step says anything about its caller, which is known from the first.

docs/benchmarks.md has the measured rates; `make bench` measures them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from unwind.process.process import Process
from unwind.program.program import Program
from unwind.resolve.chain import Chains, Step
from unwind.resolve.places import Marked, Place, Places, Sampled, has_frame
from unwind.resolve.vptrs import Trust, Vptrs
from unwind.resolve.walk import Walk
from unwind.samples.recording import Losses
from unwind.symbolize.answer import Answer

Addresses = tuple[int | None, ...]
Exact = tuple[int, ...]  # frames, by index
Answers = tuple[Answer, ...]


class Resolver:
    """Resolves the stacks of one program, or of a process with several modules. `unwind.open_resolver` makes one.

    Args:
        process: the modules of a process, or the one program of an image.
        step_limit: how many steps, and answers for them, it remembers.
        address_limit: how many addresses of whole stacks it remembers.
        use_vptrs: whether vtable pointers count.
        losses: which frames the stacks that `resolve` gets may lack.
    """

    def __init__(
        self,
        process: Process | Program,
        step_limit: int = 1 << 20,
        address_limit: int = 1 << 22,
        *,
        use_vptrs: bool = True,
        losses: Losses = Losses.NONE,
    ) -> None:
        self.use_vptrs, self.losses = use_vptrs, losses
        self.process = process if isinstance(process, Process) else Process.of(process)
        self._step_limit, self._address_limit = step_limit, address_limit
        self.places = Places(self.process)
        self._trust = Trust(self.places.of)
        self._stacks: dict[Addresses | tuple[Addresses, Vptrs, Exact], Answers] = {}
        self._address_count = 0
        self._begin()

    def _begin(self) -> None:
        """Forget all steps."""
        self._chains = Chains(self.process, self.places)
        self._walk = Walk(self._chains.root, self._step_lossy, self._is_held)

    def resolve(self, addresses: Sequence[int | None], vptrs: Vptrs = (), exact: Collection[int] = ()) -> Answers:
        """Return an answer for each frame of a stack, innermost first.

        Args:
            addresses: the program counter, then return addresses, raw or less one; None for a frame outside of the
            image.
                Link-time addresses, or run-time addresses if the modules of a process are known.
            vptrs: (frame index, vtable pointer of its `this`); `unwind.read_vptrs` reads them.
            exact: indices of further frames whose address is a program counter: those that a signal interrupted. If the
                trampoline of the signal handler is in a known module, the frame outwards of it needs no mark.

        Returns:
            One answer for each address, in the same order.

        Raises:
            IcfError: an image or symcache that an answer needs cannot be read.
        """
        stack = tuple(addresses)
        known_exact = tuple(exact)
        key = (stack, vptrs, known_exact) if vptrs or known_exact else stack
        answers = self._stacks.get(key)
        if answers is None:
            if key is stack:
                answers = self._walk.answers(stack)
            if answers is None:
                answers = self._marked(stack, vptrs, known_exact)
            self._remember(key, answers)
        return answers

    def steps(self, addresses: Addresses, vptrs: Vptrs = (), exact: Exact = ()) -> list[Step]:
        """Return the steps of the answers for a stack, innermost first.

        Args:
            addresses: as for `resolve`.
            vptrs: as for `resolve`.
            exact: as for `resolve`.

        Returns:
            One step for each address: what its caller left of its candidates (`unwind.resolve.chain`).
        """
        self._marked(addresses, vptrs, exact)
        return self._walk.steps(self._mark(addresses, vptrs, exact))

    def _marked(self, addresses: Addresses, vptrs: Vptrs, exact: Exact) -> Answers:
        """Return the answers for a stack some frames of which may not be addresses alone."""
        known_count = -1
        frames: tuple[Sampled, ...] = ()
        answers = None
        while len(self.places.trampolines) != known_count:  # once more, with the trampolines that the walk has found
            known_count = len(self.places.trampolines)
            frames = self._mark(addresses, vptrs, exact)
            answers = self._walk.answers(frames)
        return self.answers(self._walk.steps(frames)) if answers is None else answers

    @property
    def root(self) -> Step:
        """The step that stands for a caller which is not known."""
        return self._chains.root

    def step(self, caller: Step, frame: Sampled, is_pc: bool) -> Step:
        """Return the step to a frame from that of its caller, for stacks that are walked frame by frame.

        Args:
            caller: the step of its caller, or `root`.
            frame: its address, None outside of all images; `Marked` if that is a program counter further out.
            is_pc: whether it is the innermost frame.

        Returns:
            The step; `answers` has what the steps of a whole stack mean.
        """
        if self._chains.size + self._walk.size > self._step_limit:
            self._begin()
        return self._chains.step(caller, frame, is_pc)

    def answers(self, steps: Sequence[Step]) -> Answers:
        """Return the answers for a stack that was walked frame by frame.

        Args:
            steps: of its frames, innermost first.

        Returns:
            One answer for each step, in the same order.
        """
        for step in steps:
            if not step.plain:
                return self._sweep_back(steps)
        return tuple([step.answer for step in steps])

    def _step_lossy(self, caller: Step, frame: Sampled, is_pc: bool) -> Step:
        """Return the step to a frame whose caller may be missing, if `losses` and its code say so."""
        if self.losses is not Losses.NONE and frame is not None:
            mark = frame if isinstance(frame, Marked) else Marked(frame)
            if self._may_lack_caller(self.places.of(mark.address, mark.is_exact or is_pc)):
                frame = mark._replace(losses=self.losses)
        return self.step(caller, frame, is_pc)

    def _may_lack_caller(self, place: Place) -> bool:
        return self.losses is Losses.ANY or not has_frame(place)

    def _is_held(self, step: Step) -> bool:
        return not step.plain or step.is_trampoline

    def _mark(self, addresses: Addresses, vptrs: Vptrs, exact: Exact) -> tuple[Sampled, ...]:
        """Return the addresses, each with its vtable pointer if that counts, and with a mark if it is exact."""
        frames: tuple[Sampled, ...] = addresses
        if exact:
            frames = tuple(
                Marked(address, 0, True) if idx in exact and idx > 0 and address is not None else address
                for idx, address in enumerate(addresses)
            )
        if not self.places.trampolines.isdisjoint(addresses):
            frames = self._after_signals(frames)
        if vptrs and self.use_vptrs:
            frames = self._trust.frames(frames, vptrs)
        return frames

    def _after_signals(self, frames: tuple[Sampled, ...]) -> tuple[Sampled, ...]:
        """Return the frames, with a mark at each one outwards of a signal trampoline."""
        marked: list[Sampled] = []
        is_outwards = False
        for idx, frame in enumerate(frames):
            if frame is None:
                marked.append(None)
                is_outwards = False
                continue
            mark = frame if isinstance(frame, Marked) else Marked(frame)
            is_exact = mark.is_exact or is_outwards
            marked.append(mark._replace(is_exact=True) if is_exact else frame)
            is_outwards = self.places.of(mark.address, is_exact or idx == 0).is_trampoline
        return tuple(marked)

    def _remember(self, key: Addresses | tuple[Addresses, Vptrs, Exact], answers: Answers) -> None:
        """Keep the answers for a stack, unless it has more addresses than all that are kept may have."""
        count, limit = len(answers), self._address_limit
        if count <= limit:
            self._address_count += count
            if self._address_count > limit:
                self._stacks.clear()
                self._address_count = count
            self._stacks[key] = answers

    def _sweep_back(self, steps: Sequence[Step]) -> Answers:
        """Return the answers for a stack in which some frame restricts its caller."""
        chains = self._chains
        answers = []
        inner: Step | None = None
        inner_left = 0
        for idx, (step, (left, callers)) in enumerate(zip(steps, left_over(steps), strict=True)):
            outer = steps[idx + 1] if idx + 1 < len(steps) else None
            if step.body is None or step.body.settled:
                answers.append(step.answer)
            elif step.broken:
                answers.append(chains.contradiction(step, step, left, steps[idx + 2] if idx + 2 < len(steps) else None))
            elif inner is not None and inner.broken:
                answers.append(chains.contradiction(step, inner, left, outer))
            elif left != step.possible and inner is not None:
                answers.append(chains.answer(step, left, callers, (inner, inner_left)))
            elif outer is None or callers == outer.possible:
                answers.append(step.answer)
            else:
                answers.append(chains.answer(step, left, callers, None))
            inner, inner_left = step, left
        return tuple(answers)


def left_over(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Return the remaining candidates of each frame and of its caller; innermost first."""
    found = []
    left = steps[0].possible if steps else 0
    for idx, step in enumerate(steps):
        callers = steps[idx + 1].possible if idx + 1 < len(steps) else 0
        if step.relation is not None and not step.broken:
            callers = step.relation.backward(callers, left)
        found.append((left, callers))
        left = callers
    return found
