"""Stacks that share their outer frames.

    main <── run <── grow        a `Call` is a frame and the call of its caller; it ends at None
               └──── shrink

A recording has millions of stacks, and most of each is in others, too. Where a reader finds what they share, what is
known of a call is looked up once, however many stacks it is part of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from unwind.samples.recording import RecordedFrame


class Call:
    """A frame after its callers; compared by identity."""

    __slots__ = ("caller", "frame")

    def __init__(self, frame: RecordedFrame, caller: Call | None) -> None:
        self.frame, self.caller = frame, caller


class CallStack(tuple[RecordedFrame, ...]):
    """The frames of a stack, innermost first, and the call that they end with; compared by identity."""

    call: Call

    @classmethod
    def of(cls, call: Call) -> Self:
        """Return the stack that a call is the innermost of."""
        stack = cls(_frames(call))
        stack.call = call
        return stack

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


def _frames(call: Call | None) -> Iterator[RecordedFrame]:
    while call is not None:
        yield call.frame
        call = call.caller
