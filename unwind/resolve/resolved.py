"""A sample with the resolver's answers for its frames."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from icf.columns import Mask
from unwind.samples._tree import answers_along
from unwind.samples.calls import CallTree
from unwind.samples.recording import RecordedFrame, RecordedProcess, Sample
from unwind.samples.sums import StackSums
from unwind.symbolize.answer import Answer

_Item = TypeVar("_Item")

NO_FRAME, NO_ANSWER, NO_PROCESS = RecordedFrame(), Answer(None), RecordedProcess()


class AnsweredTree:
    """A tree of calls with answers: what a writer makes of a frame after its callers, it makes once; by identity.

    A *state* is a frame with an answer. The frames of many nodes have the same state: those whose callers differ in
    nothing that matters.

    Attributes:
        calls: the tree.
        states: u32[m]: of each node the number of its state, in the low 31 bits; 0: none yet.
        frames: by state; `NO_FRAME` for state 0 and those of roots.
        processes: by state, the one that the frame is of.
        answers: by state, with the addresses of the recording.
    """

    def __init__(self, calls: CallTree) -> None:
        self.calls = calls
        self.states = np.zeros(len(calls.nodes), np.uint32).data
        self.frames = [NO_FRAME]
        self.answers = [NO_ANSWER]
        self.processes = [NO_PROCESS]

    def along(self, node: int, of_states: list[_Item]) -> tuple[_Item, ...]:
        """Return what `of_states` has for the states of a stack, innermost first."""
        (found,) = answers_along(np.array([node], np.uint64).data, self.calls.nodes, self.states, of_states)
        return tuple(found)


class StackAnswers(tuple[Answer, ...]):
    """The answers for the frames of a stack, innermost first; compared by identity.

    Samples of the same stack have the same object, so a writer keeps what it makes of a stack by this key: to compare
    all frames would cost more than to write them. `node` is that of the stack in `tree`, if all its answers are those
    of the states there.
    """

    tree: AnsweredTree | None = None
    node: int = 0
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


class Resolved(NamedTuple):
    """A sample with an answer for each of its frames, innermost first.

    Attributes:
        sample: the sample as it was recorded.
        answers: one for each of its frames, with the addresses of the recording.
    """

    sample: Sample
    answers: StackAnswers


class WholeStack(NamedTuple):
    """A stack that is answered as a whole: its node, how many samples it has, and these as one."""

    node: int
    sample_count: int
    resolved: Resolved


class AnsweredSums(NamedTuple):
    """Samples that are added up, with the answers for their frames.

    Attributes:
        sums: those of which the answers for all frames are the ones of their states.
        tree: has these.
        whole: the other stacks.
    """

    sums: StackSums
    tree: AnsweredTree
    whole: list[WholeStack]

    @property
    def sample_count(self) -> int:
        """How many samples they are."""
        return int(self.sums.counts.sum()) + sum(each.sample_count for each in self.whole)


class AnsweredColumns(NamedTuple):
    """Stacks in columns with the answers for their frames.

    Attributes:
        tree: has the answers of states.
        are_plain: of each stack, whether the answers for all frames are the ones of their states.
        whole: the other stacks: the index and the answers of each.
    """

    tree: AnsweredTree
    are_plain: Mask
    whole: list[tuple[int, Resolved]]
