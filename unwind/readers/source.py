"""What a reader reads: a file or a pipe, with its first bytes at hand before anything is consumed.

source.head         the first 64 KiB, or all there is: what the format is known by
source.lines()      for text: one line after the other, as soon as each is there
source.content()    for binary formats: the whole as `FileBytes`; what comes through a pipe is kept in a temporary file
"""

from __future__ import annotations

import io
import os
import select
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import BinaryIO, Self

from icf.errors import FormatError, IcfError
from icf.filebytes import FileBytes
from unwind.process.image_finder import ImageFinder
from unwind.readers.module_places import ModulePlace, Named
from unwind.readers.stack_objects import StackObjects

HEAD_BYTES = 1 << 16
LINE_LIMIT = 1 << 24  # bytes of a line to read before it is refused: a million frames


class Source:
    """The input of a reader; to be closed."""

    def __init__(self, stream: BinaryIO, path: str, images: ImageFinder | None = None) -> None:
        self.path = path  # for messages
        self.images = images if images is not None else ImageFinder()  # a reader that unwinds needs them, too
        self.places: Sequence[ModulePlace] = ()  # where modules lay, if the user says it
        self.named: Named | None = None  # what finds the place of the program that the user has named
        self.objects: StackObjects | None = None  # asked by readers that have registers and memory
        self.stream = stream
        self.head = _first_bytes(stream)
        self._opened = ExitStack()
        self._opened.enter_context(self.images)
        self._waiting = poll_of(stream)

    @classmethod
    def open(cls, path: str, images: ImageFinder | None = None) -> Self:
        """Open a file, or standard input for `-`; raises `IcfError` where that is not possible.

        `images` are closed with it.
        """
        if path == "-":
            return cls(sys.stdin.buffer, "standard input", images)
        try:
            stream = open(path, "rb")
        except OSError as error:
            raise IcfError(f"{path}: {error.strerror}") from error
        try:
            source = cls(stream, path, images)
        except BaseException as error:
            stream.close()
            if isinstance(error, OSError):
                raise IcfError(f"{path}: {error.strerror}") from error
            raise
        source._opened.enter_context(stream)
        return source

    def lines(self) -> Iterator[bytes]:
        """Yield each line with its newline; `FormatError` for one that is longer than any stack."""
        for number, line in enumerate(iter(partial(self.stream.readline, LINE_LIMIT), b""), 1):
            if len(line) >= LINE_LIMIT:
                raise LineError(self.path, "line", number, f"longer than {LINE_LIMIT - 1} bytes")
            yield line

    @property
    def is_file(self) -> bool:
        """Whether the input is a file, which never waits."""
        return self._waiting is None

    def has_more(self) -> bool:
        """Return whether reading on would give something at once; a file always does."""
        return self._waiting is None or bool(self._waiting.poll(0))

    def content(self) -> FileBytes:
        """Return all bytes; `FormatError` if there are none."""
        if not self.head:
            raise FormatError(self.path, "file header", 0, "the file is empty")
        if stat.S_ISREG(os.fstat(self.stream.fileno()).st_mode) and self.stream.tell() == 0:
            return FileBytes.of_descriptor(os.dup(self.stream.fileno()), self.path)
        kept = self._opened.enter_context(tempfile.TemporaryFile())
        shutil.copyfileobj(self.stream, kept, 1 << 20)
        kept.flush()
        return FileBytes.of_descriptor(os.dup(kept.fileno()), self.path)

    def closes(self, opened: AbstractContextManager[object]) -> None:
        """Close something else with it."""
        self._opened.enter_context(opened)

    def close(self) -> None:
        """Close what was opened."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class LineError(FormatError):
    """A line that the format does not allow; `offset` is its number, counted from 1."""

    def __str__(self) -> str:
        return f"{self.path}:{self.offset}: {self.problem}"


def poll_of(stream: BinaryIO) -> select.poll | None:
    """Return what waits for a pipe or a terminal; None for a file, which never waits."""
    try:
        if stream.seekable():
            return None
        fd = stream.fileno()
    except (OSError, io.UnsupportedOperation):
        return None
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return waiting


def _first_bytes(stream: BinaryIO) -> bytes:
    """Return the first bytes without consuming them: as many as are there at once, if it is a pipe."""
    peek = getattr(stream, "peek", None)
    if stream.seekable():
        at = stream.tell()
        head = stream.read(HEAD_BYTES)
        stream.seek(at)
        return head
    if peek is None:
        raise TypeError("a pipe must be a buffered stream")
    return bytes(peek(HEAD_BYTES)[:HEAD_BYTES])
