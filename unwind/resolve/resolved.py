"""A sample with the resolver's answers for its frames."""

from __future__ import annotations

from typing import NamedTuple

from unwind.samples.recording import Sample
from unwind.symbolize.answer import Answer


class StackAnswers(tuple[Answer, ...]):
    """The answers for the frames of a stack, innermost first; compared by identity.

    Samples of the same stack have the same object, so a writer keeps what it makes of a stack by this key: to compare
    all frames would cost more than to write them.
    """

    __slots__ = ()
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
