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
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from icf.errors import FormatError, IcfError
from icf.log import warn
from icf.newfile import NewFile
from linkpass.rewrite.attributes import keep_attributes

if TYPE_CHECKING:
    from linkpass.rewrite.layout import Layout, Piece

_CHUNK_SIZE_BYTES = 64 << 20
_COMPARE_SIZE_BYTES = 1 << 20
_SAMPLE_SIZE_BYTES, _SAMPLE_DISTANCE_BYTES = 1 << 14, 1 << 20
_NO_KERNEL_COPY = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}


def replace_file(
    path: str | os.PathLike[str],
    source_path: str,
    source_fd: int,
    layout: Layout,
    check: Callable[[str], None] | None = None,
    *,
    is_durable: bool = False,
) -> None:
    """Make `path`, or the target of the symbolic link there, the file that `layout` describes.

    Mode, owner, capabilities and other attributes are those of the source; a line says which could not be kept.
    `check` is called with the temporary file: if it raises, `path` stays as it is.
    """
    target = os.path.realpath(path)
    if os.path.islink(target):
        raise IcfError(f"{target}: {os.strerror(errno.ELOOP).lower()}")
    if os.path.exists(target) and not os.path.isfile(target):
        raise IcfError(f"{target}: is not a regular file, and cannot be replaced")
    directory, name = os.path.split(target)
    try:
        source = os.fstat(source_fd)
        with NewFile(directory, f".{name[:200]}.") as out:
            is_sparse = source.st_blocks * 512 < source.st_size
            if is_sparse:
                os.ftruncate(out.fd, layout.size_bytes)
            else:
                # a full disk shows now; and a file without blocks would be flushed when it replaces another (ext4)
                os.posix_fallocate(out.fd, 0, layout.size_bytes)
            for piece in layout.pieces:
                _write_piece(out.fd, piece, source_path, source_fd, is_sparse)
            lost = keep_attributes(source_fd, out.fd)
            if check is not None:
                check(out.path)
            old = os.stat(target) if os.path.exists(target) else None
            is_only_copy = is_durable and old is not None and os.path.samestat(old, source)
            if is_only_copy:
                os.fsync(out.fd)
            os.replace(out.name(), target)
        if is_only_copy:
            _flush_folder(directory)
    except OSError as error:  # the error for a full disk does not name the file
        error.filename = error.filename or target
        raise
    if lost:
        warn(f"{target}: not kept: {', '.join(lost)}")
    if old is not None and old.st_nlink > 1:
        warn(f"{target}: {old.st_nlink - 1} other names of the old file (hard links) still lead to it")


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


def _write_piece(fd: int, piece: Piece, source_path: str, source_fd: int, is_sparse: bool) -> None:
    if piece.content is not None:
        _write(fd, memoryview(piece.content).cast("B"), piece.offset)
        return
    start, end = piece.source_offset, piece.source_offset + piece.size_bytes
    for first, last in _data_ranges(source_fd, start, end) if is_sparse else [(start, end)]:
        _copy(fd, piece.offset + first - start, source_path, source_fd, first, last)


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


def _copy(fd: int, offset: int, source_path: str, source_fd: int, start: int, end: int) -> None:
    """Copy a range of the source, by the kernel if it can."""
    by_kernel, room = True, memoryview(b"")
    while start < end:
        count = min(end - start, _CHUNK_SIZE_BYTES)
        copied = 0
        if by_kernel:
            try:
                copied = os.copy_file_range(source_fd, fd, count, start, offset)
            except OSError as error:
                if error.errno not in _NO_KERNEL_COPY:
                    raise
        if copied == 0:  # not possible between these two file systems
            by_kernel, room = False, room or memoryview(bytearray(_COMPARE_SIZE_BYTES))
            copied = os.preadv(source_fd, [room[:count]], start)
            if copied == 0:
                raise FormatError(source_path, "file", start, "was truncated while being read")
            _write(fd, room[:copied], offset)
        start, offset = start + copied, offset + copied


def _write(fd: int, content: memoryview, offset: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(fd, content[done : done + _CHUNK_SIZE_BYTES], offset + done)


def _flush_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
