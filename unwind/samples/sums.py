"""Samples added up by their stacks, for what shows no single sample: the stacks of a recording are fewer than those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from icf.columns import I64, U64, Mask
from unwind.samples.calls import CallTree
from unwind.samples.recording import Label, RecordedProcess, Sample

Weights = NDArray[Any]
"""int64[n], or integers of Python where these are too small for a sum."""


class StackSums(NamedTuple):
    """Samples of one process with the same labels, without CPU, thread and time.

    Attributes:
        calls: has the stacks.
        nodes: of the stacks, each once.
        counts: how many samples each stack has.
        weights: for each of the recording's values those of the stacks.
    """

    calls: CallTree
    process: RecordedProcess
    labels: tuple[Label, ...]
    nodes: U64
    counts: I64
    weights: Sequence[Weights]

    def only(self, which: Mask) -> StackSums:
        """Return the sums of some of the stacks."""
        weights = [each[which] for each in self.weights]
        return self._replace(nodes=self.nodes[which], counts=self.counts[which], weights=weights)


@runtime_checkable
class AddsUp(Protocol):
    """Samples that can also be read added up, instead of one by one."""

    def added_up(self) -> Iterator[StackSums | list[Sample]]:
        """Yield them; what is not added up, in lists. Raises what reading them one by one raises."""
