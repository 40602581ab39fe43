"""Writes a laid-out file: without a name first, then under its own.

The kernel copies ranges of the input (`copy_file_range`) where both files allow that. Holes of the input stay
holes. After any error the target is as it was and nothing else is left (`icf.newfile`).

The new file is meant to be the old one with tables, so the source's attributes go along
(`linkpass.rewrite.attributes`). It has an inode of its own: other names (hard links) of an older file keep that.

A file that replaces its own source is the only copy there is. Its bytes have to be on the disk before the rename is,
or a power failure leaves zeros under the name; `is_durable` asks for that. A link can be repeated, so `icf link` does
not wait for the disk, and neither does a pass that leaves its input where it is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from icf.errors import FormatError, IcfError
from icf.log import warn
from icf.newfile import NewFile
from linkpass.rewrite.attributes import keep_attributes

if TYPE_CHECKING:
    from linkpass.background import Background
    from linkpass.rewrite.layout import Layout, Piece

_CHUNK_SIZE_BYTES = 64 << 20
_COMPARE_SIZE_BYTES = 1 << 20
_SAMPLE_SIZE_BYTES, _SAMPLE_DISTANCE_BYTES = 1 << 14, 1 << 20
_NO_KERNEL_COPY = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}


class Replacement:
    """A new file with the bytes of `source_path`, changed, that takes the place of `path` in the end.

    `path` may be a symbolic link: then it is about its target. A context: if `finish` has not been called, or
    failed, the target is as it was.
    """

    def __init__(self, path: str | os.PathLike[str], source_path: str, source_fd: int) -> None:
        self.path = os.fspath(path)
        self._source_path, self._source_fd = source_path, source_fd
        self._target = os.path.realpath(path)
        self._ahead: tuple[Piece, ...] = ()  # copied by another thread
        self._wait: Callable[[], None] = lambda: None  # for that thread
        self._is_left = False

    def __enter__(self) -> Self:
        target = self._target
        if os.path.islink(target):
            raise IcfError(f"{target}: {os.strerror(errno.ELOOP).lower()}")
        if os.path.exists(target) and not os.path.isfile(target):
            raise IcfError(f"{target}: is not a regular file, and cannot be replaced")
        self._directory, name = os.path.split(target)
        self._source = os.fstat(self._source_fd)
        self._is_sparse = self._source.st_blocks * 512 < self._source.st_size
        self._new = NewFile(self._directory, f".{name[:200]}.")
        with self._naming_target():
            self._new.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._is_left = True
        self._new.__exit__(kind, *rest)

    def copy_ahead(self, pieces: tuple[Piece, ...], background: Background) -> None:
        """Let a thread copy these ranges of the source, which layouts are likely to begin with."""
        fd = os.dup(self._new.fd)  # the thread's own: it may be at work when an error closes the other

        def copy() -> None:
            try:
                if not self._is_left:
                    self._write(fd, pieces, pieces[-1].offset + pieces[-1].size_bytes)
            finally:
                os.close(fd)

        self._ahead, self._wait = pieces, background.start(copy)

    def finish(self, layout: Layout, check: Callable[[str], None] | None = None, *, is_durable: bool = False) -> None:
        """Make the target the file that `layout` describes.

        Mode, owner, capabilities and other attributes are those of the source; a line says which could not be kept.
        `check` is called with the temporary file: if it raises, the target stays as it is.
        """
        new = self._new
        with self._naming_target():
            self._wait()
            done_bytes = _common_bytes(self._ahead, layout.pieces)
            os.ftruncate(new.fd, done_bytes)  # no byte stays that is not in the layout
            self._write(new.fd, layout.pieces, layout.size_bytes, done_bytes)
            lost = keep_attributes(self._source_fd, new.fd)
            if check is not None:
                check(new.path)
            old = os.stat(self._target) if os.path.exists(self._target) else None
            is_only_copy = is_durable and old is not None and os.path.samestat(old, self._source)
            if is_only_copy:
                os.fsync(new.fd)
            os.replace(new.name(), self._target)
            if is_only_copy:
                _flush_folder(self._directory)
        if lost:
            warn(f"{self._target}: not kept: {', '.join(lost)}")
        if old is not None and old.st_nlink > 1:
            warn(f"{self._target}: {old.st_nlink - 1} other names of the old file (hard links) still lead to it")

    @contextmanager
    def _naming_target(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # the error for a full disk does not name the file
            error.filename = error.filename or self._target
            raise

    def _write(self, fd: int, pieces: Iterable[Piece], size_bytes: int, done_bytes: int = 0) -> None:
        """Write the pieces of a file of that size; `done_bytes`: up to there, ranges of the source are copied."""
        if self._is_sparse:
            os.ftruncate(fd, size_bytes)
        else:
            # a full disk shows now; and a file without blocks would be flushed when it replaces another (ext4)
            os.posix_fallocate(fd, 0, size_bytes)
        for piece in pieces:
            if piece.content is not None:
                _write_content(fd, memoryview(piece.content).cast("B"), piece.offset)
                continue
            shift, end = piece.source_offset - piece.offset, piece.source_offset + piece.size_bytes
            start = max(piece.offset, done_bytes) + shift
            for first, last in _data_ranges(self._source_fd, start, end) if self._is_sparse else [(start, end)]:
                self._copy(fd, first - shift, first, last)

    def _copy(self, fd: int, offset: int, start: int, end: int) -> None:
        """Copy a range of the source, by the kernel if it can."""
        by_kernel, room = True, memoryview(b"")
        while start < end and not self._is_left:
            count = min(end - start, _CHUNK_SIZE_BYTES)
            copied = 0
            if by_kernel:
                try:
                    copied = os.copy_file_range(self._source_fd, fd, count, start, offset)
                except OSError as error:
                    if error.errno not in _NO_KERNEL_COPY:
                        raise
            if copied == 0:  # not possible between these two file systems
                by_kernel, room = False, room or memoryview(bytearray(_COMPARE_SIZE_BYTES))
                copied = os.preadv(self._source_fd, [room[:count]], start)
                if copied == 0:
                    raise FormatError(self._source_path, "file", start, "was truncated while being read")
                _write_content(fd, room[:copied], offset)
            start, offset = start + copied, offset + copied


def replace_file(
    path: str | os.PathLike[str],
    source_path: str,
    source_fd: int,
    layout: Layout,
    check: Callable[[str], None] | None = None,
    *,
    is_durable: bool = False,
) -> None:
    """Make `path`, or the target of the symbolic link there, the file that `layout` describes (`Replacement`)."""
    with Replacement(path, source_path, source_fd) as new:
        new.finish(layout, check, is_durable=is_durable)


def same_bytes(left: memoryview, right: memoryview) -> bool:
    """Return whether two buffers hold the same bytes, at the speed of memory."""
    if len(left) != len(right):
        return False
    return all(
        bytes(left[start : start + _COMPARE_SIZE_BYTES]) == bytes(right[start : start + _COMPARE_SIZE_BYTES])
        for start in range(0, len(left), _COMPARE_SIZE_BYTES)
    )


def same_ranges(left_fd: int, left_offset: int, right_fd: int, right_offset: int, size_bytes: int) -> bool:
    """Return whether two files hold the same bytes there, by a sample of long ranges.

    The error to find is a piece at the wrong place, as the kernel copies the bytes; so the ends and 16 KB of
    each MB are read. They are read, not mapped: mapped pages would all stay in memory.
    """
    last = size_bytes - _SAMPLE_SIZE_BYTES
    starts = [*range(0, last, _SAMPLE_DISTANCE_BYTES), last] if last > 0 else [0]
    for start in starts:
        wanted_bytes = min(_SAMPLE_SIZE_BYTES, size_bytes - start)
        left = os.pread(left_fd, wanted_bytes, left_offset + start)
        if len(left) < wanted_bytes or os.pread(right_fd, wanted_bytes, right_offset + start) != left:
            return False
    return True


def _common_bytes(ahead: Iterable[Piece], pieces: Iterable[Piece]) -> int:
    """Return up to which byte of the file the ranges that were copied ahead are those of the layout."""
    copies = (piece for piece in pieces if piece.content is None)
    common = 0
    for left, right in zip(ahead, copies, strict=False):
        if (left.offset, left.source_offset) != (right.offset, right.source_offset):
            break
        common = left.offset + min(left.size_bytes, right.size_bytes)
        if left.size_bytes != right.size_bytes:
            break
    return common


def _data_ranges(fd: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges between `start` and `end` that are not holes."""
    while start < end:
        try:
            first = os.lseek(fd, start, os.SEEK_DATA)
            last = os.lseek(fd, first, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            first, last = start, end
        if first >= end:
            return
        yield first, min(last, end)
        start = last


def _write_content(fd: int, content: memoryview, offset: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(fd, content[done : done + _CHUNK_SIZE_BYTES], offset + done)


def _flush_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
