"""The interface of the styles of `icf symbolize`, as a protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from unwind.symbolize.answer import Answer
from unwind.symbolize.many import Style
from unwind.symbolize.requests import Request
from unwind.symbolize.symbolizer import Symbolizer


class Writer(Protocol):
    """Turns answers into text."""

    def address(self, found: Answer, address: int, image: str) -> str:
        """Return the answer for an address, which the user wrote as `address`."""

    def addresses(
        self, symbolizer: Symbolizer, vaddrs: Sequence[int], asked: Sequence[int], image: str
    ) -> Iterator[str]:
        """Yield the answers for many addresses, which the user wrote as `asked`; several answers in a piece."""

    def style(self, image: str) -> Style:
        """Return the style for bulk writing."""

    def function(self, found: Sequence[Answer], symbol: str, image: str) -> str:
        """Return the answers for the functions of a name."""

    def failed(self, image: str) -> str:
        """Return the answer to a malformed request."""

    def refused(self, request: Request, image: str, problem: str) -> str:
        """Return the answer if the image cannot be read."""

    def together(self, answers: Sequence[str]) -> str:
        """Return the answers to all addresses of a command line as one text."""
