"""The steps of all stacks of a resolver by number, and the table in which a kernel follows them.

A stack is a walk in the automaton of `unwind.resolve.chain`, and nearly all of what it walks along has been walked
before, also by a stack that is new. So the automaton is a hash table (`unwind.resolve.columns`), in which the kernel
follows a stack without Python; a step that the table lacks is made, and the kernel goes on from there.

    0x401136, 0x401180, 0x4011f0 ──kernel──> steps 1 2 5 9 ──> answers of the steps 2 5 9

What follows a step depends on its *state* alone, its address and what is left of its candidates: steps after different
callers have one state, and what was called from there is looked up once.

Those are the answers for the stack, unless one of its steps is *held*: it restricts its caller, or it is the trampoline
of a signal, which says how the address outwards of it is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from unwind.resolve import columns as c
from unwind.resolve._follow import Turns
from unwind.resolve.chain import CALLED_NOTHING, Step
from unwind.resolve.places import Marked, Sampled
from unwind.samples.path_tree import zeros
from unwind.symbolize.answer import Answer

Frames = tuple[Sampled, ...]
_TURNS, _DEPTH = 1 << 10, 1 << 8  # room at the beginning


class Walk:
    """The steps that stacks have taken.

    Args:
        root: the step of an unknown caller.
        make: makes the step from that of a caller to a frame that it called; true for an innermost frame.
        is_held: whether the answers for a stack with that step follow from the whole stack.
    """

    def __init__(
        self, root: Step, make: Callable[[Step, Sampled, bool], Step], is_held: Callable[[Step], bool]
    ) -> None:
        self._make, self._is_held = make, is_held
        self._steps = [root, root]  # number 0 is none
        self._answers = [root.answer, root.answer]
        self._numbers = {root: 1}
        self._callers = [root, root]  # by the number of a state, a step with it
        self._states: dict[Hashable, int] = {root.state: 1, CALLED_NOTHING: 1}
        self._frame_numbers: dict[Hashable, int] = {}  # of those that are not addresses alone, from 1 on
        self._path, self._room = zeros(_DEPTH), _TURNS
        self.size = 0  # turns that are kept
        self._turns = Turns(zeros(self._room, 3), self._path, self._frame_numbers, self._answers)

    def answers(self, frames: Frames) -> tuple[Answer, ...] | None:
        """Return the answers for a stack, innermost first; None if they follow from more than each of its steps."""
        if len(frames) > len(self._path):
            self._path = zeros(1 << len(frames).bit_length())
            self._turns.room(self._path)
        left = 0
        while True:
            try:
                answers = self._turns.follow(frames, left)
            except OverflowError:  # a number that does not fit 64 bits
                frames = tuple(map(_with_number, frames))
                continue
            left = self._turns.left
            if answers is not None or not left:
                return answers
            self._add(self._turns.caller, frames[left - 1], left == 1)

    def steps(self, frames: Frames) -> list[Step]:
        """Return the steps of a stack, innermost first."""
        self.answers(frames)
        return [self._steps[number & c.STEP_MASK] for number in self._path[: len(frames)]]

    def _add(self, caller: int, frame: Sampled, is_innermost: bool) -> None:
        """Store the step from the state of a caller to a frame."""
        step = self._make(self._callers[caller], frame, is_innermost)
        number = self._numbers.get(step)
        if number is None:
            number = self._numbers[step] = len(self._steps)
            self._steps.append(step)
            self._answers.append(step.answer)
        state = self._states.get(step.state)
        if state is None:
            state = self._states[step.state] = len(self._callers)
            self._callers.append(step)
        self.size += 1
        if 2 * self.size > self._room:
            self._room *= 2
            self._turns.grow(zeros(self._room, 3))
        kind = c.INNERMOST if is_innermost else 0
        if type(frame) is int:
            address: int = frame
        else:
            kind |= c.NUMBERED
            address = self._frame_numbers.setdefault(frame, len(self._frame_numbers) + 1)
        held = c.HELD if self._is_held(step) else 0
        self._turns.add(caller << c.KIND_BITS | kind, address, state << c.STATE_BIT | number | held)


def _with_number(frame: Sampled) -> Sampled:
    """Return a frame that has a number if its address does not fit 64 bits."""
    return Marked(frame) if isinstance(frame, int) and not 0 <= frame < 1 << 64 else frame
