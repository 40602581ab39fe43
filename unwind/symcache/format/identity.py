"""How an image is recognized: its identity, a digest of all its bytes, and the stamp of its file.

    identity   the GNU build id, where there is one; else the digest: the key of a symcache
    digest     16 bytes: the content of the image when its symcache was built. The link pass keeps the build id when it
               writes tables, `strip` and `objcopy` keep it, and so do tools that edit strings or symbols in place
    stamp      device, inode, size and times of the file: as long as these are the same, so is the digest

A digest takes 0.1 s for 200 MB, which is too long for a process that lives for milliseconds. So the store remembers
which symcache belongs to each stamp, and a file that was seen before is not opened at all. Times are as fine as
the clock that sets them: a file that changed a moment ago may change again within the same tick, so its stamp is
not used until it has aged (as in git).
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from icf.errors import IcfError
from unwind.symcache.format.container import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from icf.elf.image import Image

BUILD_ID, CONTENT = 1, 2  # kinds of an Identity
_KINDS = {"build-id": BUILD_ID, "content": CONTENT}
_IDENTITY_LIMIT_BYTES = 62
_PIECE_BYTES, _READ_BYTES = 16 << 20, 1 << 20
_THREADS = 4
_FINE_TICK_NS, _COARSE_TICK_NS = 50_000_000, 2_500_000_000


class Recognized(NamedTuple):
    """The identity of an image, and the digest of its content."""

    identity: Identity
    digest: bytes

    def __str__(self) -> str:
        """Return the name of its files in the store, without the suffix of their kind."""
        return f"{self.identity}-{self.digest.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse what `str` returns; None for any other text."""
        head, _, digest = text.rpartition("-")
        kind, _, value = head.rpartition("-")
        try:
            found = cls(Identity(_KINDS[kind], bytes.fromhex(value)), bytes.fromhex(digest))
        except (KeyError, ValueError):
            return None
        return found if value and len(digest) == 32 and str(found) == text else None


def recognize(image: Image) -> Recognized:
    """Read all of an image. Raise IcfError if that is not possible."""
    digest = _digest(image)
    if 0 < len(image.build_id) <= _IDENTITY_LIMIT_BYTES:
        return Recognized(Identity(BUILD_ID, image.build_id), digest)
    return Recognized(Identity(CONTENT, digest), digest)


def stamp_of(status: os.stat_result) -> str:
    """Return the stamp of a file, as a file name."""
    return f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}"


def is_settled(status: os.stat_result) -> bool:
    """Return whether a change from now on would change the file's stamp; `status` must be fresh."""
    changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
    is_fine = status.st_mtime_ns % 1_000_000 or status.st_ctime_ns % 1_000_000
    return time.time_ns() - changed_ns > (_FINE_TICK_NS if is_fine else _COARSE_TICK_NS)


def _digest(image: Image) -> bytes:
    """Return the SHA-256 of the SHA-256 of each 16 MiB, the first 16 bytes of it.

    The pieces are not kept after reading: most of them are not needed again. A piece that is a hole is not read.
    """
    from hashlib import sha256

    size_bytes = len(image.data)

    def piece(start: int) -> bytes:
        state, buffer = sha256(), memoryview(bytearray(_READ_BYTES))
        end = min(start + _PIECE_BYTES, size_bytes)
        while start < end:
            count = os.preadv(image.fileno(), [buffer[: end - start]], start)
            if count == 0:
                raise IcfError(f"{image.path}: changed while it was read")
            state.update(buffer[:count])
            start += count
        return state.digest()

    if size_bytes <= _PIECE_BYTES:
        return sha256(piece(0)).digest()[:16]
    from concurrent.futures import ThreadPoolExecutor

    starts = list(_starts_with_data(image.fileno(), size_bytes))
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as threads:
        found = dict(zip(starts, threads.map(piece, starts), strict=True))
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
