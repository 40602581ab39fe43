"""The string table of symbols: their names, asked for by offset.

A name is read when it is asked for. A large table stays in the file (`icf.contents`): a program with gigabytes of
debug information has hundreds of megabytes of names, and of most only the hashes are needed, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.contents import Contents, string_at
from icf.strings import hash_table, string_parts, texts

_PIECE_BYTES = 1 << 20


class StringTable:
    """Strings, each up to a NUL; offsets are those of entries (`st_name`)."""

    def __init__(self, contents: Contents | memoryview) -> None:
        self._contents = contents if isinstance(contents, Contents) else Contents(contents)

    def __len__(self) -> int:
        return len(self._contents)

    @cached_property
    def is_closed(self) -> bool:
        """Whether a NUL ends each string."""
        return bytes(self._contents[len(self) - 1 :]) == b"\0"

    def text(self, offset: int) -> bytes | None:
        """Return the string at an offset; None if no NUL ends it."""
        if self._bytes is None:
            return string_at(self._contents, offset)
        end = self._bytes.find(0, offset)
        return self._bytes[offset:end] if end >= 0 else None

    def texts(self, offsets: U64 | U32) -> list[bytes]:
        """Return the string at each offset; empty where no NUL ends it."""
        found = np.empty(len(offsets), object)
        for rows, part, starts in self._parts(offsets):
            found[rows] = texts(part, starts)
        return found.tolist()

    def hashes(self, offsets: U64 | U32, *, of_kin: bool = False) -> U64:
        """Return the hash of each string, or of its kin (see `icf.aliases`)."""
        found = np.empty(len(offsets), np.uint64)
        for rows, part, starts in self._parts(offsets):
            found[rows] = hash_table(part, starts, of_kin=of_kin)
        return found

    def begin_with(self, prefixes: tuple[bytes, ...], offsets: U64 | U32) -> Mask:
        """Return which strings begin with one of the prefixes."""
        found = np.zeros(len(offsets), np.bool_)
        for rows, part, starts in self._parts(offsets):
            table, starts = np.frombuffer(part, np.uint8), starts.astype(np.int64)
            for prefix in prefixes:
                fits = starts + len(prefix) <= len(table)
                at = starts[fits]
                is_same = [table[at + idx] == byte for idx, byte in enumerate(prefix)]
                found[rows[fits]] |= np.logical_and.reduce(is_same)
        return found

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield the table in pieces that can be searched, and where each begins. No string is in two of them."""
        if self._bytes is not None:
            yield 0, self._bytes
            return
        start, size_bytes = 0, _PIECE_BYTES
        while start < len(self):
            piece = bytes(self._contents[start : start + size_bytes])
            end = len(piece) if start + size_bytes >= len(self) else piece.rfind(0) + 1
            if end:
                yield start, piece[:end]
                start, size_bytes = start + end, _PIECE_BYTES
            else:
                size_bytes *= 4

    @cached_property
    def _bytes(self) -> bytes | None:
        """All of the table, if it does not stay in the file. A view cannot be searched."""
        view = self._contents.in_memory
        if view is None:
            return None
        whole = view.obj
        return whole if isinstance(whole, bytes) and len(whole) == len(view) else bytes(view)

    def _parts(self, offsets: U64 | U32) -> Iterator[tuple[I64, bytes | memoryview, U64]]:
        """Yield offsets that are read together: which they are, bytes, and where in these each string begins."""
        asked = np.ascontiguousarray(offsets, np.uint64)
        if self._bytes is not None:
            yield np.arange(len(asked)), self._bytes, asked
            return
        order = np.argsort(asked, kind="stable")
        for part, piece, starts in string_parts(self._contents, asked[order]):
            yield order[part], piece, starts
