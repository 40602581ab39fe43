"""Samples of one stack added up, for what shows no single sample: the stacks of a recording are fewer than its samples.

CPU, thread and time of single samples are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from unwind.readers.perf_data.events import Event
from unwind.samples.calls import CallStack
from unwind.samples.recording import Label, RecordedProcess, Sample

_KEPT = 1 << 16


class Owner:
    """The process, event and labels that samples which are added up have in common; compared by identity."""

    __slots__ = ("event", "labels", "process")

    def __init__(self, process: RecordedProcess, event: Event, labels: tuple[Label, ...]) -> None:
        self.process, self.event, self.labels = process, event, labels


class Sums:
    """Counts and periods of samples, by stack and owner."""

    def __init__(self) -> None:
        self._sums: dict[tuple[CallStack, Owner], list[int]] = {}

    @property
    def is_full(self) -> bool:
        """Whether they should be taken."""
        return len(self._sums) >= _KEPT

    def add(self, stack: CallStack, owner: Owner, period: int) -> None:
        """Add a sample."""
        known = self._sums.get((stack, owner))
        if known is None:
            self._sums[stack, owner] = [1, period]
        else:
            known[0] += 1
            known[1] += period

    def take(self) -> Iterator[Sample]:
        """Yield a sample for each stack of each owner, and begin anew."""
        sums, self._sums = self._sums, {}
        for (stack, owner), (count, period) in sums.items():
            yield Sample(stack, owner.process, owner.event.weights_of(count, period), owner.labels)
