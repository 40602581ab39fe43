"""What writes resolved samples in a format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from unwind.resolve.resolved import Resolved


class Writer(Protocol):
    """Turns resolved samples into the bytes of a file."""

    def write(self, resolved: Resolved) -> bytes:
        """Return what can be written as soon as this sample is there; often nothing."""

    def end(self) -> Iterator[bytes]:
        """Yield what is written after the last sample."""
