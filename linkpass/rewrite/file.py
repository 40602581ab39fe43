"""Write a laid-out file: without a name first, then under its own.

Ranges of the input are copied by the kernel (`copy_file_range`) where both files allow that, else
from the mapping. Whatever goes wrong, the target is as it was and nothing else is left (`icf.newfile`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from icf.errors import IcfError
from icf.filebytes import FileBytes
from icf.newfile import NewFile

if TYPE_CHECKING:
    from linkpass.rewrite.layout import Layout, Piece

_CHUNK_SIZE_BYTES = 64 << 20
_COMPARE_SIZE_BYTES = 1 << 20
_SAMPLE_SIZE_BYTES, _SAMPLE_DISTANCE_BYTES = 1 << 14, 1 << 20
_NO_KERNEL_COPY = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}


def replace_file(
    path: str | os.PathLike[str],
    source_fd: int,
    source: memoryview | FileBytes,
    layout: Layout,
    check: Callable[[str], None] | None = None,
) -> None:
    """Make `path`, or what the symbolic link there points to, the file that `layout` describes.

    Mode and owner are those of the source; without the right to keep the owner, set-id bits go too. `check` is
    called with the temporary file: if it raises, `path` stays as it is.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise IcfError(f"{target}: is not a regular file, and cannot be replaced")
    directory, name = os.path.split(target)
    try:
        with NewFile(directory, f".{name[:200]}.") as out:
            # a full disk shows now; and a file without blocks would be flushed when it replaces another (ext4)
            os.posix_fallocate(out.fd, 0, layout.size_bytes)
            for piece in layout.pieces:
                _write_piece(out.fd, piece, source_fd, source)
            _keep_attributes(out.fd, os.fstat(source_fd))
            if check is not None:
                check(out.path)
            os.replace(out.name(), target)
    except OSError as error:  # a full disk does not say of which file
        error.filename = error.filename or target
        raise


def same_bytes(left: memoryview, right: memoryview) -> bool:
    """Whether two buffers hold the same bytes, at the speed of memory."""
    if len(left) != len(right):
        return False
    return all(
        bytes(left[start : start + _COMPARE_SIZE_BYTES]) == bytes(right[start : start + _COMPARE_SIZE_BYTES])
        for start in range(0, len(left), _COMPARE_SIZE_BYTES)
    )


def same_ranges(left_fd: int, left_offset: int, right_fd: int, right_offset: int, size_bytes: int) -> bool:
    """Whether two files hold the same bytes there, by a sample of what is long.

    What can go wrong is a piece at the wrong place, as the bytes are copied by the kernel; so the ends and 16 KB of
    each MB are read. They are read, not mapped: mapped pages would all stay in memory.
    """
    left, right = bytearray(_SAMPLE_SIZE_BYTES), bytearray(_SAMPLE_SIZE_BYTES)
    last = size_bytes - _SAMPLE_SIZE_BYTES
    starts = [*range(0, last, _SAMPLE_DISTANCE_BYTES), last] if last > 0 else [0]
    for start in starts:
        left_view, right_view = memoryview(left)[: size_bytes - start], memoryview(right)[: size_bytes - start]
        got = os.preadv(left_fd, [left_view], left_offset + start)
        if got != len(left_view) or os.preadv(right_fd, [right_view], right_offset + start) != got or left != right:
            return False
    return True


def _write_piece(fd: int, piece: Piece, source_fd: int, source: memoryview | FileBytes) -> None:
    if piece.content is not None:
        _write(fd, memoryview(piece.content).cast("B"), piece.offset)
        return
    done = 0
    while done < piece.size_bytes:
        count = min(piece.size_bytes - done, _CHUNK_SIZE_BYTES)
        try:
            copied = os.copy_file_range(source_fd, fd, count, piece.source_offset + done, piece.offset + done)
        except OSError as error:
            if error.errno not in _NO_KERNEL_COPY:
                raise
            copied = 0
        if copied == 0:  # not possible between these two file systems
            start, end = piece.source_offset + done, piece.source_offset + piece.size_bytes
            _write(fd, source[start:end], piece.offset + done)
            return
        done += copied


def _write(fd: int, content: memoryview, offset: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(fd, content[done : done + _CHUNK_SIZE_BYTES], offset + done)


def _keep_attributes(fd: int, source: os.stat_result) -> None:
    mode = stat.S_IMODE(source.st_mode)
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (source.st_uid, source.st_gid):
        try:
            os.fchown(fd, source.st_uid, source.st_gid)
        except PermissionError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    os.fchmod(fd, mode)
