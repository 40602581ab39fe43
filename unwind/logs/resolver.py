"""What a filter asks about stacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Sample


class StackResolver(Protocol):
    """Resolves samples: `RecordedResolver`, or `unwind.logs.live.LiveStacks`."""

    def resolve(self, samples: Iterable[Sample]) -> list[Resolved]:
        """Return the samples with an answer for each frame."""
        ...
