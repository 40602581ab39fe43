"""Samples of one stack added up, for what shows no single sample: the stacks of a recording are fewer than its samples.

CPU, thread and time of single samples are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from icf.columns import I64, U64
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.events import Event
from unwind.samples.calls import CallTree
from unwind.samples.recording import Label, RecordedProcess
from unwind.samples.sums import StackSums, Weights

_KEPT = 1 << 18  # samples
_NODE_BITS = 32
_LARGEST = (1 << 63) - 1


class Owner:
    """The process, event and labels that samples which are added up have in common; compared by identity."""

    __slots__ = ("event", "labels", "process")

    def __init__(self, process: RecordedProcess, event: Event, labels: tuple[Label, ...]) -> None:
        self.process, self.event, self.labels = process, event, labels


class Sums:
    """Adds samples up, by stack and owner."""

    def __init__(self) -> None:
        self._begin()

    @property
    def is_full(self) -> bool:
        """Whether they should be taken."""
        return self._count >= _KEPT

    def add(self, owners: Sequence[Owner], of_row: I64, rows: U64) -> None:
        """Add samples, each of the owner with that index; NODE is that of their stack."""
        numbers = [self._numbers.setdefault(owner, len(self._numbers)) for owner in owners]
        if len(rows):
            of_owner = np.array(numbers, np.uint64)[of_row]
            self._keys.append(of_owner << np.uint64(_NODE_BITS) | rows[:, r.NODE])
            self._periods.append(rows[:, r.PERIOD].copy())
            self._count += len(rows)

    def take(self, calls: CallTree) -> Iterator[StackSums]:
        """Yield the sums for each owner, and begin anew; `calls` has the stacks."""
        if self._count:
            all_keys, all_periods = np.concatenate(self._keys), np.concatenate(self._periods)
            order = np.argsort(all_keys, kind="stable")
            keys, first = np.unique(all_keys[order], return_index=True)
            counts = np.diff(first, append=len(order))
            sums: Weights = np.add.reduceat(_wide(all_periods[order]), first)
            of_owner = keys >> np.uint64(_NODE_BITS)
            for number, owner in enumerate(self._numbers):
                own = of_owner == number
                if own.any():
                    nodes = keys[own] & np.uint64((1 << _NODE_BITS) - 1)
                    weights = owner.event.weights_of(counts[own], sums[own])
                    yield StackSums(calls, owner.process, owner.labels, nodes, counts[own], weights)
        self._begin()

    def _begin(self) -> None:
        self._numbers: dict[Owner, int] = {}
        self._keys: list[U64] = []
        self._periods: list[U64] = []
        self._count = 0


def _wide(periods: U64) -> Weights:
    """Return periods as numbers that have room for their sum."""
    return periods.astype(np.int64 if int(periods.max()) * len(periods) <= _LARGEST else object)
