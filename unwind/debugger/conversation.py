"""The lines between a helper and its debugger: questions come in, answers go out, and memory is read in between.

    debugger   {"id": 7, "stacks": [...]}
    helper     {"id": 7, "read": [140737488349920, 8]}
    debugger   {"id": 7, "bytes": "c02a555555550000"}            or null: it cannot be read
    helper     {"id": 7, "stacks": [...], "warnings": []}

A debugger that no longer waits may ask the next question in place of an answer. What is left of the first one then has
no memory.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator

_LONGEST_READ_BYTES = 1 << 12


class Conversation:
    """The questions of a debugger, in order, and its memory while it waits for an answer."""

    def __init__(self, lines: Iterator[bytes], write: Callable[[bytes], object]) -> None:
        self._lines, self._write = lines, write
        self._asked: deque[bytes] = deque()  # questions that came in place of memory

    def __iter__(self) -> Iterator[bytes]:
        while True:
            line = self._asked.popleft() if self._asked else next(self._lines, None)
            if line is None:
                return
            if line.strip():
                yield line

    def reply(self, answer: bytes) -> None:
        """Write an answer."""
        self._write(answer)

    def read(self, number: int, address: int, size_bytes: int) -> bytes | None:
        """Return memory of the process, for question `number`; None if the debugger does not say."""
        if self._asked or not 0 < size_bytes <= _LONGEST_READ_BYTES:
            return None
        self._write(json.dumps({"id": number, "read": [address, size_bytes]}).encode() + b"\n")
        line = next(self._lines, b"")
        try:
            answer = json.loads(line)
            if answer["id"] == number and "bytes" in answer:
                content = bytes.fromhex(answer["bytes"] or "")
                return content if len(content) == size_bytes else None
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        self._asked.append(line)
        return None
