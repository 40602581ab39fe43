"""The contents of a large section stay in the file: a slice is read when it is taken.

A large program has gigabytes of `.debug_info` and of names in `.debug_str`, and most of them are looked at once, a unit
or a few names at a time. So these sections are not kept in memory as other parts of a file are (`icf.filebytes`): each
slice is read from the file, and its memory is free when its reader drops it. Bytes that another process changes between
two slices are seen as they are then.

Contents that are in memory anyway, inflated ones or those of another section joined to them, are slices of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from icf.filebytes import FileBytes

_TEXT_BYTES = 256  # of a string are read first


class Contents:
    """The bytes of a section.

    `edit` changes what was read before anyone sees it: it is called with the bytes and where they begin.
    """

    __slots__ = ("_edit", "_file", "_memory", "_size_bytes", "_start")

    def __init__(self, memory: memoryview, edit: Callable[[memoryview, int], None] | None = None) -> None:
        self._memory = memory
        self._file: FileBytes | None = None  # if it has the bytes
        self._start, self._size_bytes = 0, len(memory)
        self._edit = edit

    @classmethod
    def of_file(cls, file: FileBytes, start: int, end: int) -> Contents:
        """Return the bytes of a file from `start` to `end`."""
        contents = cls(memoryview(b""))
        contents._file = file
        contents._start, contents._size_bytes = start, end - start
        return contents

    def edited(self, edit: Callable[[memoryview, int], None]) -> Contents:
        """Return the same contents with a change."""
        contents = Contents(memoryview(b""), edit)
        contents._memory, contents._file = self._memory, self._file
        contents._start, contents._size_bytes = self._start, self._size_bytes
        return contents

    def __len__(self) -> int:
        return self._size_bytes

    def __getitem__(self, part: slice) -> memoryview:
        """Return the bytes of a slice; those of the file are a copy."""
        start, end, step = part.indices(self._size_bytes)
        assert step == 1
        if self._file is not None:
            found = memoryview(self._file.read(self._start + start, self._start + max(start, end)))
        else:
            found = self._memory[start:end]
        if self._edit is None:
            return found
        room = memoryview(bytearray(found))
        self._edit(room, start)
        return room

    def read_into(self, room: memoryview, start: int) -> None:
        """Fill `room`, which the section has bytes for, with those from `start` on."""
        if self._file is not None:
            self._file.read_into(room, self._start + start)
        else:
            room[:] = self._memory[start : start + len(room)]
        if self._edit is not None:
            self._edit(room, start)

    @property
    def in_memory(self) -> memoryview | None:
        """All bytes, if they are in memory."""
        return self._memory if self._file is None and self._edit is None else None

    def only(self, parts: Iterable[tuple[int, int]]) -> memoryview:
        """Return a view of the whole section in which these parts are read; all else may be zero, and costs no memory.

        A part is given by its start and its end.
        """
        if self._file is None or self._edit is not None:
            return self[:]
        return self._file.only(parts, self._start, self._start + self._size_bytes)

    def pieces(self, size_bytes: int, more_bytes: int = 0) -> Iterator[tuple[int, memoryview]]:
        """Yield pieces of so many bytes and where each begins; each has `more_bytes` of the next one at its end."""
        for start in range(0, self._size_bytes, size_bytes):
            yield start, self[start : start + size_bytes + more_bytes]


def string_at(contents: bytes | memoryview | Contents, offset: int) -> bytes | None:
    """Return the string at an offset, without its NUL; None if there is no NUL."""
    size_bytes = _TEXT_BYTES
    while offset < len(contents):
        chunk = bytes(contents[offset : offset + size_bytes])
        end = chunk.find(0)
        if end >= 0:
            return chunk[:end]
        if offset + size_bytes >= len(contents):
            break
        size_bytes *= 4
    return None
