"""The folder of symcaches: files that are replaced as a whole, found by name, and taken away when they are too many.

    build-id-91ab..-23aa...symcache   of an image: its identity, and a digest of its content (identity.py)
    build-id-91ab..-23aa...partial    what was asked for of an image so far (lazy.py)
    stamps/801-c2...-1829...          a link to `build-id-91ab..-23aa..`: a file with that stamp is that image
    .build-id-91ab...lock             held while the file is made, so that one makes it and the others wait

Equal names of images mean nothing here, and an image needs none. Whatever is missing or in the way, be it a lock, a
link or the folder, costs time and is no error: only `write` raises.

A file is used when it is opened: its time of change says when, to the hour. When the files together have more than
`limit_bytes`, those that were not used for the longest time go. Who has mapped one keeps it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from icf.errors import IcfError
from unwind.symcache.container import Container
from unwind.symcache.identity import Recognized, is_settled, recognize, stamp_of

if TYPE_CHECKING:
    from icf.elf.image import Image

COMPLETE, PARTIAL = ".symcache", ".partial"
DEFAULT_LIMIT_BYTES = 4 << 30
_STAMPS = "stamps"
_LOCK_STEP_S = 0.02
_USED_STEP_S = 3600.0
_LEFTOVER_S = 3600.0
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Entry(NamedTuple):
    """A file of the folder."""

    name: str  # with what tells its kind
    path: str
    size_bytes: int
    used_s: float  # since 1970


class Folder:
    """A folder of symcaches; it is made when something is written."""

    def __init__(self, path: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.path = path
        self.limit_bytes = limit_bytes

    @classmethod
    def chosen(cls, cache_dir: str | os.PathLike[str] | None = None) -> Self:
        """The folder that is named, that of $ICF_CACHE_DIR, or the user's; its bound is $ICF_CACHE_SIZE."""
        environment = os.environ
        path = os.fspath(cache_dir) if cache_dir is not None else environment.get("ICF_CACHE_DIR", "")
        if not path:
            base = environment.get("XDG_CACHE_HOME", "")
            path = os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "icf")
        if not path.startswith("~"):  # of a user without a home, who has no folder
            path = os.path.abspath(path)
        size = environment.get("ICF_CACHE_SIZE", "")
        return cls(path, parse_size(size, "ICF_CACHE_SIZE") if size else DEFAULT_LIMIT_BYTES)

    # Files

    def path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def open(self, name: str) -> Container | None:
        """An entry, checked to be what its name says, or None; `FormatError` if it is damaged."""
        path = self.path_of(name)
        try:
            container = Container.open(path)
        except (OSError, ValueError):  # mmap's, of a file that became empty meanwhile
            return None
        head = container.head
        if f"{head.identity}-{head.content_check.hex()}" != os.path.splitext(name)[0]:
            return None
        self._use(path)
        return container

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Make or replace an entry, and make room for it; `OSError`, and then the older one is still there."""
        from icf.newfile import NewFile

        self._make()
        with NewFile(self.path, f".{name[:200]}.") as out:
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while len(rest):
                    rest = rest[os.write(out.fd, rest) :]
            os.replace(out.name(), self.path_of(name))
        self.shrink(keep=name)

    def remove(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(self.path_of(name))

    def entries(self) -> list[Entry]:
        """All entries, by name."""
        found = []
        with suppress(OSError), os.scandir(self.path) as listed:
            for each in listed:
                if each.name.startswith(".") or not each.name.endswith((COMPLETE, PARTIAL)):
                    continue
                with suppress(OSError):
                    status = each.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        found.append(Entry(each.name, each.path, status.st_size, status.st_mtime))
        return sorted(found)

    def _make(self) -> None:
        if not os.path.isabs(self.path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def _use(self, path: str) -> None:
        with suppress(OSError):
            if time.time() - os.stat(path).st_mtime > _USED_STEP_S:
                os.utime(path)

    # Room

    def shrink(self, keep: str = "", limit_bytes: int | None = None) -> list[Entry]:
        """Take away what was not used for the longest time until the bound holds; gives what went."""
        limit = self.limit_bytes if limit_bytes is None else limit_bytes
        entries = self.entries()
        excess_bytes = sum(each.size_bytes for each in entries) - limit
        gone = []
        for each in sorted(entries, key=lambda each: each.used_s):
            if excess_bytes <= 0:
                break
            if each.name != keep:
                self.remove(each.name)
                gone.append(each)
                excess_bytes -= each.size_bytes
        self.tidy()
        return gone

    def tidy(self) -> None:
        """Take away links that lead to nothing, and what a builder has left behind when it was killed."""
        stems = {os.path.splitext(each.name)[0] for each in self.entries()}
        with suppress(OSError), os.scandir(os.path.join(self.path, _STAMPS)) as listed:
            for each in listed:
                with suppress(OSError):
                    if os.readlink(each.path) not in stems:
                        os.unlink(each.path)
        with suppress(OSError), os.scandir(self.path) as listed:
            for each in listed:
                with suppress(OSError):
                    is_ours = each.name.startswith((".build-id-", ".content-", ".pe-"))
                    if is_ours and time.time() - each.stat(follow_symlinks=False).st_mtime > _LEFTOVER_S:
                        os.unlink(each.path)

    # Stamps

    def recall(self, stamp: str) -> str:
        """The image that a file with this stamp is, without what tells the kind of entry; "" if that is not known."""
        try:
            return os.readlink(os.path.join(self.path, _STAMPS, stamp))
        except OSError:
            return ""

    def remember(self, stamp: str, stem: str) -> None:
        """Keep that a file with this stamp is that image."""
        folder = os.path.join(self.path, _STAMPS)
        with suppress(OSError):
            self._make()
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, stamp))
            os.symlink(stem, os.path.join(folder, stamp))

    def recognize(self, path: str) -> Recognized:
        """What the file at `path` is: by its stamp if that is known, else by reading it; `IcfError`."""
        try:
            known = Recognized.parse(self.recall(stamp_of(os.stat(path))))
        except (OSError, ValueError) as error:  # a path with a NUL
            raise IcfError(f"{path}: {getattr(error, 'strerror', error)}") from error
        if known is not None:
            return known
        from icf.elf.image import Image

        with Image.open(path) as image:
            return self.recognize_image(image)

    def recognize_image(self, image: Image) -> Recognized:
        """The same of a file that is open."""
        status = os.fstat(image.fileno())
        recognized = Recognized.parse(self.recall(stamp_of(status)))
        if recognized is None:
            is_lasting = is_settled(status)
            recognized = recognize(image)
            if stamp_of(os.fstat(image.fileno())) != stamp_of(status):
                raise IcfError(f"{image.path}: changed while it was read")
            if is_lasting:
                self.remember(stamp_of(status), str(recognized))
        return recognized

    # Locks

    @contextmanager
    def locked(self, name: str, wait_s: float) -> Iterator[None]:
        """Hold the lock of an entry, if it can be had in that time; who holds it and ends, in whatever way, lets go."""
        path = self.path_of(f".{name}.lock")
        fd = -1
        end_s = time.monotonic() + wait_s
        try:
            with suppress(OSError):
                self._make()
                while (fd := _try_lock(path)) < 0 and time.monotonic() < end_s:
                    time.sleep(_LOCK_STEP_S)
            yield
        finally:
            if fd >= 0:
                with suppress(OSError):
                    os.unlink(path)
                os.close(fd)


def _try_lock(path: str) -> int:
    """A descriptor that holds the lock, or -1; `OSError` where there are no locks."""
    import fcntl

    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):  # else: of one who has just taken the file away
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return -1


def parse_size(text: str, what: str) -> int:
    """A size as people write it: 500M, 4G; `IcfError`."""
    digits, unit = text.strip().upper().removesuffix("B").removesuffix("I"), ""
    if digits[-1:] in _UNITS:
        digits, unit = digits[:-1], digits[-1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
        raise IcfError(f"{what}: {text!r} is no size, must be as 500M or 4G")
    return int(digits) * _UNITS[unit]


_complained: set[str] = set()


def complain(folder: Folder, error: OSError) -> None:
    """Say on stderr, once for each folder, that nothing can be kept in it."""
    if folder.path not in _complained:
        _complained.add(folder.path)
        reason = (error.strerror or str(error)).lower()
        sys.stderr.write(f"icf: warning: {folder.path}: {reason}: symbols are not kept for the next time\n")
