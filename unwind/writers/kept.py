"""The text of stacks that a writer has written before: samples of the same stack share it."""

from __future__ import annotations

from unwind.resolve.resolved import StackAnswers

_KEPT_BYTES = 1 << 26


class KeptTexts(dict[StackAnswers, bytes]):
    """The text of each stack, of all together a limited number of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0

    def keep(self, answers: StackAnswers, text: bytes) -> bytes:
        """Return the text, which is that of the stack from now on."""
        if self._size_bytes > _KEPT_BYTES:
            self._size_bytes = 0
            self.clear()
        self._size_bytes += len(text)
        self[answers] = text
        return text
