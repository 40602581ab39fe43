"""A sample with what the resolver says of its frames."""

from __future__ import annotations

from typing import NamedTuple

from unwind.resolve.answer import FrameAnswer
from unwind.samples.recording import Sample


class Resolved(NamedTuple):
    """A sample with an answer for each of its frames, innermost first."""

    sample: Sample
    answers: tuple[FrameAnswer, ...]
