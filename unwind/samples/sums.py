"""Samples added up by their stacks, for what shows no single sample: the stacks of a recording are fewer than those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from icf.columns import U64
from unwind.samples.calls import CallTree
from unwind.samples.recording import Label, RecordedProcess


class StackSums(NamedTuple):
    """Samples of one process with the same labels, without CPU, thread and time.

    Attributes:
        calls: has the stacks.
        nodes: of the stacks, each once.
        weights: for each of the recording's values those of the stacks.
        sample_count: how many samples they are of.
    """

    calls: CallTree
    process: RecordedProcess
    labels: tuple[Label, ...]
    nodes: U64
    weights: Sequence[Sequence[int]]
    sample_count: int
