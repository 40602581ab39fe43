"""The bytes of a file in the process's own memory, each block read on first use.

A mapping follows its file. A process that truncates the file removes the pages, and the next access to one raises
SIGBUS, which ends the reading process: `cp new shop` over an open image kills a profiler, and so can every user that
may write to a file which the profiler has mapped. A handler for SIGBUS would need C, and a library must not take a
signal of its host. So this project maps no image and no symcache. It reserves anonymous memory of the size of the file,
and reads a block of 16 KiB when its first byte is needed:

    file       |####|####|####|####|####|###
    memory     |    |####|####|    |    |###     two views were taken; the rest costs no memory
    have         0    1    1    0    0    1

Bytes that were read once stay as they are, whatever happens to the file: a check holds for good, and two readers see
the same bytes. A block that can no longer be read is a `FormatError`. Holes are not read, so a file of holes costs one
byte of `have` for each 16 KiB, since the kernel allocates memory on the first write.

A view is read-only, and keeps the memory alive after `close`.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Self

from icf.errors import FormatError, IcfError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLOCK_BITS = 14
_READ_BYTES = 1 << 30
_HOLE_BYTES = 1 << 24  # files longer than this are searched for holes
_LIMIT_BYTES = 1 << 42
_MAP_NORESERVE = 0x4000  # of Linux; `mmap` has it from Python 3.13 on
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE


class FileBytes:
    """A file that is open for reading, `size_bytes` long, at least 1. It owns the descriptor."""

    def __init__(self, fd: int, size_bytes: int, path: str) -> None:
        self._fd = fd
        self._size_bytes = size_bytes
        self.path = path
        if size_bytes > _LIMIT_BYTES:
            self.close()
            raise IcfError(f"{path}: has {size_bytes} bytes, must have {_LIMIT_BYTES} or fewer")
        try:
            self._memory = mmap.mmap(-1, size_bytes, flags=_FLAGS)
            self._have = bytearray(-(-size_bytes >> BLOCK_BITS))
        except (OSError, OverflowError, ValueError, MemoryError) as error:
            self.close()
            raise IcfError(f"{path}: {size_bytes} bytes: more than there is memory for") from error
        self._bytes = memoryview(self._memory).toreadonly()
        self._lock = Lock()

    @classmethod
    def open(cls, path: str) -> Self:
        """Open a regular file that is not empty."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe is not waited for
        except OSError as error:
            raise IcfError(f"{path}: {error.strerror}") from error
        return cls.of_descriptor(fd, path)

    @classmethod
    def of_descriptor(cls, fd: int, path: str) -> Self:
        """Return the file of a descriptor, which it owns from here on; `path` is for messages."""
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise IcfError(f"{path}: is not a regular file")
            if status.st_size == 0:
                raise FormatError(path, "file header", 0, "the file is empty")
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, status.st_size, path)

    def __len__(self) -> int:
        return self._size_bytes

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What was read stays available; nothing more is read."""
        fd, self._fd = self._fd, -1  # in this order: a signal may come between them
        if fd >= 0:
            os.close(fd)

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Close the file if the block raises; an error of reading becomes an IcfError."""
        try:
            yield
        except OSError as error:
            self.close()
            raise IcfError(f"{self.path}: cannot be read: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor of the file, which may no longer be the one at the path."""
        if self._fd < 0:
            raise ValueError(f"{self.path}: the file is closed")
        return self._fd

    def __getitem__(self, part: slice) -> memoryview:
        """Return the bytes of a slice, read now if they were not read before."""
        start, end, step = part.indices(self._size_bytes)
        if step != 1:
            raise ValueError("a slice of a file has no step")
        if start >= end:
            return self._bytes[:0]
        self._read(start >> BLOCK_BITS, (end - 1 >> BLOCK_BITS) + 1)
        return self._bytes[start:end]

    def read(self, start: int, end: int) -> bytes:
        """Return these bytes, read from the file for this alone."""
        pieces = []
        while start < end:
            pieces.append(os.pread(self.fileno(), min(end - start, _READ_BYTES), start))
            if not pieces[-1]:
                raise FormatError(self.path, "file", start, "was truncated while being read")
            start += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, room: memoryview, start: int) -> None:
        """Fill `room` with the bytes from `start` on, read from the file for this alone."""
        fd, done = self.fileno(), 0
        while done < len(room):
            count = os.preadv(fd, [room[done : done + _READ_BYTES]], start + done)
            if count == 0:
                raise FormatError(self.path, "file", start + done, "was truncated while being read")
            done += count

    def private_copy(self, start: int, end: int) -> memoryview:
        """Return a writable copy of these bytes, read from the file for this alone."""
        copy = memoryview(mmap.mmap(-1, max(end - start, 1), flags=_FLAGS))[: end - start]
        self._read_data(copy, start)
        return copy

    def only(self, parts: Iterable[tuple[int, int]], start: int, end: int) -> memoryview:
        """Return a view of the bytes from `start` to `end`, of which some parts are read for this alone.

        A part is given by its start and its end, counted from `start`. All else is zero, and costs no memory.
        """
        room = memoryview(mmap.mmap(-1, max(end - start, 1), flags=_FLAGS))[: end - start]
        for first, last in parts:
            self.read_into(room[first:last], start + first)
        return room.toreadonly()

    def pieces(self, size_bytes: int) -> Iterator[memoryview]:
        """Yield the file from its beginning in pieces; the memory of each is freed when the next one is taken."""
        room = memoryview(bytearray(min(size_bytes, self._size_bytes)))
        for start in range(0, self._size_bytes, size_bytes):
            piece = room[: self._size_bytes - start]
            self.read_into(piece, start)
            yield piece

    def having(self, blocks: Iterable[int]) -> memoryview:
        """Return the whole file, with the bytes of these blocks and of earlier slices; others may be zero.

        A byte is in the block of its offset >> BLOCK_BITS.
        """
        for block in blocks:
            self._read(block, block + 1)
        return self._bytes

    def forget(self, start: int, end: int) -> None:
        """Free this memory; no view of these bytes may be in use, as it would read zeros.

        They are read again when needed.
        """
        first, last = -(-start >> BLOCK_BITS), end >> BLOCK_BITS
        if first < last:
            with self._lock:
                self._have[first:last] = bytes(last - first)
                self._memory.madvise(mmap.MADV_DONTNEED, first << BLOCK_BITS, (last - first) << BLOCK_BITS)

    def _read(self, first: int, last: int) -> None:
        """Load the blocks from `first` to `last`."""
        have = self._have
        if have.find(0, first, last) < 0:
            return
        with self._lock:
            while (first := have.find(0, first, last)) >= 0:
                end = have.find(1, first, last)
                end = last if end < 0 else end
                with memoryview(self._memory) as room:
                    self._read_data(room[first << BLOCK_BITS : end << BLOCK_BITS], first << BLOCK_BITS)
                have[first:end] = b"\1" * (end - first)
                first = end

    def _read_data(self, room: memoryview, start: int) -> None:
        """Fill `room`, which is zero, with the bytes from `start` on; holes stay zero."""
        fd, done = self.fileno(), 0
        while len(room) - done > _HOLE_BYTES:
            try:
                data = os.lseek(fd, start + done, os.SEEK_DATA) - start
            except OSError as error:
                if error.errno != errno.ENXIO:  # a file system that does not support SEEK_DATA
                    break
                data = len(room) if os.fstat(fd).st_size >= self._size_bytes else done  # nothing but a hole is left
                if data == done:
                    break
            done = min(max(data, done), len(room))
            end = min(done + _HOLE_BYTES, len(room))
            self.read_into(room[done:end], start + done)
            done = end
        self.read_into(room[done:], start + done)
