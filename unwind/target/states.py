"""What is known of frames after their callers, for all stacks of a tree of calls.

    node of the tree ──> state: the frame, the resolver's step, whether its caller may be missing

A frame is looked up once after each state of a caller that it was met with; all else is done by a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from icf.columns import U64, Mask
from unwind.resolve.chain import Step
from unwind.resolve.resolved import NO_ANSWER, NO_FRAME, NO_PROCESS, AnsweredTree, StackAnswers
from unwind.samples import columns as c
from unwind.samples._tree import answers_along, follow, insert, refill
from unwind.samples.calls import CallTree
from unwind.samples.path_tree import zeros
from unwind.samples.recording import RecordedFrame, RecordedProcess
from unwind.symbolize.answer import Answer

_TURNS = 1 << 12  # room for half as many at the beginning


class OneProcess(Protocol):
    """What finds the states of the frames of one process."""

    recorded: RecordedProcess
    root: State  # of the unknown caller of outermost frames

    def after(self, caller: State, frame: RecordedFrame, is_first: bool) -> State:
        """Return the state of a frame after that of its caller; `is_first`: no frame lies inwards of it."""

    def answer(self, frame: RecordedFrame, answer: Answer) -> Answer:
        """Return the answer for a frame, with the addresses of the recording."""


class State:
    """A frame after callers that leave the same of its candidates; that of a root stands for an unknown caller."""

    __slots__ = ("frame", "is_cut", "is_held", "process", "step")

    def __init__(
        self,
        process: OneProcess,
        step: Step,
        frame: RecordedFrame = NO_FRAME,
        *,
        is_cut: bool = False,
    ) -> None:
        self.process, self.step, self.frame = process, step, frame
        self.is_cut = is_cut  # its caller may be missing
        # the answers follow from the whole stack: this frame restricts its caller, or changes what an address means
        self.is_held = step.is_trampoline or not step.plain


class TreeStates(AnsweredTree):
    """The states of the nodes of one tree."""

    def __init__(self, calls: CallTree) -> None:
        super().__init__(calls)
        self._all: list[State | None] = [None]
        self._numbers: dict[State, int] = {}
        self._turns = zeros(_TURNS, 2)
        self._turn_count = 0

    @property
    def count(self) -> int:
        """How many steps from a state to a frame inwards of it there are, at least one for each state."""
        return self._turn_count

    def look_up(self, nodes: U64, processes: Iterable[OneProcess]) -> Mask:
        """Find the states of stacks of some processes; return for each whether its answers are those of its states."""
        calls = self.calls
        roots = {process: calls.root(process.recorded) for process in processes}
        if len(self.states) < len(calls.nodes):
            more = np.zeros(len(calls.nodes), np.uint32).data
            more[: len(self.states)] = self.states
            self.states = more
        for process, node in roots.items():
            self.states[node] = self._number(process.root)
        path = zeros(calls.depth)
        calls.state[c.AT] = 0
        while not follow(nodes.data, calls.nodes, self.states, self._turns, path, calls.state):
            self._add_turn(calls.state[c.WANTED_CALLER], calls.state[c.WANTED_NUMBER])
        is_plain: Mask = (np.asarray(self.states)[nodes] & np.uint32(c.HELD)) == 0
        return is_plain

    def answers_of(self, nodes: Sequence[int]) -> list[StackAnswers]:
        """Return the answers for stacks whose answers are those of their states."""
        self.fill()
        found = []
        wanted = np.array(nodes, np.uint64).data
        for node, answers in zip(
            nodes, answers_along(wanted, self.calls.nodes, self.states, self.answers), strict=True
        ):
            stack = StackAnswers(answers)
            stack.tree, stack.node = self, node
            found.append(stack)
        return found

    def states_of(self, node: int) -> list[State]:
        """Return the states of a stack, innermost first."""
        return [state for state in self.along(node, self._all) if state is not None]

    def fill(self) -> None:
        """Set the answers of states that are new."""
        for state in self._all[len(self.answers) :]:
            if state is None or state.frame is NO_FRAME:
                self.frames.append(NO_FRAME)
                self.answers.append(NO_ANSWER)
                self.processes.append(NO_PROCESS)
            else:
                self.frames.append(state.frame)
                self.processes.append(state.process.recorded)
                self.answers.append(state.process.answer(state.frame, state.step.answer))

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._all)
            self._all.append(state)
        return number

    def _add_turn(self, caller_number: int, number: int) -> None:
        """Store what a frame means after a state."""
        caller = self._all[caller_number]
        assert caller is not None
        state = caller.process.after(caller, self.calls.frames[number], self.calls.is_first[number])
        self._turn_count += 1
        if 2 * self._turn_count > len(self._turns):
            larger = zeros(2 * len(self._turns), 2)
            refill(self._turns, larger)
            self._turns = larger
        held = c.HELD if state.is_held else 0
        insert(self._turns, caller_number << c.NUMBER_BITS | number, self._number(state) | held)
