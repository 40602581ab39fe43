"""Whether a file is the one that was seen before: a digest of all its bytes, and the stamp of the file.

    digest     16 bytes: of the content
    stamp      device, inode, size and times of the file: as long as these are the same, so is the digest

A digest takes 0.1 s for 200 MB, which is too long for a process that lives for milliseconds. So stamps are kept beside
digests. Times are as fine as the clock that sets them: a file that changed a moment ago may change again within the
same tick, so its stamp is not used until it has aged (as in git). No user sets the time of change (ctime).
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

from icf.errors import IcfError
from icf.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE_BYTES, _READ_BYTES = 16 << 20, 1 << 20
_THREADS = 4
_FINE_TICK_NS, _COARSE_TICK_NS = 50_000_000, 2_500_000_000


def stamp_of(status: os.stat_result) -> str:
    """Return the stamp of a file, as a file name."""
    return f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}"


def is_settled(status: os.stat_result, at_ns: int | None = None) -> bool:
    """Return whether a change from now on would change the file's stamp; `status` must be fresh.

    With `at_ns`, an earlier time: whether the file is as it was then, and each change since would show.
    """
    changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
    is_fine = status.st_mtime_ns % 1_000_000 or status.st_ctime_ns % 1_000_000
    return (time.time_ns() if at_ns is None else at_ns) - changed_ns > (_FINE_TICK_NS if is_fine else _COARSE_TICK_NS)


def digest_of(fd: int, size_bytes: int, path: str, threads: int = _THREADS) -> bytes:
    """Return the SHA-256 of the SHA-256 of each 16 MiB of an open file, the first 16 bytes of it.

    The pieces are not kept after reading: most of them are not needed again. A piece that is a hole is not read.
    Raise IcfError, which names `path`, if the file gets shorter meanwhile.
    """
    from hashlib import sha256

    def piece(start: int) -> bytes:
        state, buffer = sha256(), memoryview(bytearray(_READ_BYTES))
        end = min(start + _PIECE_BYTES, size_bytes)
        while start < end:
            count = os.preadv(fd, [buffer[: end - start]], start)
            if count == 0:
                raise IcfError(f"{path}: changed while it was read")
            state.update(buffer[:count])
            start += count
        return state.digest()

    if size_bytes <= _PIECE_BYTES:
        return sha256(piece(0)).digest()[:16]
    starts = list(_starts_with_data(fd, size_bytes))
    found = dict(zip(starts, in_threads(piece, starts, min(threads, os.cpu_count() or 1)), strict=True))
    if len(found) * _PIECE_BYTES < size_bytes:
        last = (size_bytes - 1) // _PIECE_BYTES * _PIECE_BYTES
        found.setdefault(last, sha256(bytes(size_bytes - last)).digest())
    of_hole = sha256(bytes(_PIECE_BYTES)).digest() if len(found) * _PIECE_BYTES < size_bytes else b""
    pieces = (found.get(start, of_hole) for start in range(0, size_bytes, _PIECE_BYTES))
    return sha256(b"".join(pieces)).digest()[:16]


def _starts_with_data(fd: int, size_bytes: int) -> Iterator[int]:
    """Yield the start of each piece of a file that is not a hole altogether."""
    start = 0
    while start < size_bytes:
        try:
            at = os.lseek(fd, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            at = start
        start = at // _PIECE_BYTES * _PIECE_BYTES
        yield start
        start += _PIECE_BYTES
