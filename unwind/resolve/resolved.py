"""A sample with the resolver's answers for its frames."""

from __future__ import annotations

from typing import NamedTuple

from unwind.samples.recording import Sample
from unwind.symbolize.answer import Answer


class Resolved(NamedTuple):
    """A sample with an answer for each of its frames, innermost first."""

    sample: Sample
    answers: tuple[Answer, ...]
