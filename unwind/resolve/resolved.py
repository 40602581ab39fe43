"""A sample with the resolver's answers for its frames."""

from __future__ import annotations

from typing import NamedTuple, Self

from unwind.samples.recording import RecordedFrame, Sample
from unwind.symbolize.answer import Answer


class AnsweredCall:
    """A frame after its callers, with its answer: what stacks with the same callers share; compared by identity.

    Attributes:
        frame: None in the root, which stands for the caller of outermost frames.
        answer: with the address of the recording; None as long as no stack ends inwards of it.
        caller: None of the root.
    """

    __slots__ = ("answer", "caller", "frame")

    def __init__(self, frame: RecordedFrame | None, caller: Self | None) -> None:
        self.frame, self.caller = frame, caller
        self.answer: Answer | None = None


class StackAnswers(tuple[Answer, ...]):
    """The answers for the frames of a stack, innermost first; compared by identity.

    Samples of the same stack have the same object, so a writer keeps what it makes of a stack by this key: to compare
    all frames would cost more than to write them. `call` is the innermost frame, if it shares its callers with others.
    """

    call: AnsweredCall | None = None
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
