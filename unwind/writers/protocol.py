"""What writes resolved samples in a format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from unwind.resolve.resolved import AnsweredSums, Resolved


class Writer(Protocol):
    """Turns resolved samples into the bytes of a file."""

    def write(self, resolved: Resolved) -> bytes:
        """Return what can be written as soon as this sample is there; often nothing."""

    def end(self) -> Iterator[bytes]:
        """Yield what is written after the last sample."""


@runtime_checkable
class BatchWriter(Writer, Protocol):
    """A writer that writes many samples at once faster than one by one."""

    def write_batch(self, batch: Sequence[Resolved]) -> Iterator[bytes]:
        """Yield what `write` returns for each."""


@runtime_checkable
class SumsWriter(Writer, Protocol):
    """A writer that shows no single sample: it also takes samples that are added up."""

    def write_sums(self, answered: AnsweredSums) -> Iterator[bytes]:
        """Take some, and yield what can be written as soon as they are there; often nothing."""
