"""Write samples with the facts on which their answers rest (`icf resolve --explain`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from unwind.resolve.answer import Facts
from unwind.resolve.resolved import Resolved


class Explainable(Protocol):
    """A writer whose format has room for facts."""

    def write_explained(self, resolved: Resolved, facts: Facts) -> bytes:
        """Return what is written of a sample and the facts of its frames."""


class ExplainedWriter:
    """Writes each sample by itself, with its facts."""

    def __init__(self, writer: Explainable, facts: Callable[[Resolved], Facts]) -> None:
        self._writer, self._facts = writer, facts

    def write(self, resolved: Resolved) -> bytes:
        """Return what is written of a sample."""
        return self._writer.write_explained(resolved, self._facts(resolved))

    def end(self) -> Iterator[bytes]:
        """Yield nothing: every sample is written by itself."""
        yield from ()
