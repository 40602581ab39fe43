"""What the styles of `icf symbolize` have in common, as a protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from unwind.symbolize.answer import Answer
from unwind.symbolize.many import Style
from unwind.symbolize.requests import Request
from unwind.symbolize.symbolizer import Symbolizer


class Writer(Protocol):
    """What turns answers into text."""

    def address(self, found: Answer, address: int, image: str) -> str:
        """What is at an address, which was asked for as `address`."""

    def addresses(
        self, symbolizer: Symbolizer, vaddrs: Sequence[int], asked: Sequence[int], image: str
    ) -> Iterator[str]:
        """What is at each of many addresses, which were asked for as `asked`; several answers in a piece."""

    def style(self, image: str) -> Style:
        """The same for what writes many at once."""

    def function(self, found: Sequence[Answer], symbol: str, image: str) -> str:
        """What is at the functions of a name."""

    def failed(self, image: str) -> str:
        """The answer to what cannot be asked."""

    def refused(self, request: Request, image: str, problem: str) -> str:
        """The answer where the image cannot be read."""

    def together(self, answers: Sequence[str]) -> str:
        """The answers to all addresses of a command line."""
