"""What a writer has written before, and need not make again: the text of a frame, or of a stack."""

from __future__ import annotations

from typing import AnyStr, Generic, TypeVar

Key = TypeVar("Key")
_KEPT_BYTES = 1 << 26


class KeptTexts(dict[Key, AnyStr], Generic[Key, AnyStr]):
    """The text of each key, of all together a limited number of bytes."""

    def __init__(self, limit_bytes: int = _KEPT_BYTES) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes
        self._size_bytes = 0

    def keep(self, key: Key, text: AnyStr) -> AnyStr:
        """Return the text, which is that of the key from now on."""
        if self._size_bytes > self._limit_bytes:
            self._size_bytes = 0
            self.clear()
        self._size_bytes += len(text)
        self[key] = text
        return text
