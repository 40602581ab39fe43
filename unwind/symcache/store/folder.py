"""The directory of symcaches: files that are replaced as a whole, found by name, and evicted when they are too many.

    build-id-91ab..-23aa...symcache   of an image: its identity, and a digest of its content (identity.py)
    build-id-91ab..-23aa...partial    the answers about an image so far (lazy.py)
    stamps/801-c2...-1829...          a link to `build-id-91ab..-23aa..`: a file with that stamp is that image
    .build-id-91ab...lock             held while the file is made, so that one makes it and the others wait
    icf-symcaches                     marks the directory as one of symcaches (ownership.py)

Equal names of images mean nothing here, and an image needs none. A lock, a link or a directory that is missing or in
the way costs time and is not an error: only `write` raises. A directory that is not this user's own is neither
read nor written to.

A file counts as used when it is opened: its time of change records when, to the hour, which room.py goes by when the
files together have more than `limit_bytes`.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, TypeVar

from icf.cachefolder import chosen_directory, problem_of_home
from icf.errors import IcfError
from icf.filedigest import is_settled, stamp_of
from icf.log import warn
from unwind.symcache.format.container import STALE_TABLES, Container
from unwind.symcache.format.identity import Recognized, recognize
from unwind.symcache.store.ownership import MARKER, STAMPS, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from icf.image import AnyImage

T = TypeVar("T")
DEFAULT_LIMIT_BYTES = 4 << 30
_USED_STEP_S = 3600.0
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class ChangedError(IcfError):
    """A file changed while it was read."""


def again_if_changed(read: Callable[[], T]) -> T:
    """Return what `read` returns, which opens a file. It is called again if the file changed meanwhile.

    `perf record` links each file that it meets into a cache of its own, which changes its status.
    """
    try:
        return read()
    except ChangedError:
        return read()


class Folder:
    """A directory of symcaches; the first write makes it."""

    def __init__(self, path: str, limit_bytes: int = DEFAULT_LIMIT_BYTES, home: str = "") -> None:
        """Take a directory; `home` is a directory that must be this user's own, or no directory is made in it."""
        self.path = path
        self.limit_bytes = limit_bytes
        self._home = home
        self._problem: str | None = None

    @classmethod
    def chosen(cls, cache_dir: str | os.PathLike[str] | None = None) -> Self:
        """Return the directory that is named, that of $ICF_CACHE_DIR, or the user's; its bound is $ICF_CACHE_SIZE."""
        path, home = chosen_directory(cache_dir)
        size = os.environ.get("ICF_CACHE_SIZE", "")
        return cls(path, parse_size(size, "ICF_CACHE_SIZE") if size else DEFAULT_LIMIT_BYTES, home)

    @property
    def problem(self) -> str:
        """Why the directory is not used; empty if it is, or can be made."""
        if self._problem is None:
            self._problem = problem_of(self.path)
        return self._problem or ""

    # Files

    def path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def open(self, name: str) -> Container | None:
        """Return an entry, checked against its name; None without one. Raise FormatError if it is damaged."""
        if self.problem:
            return None
        path = self.path_of(name)
        try:
            container = Container.open(path, is_own=True)
        except OSError:
            return None
        head = container.head
        if f"{head.identity}-{head.content_check.hex()}" != os.path.splitext(name)[0]:
            return None
        self._use(path)
        return container

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Make or replace an entry. Raise OSError if that fails; the older entry is then still there."""
        from icf.newfile import NewFile

        self.make()
        with NewFile(self.path, f".{name[:200]}.") as out:
            for piece in pieces:
                rest = memoryview(piece).cast("B")
                while len(rest):
                    try:
                        rest = rest[os.write(out.fd, rest) :]
                    except OSError as error:
                        raise OSError(error.errno, error.strerror, self.path) from error
            os.replace(out.name(), self.path_of(name))

    def remove(self, name: str) -> None:
        """Remove an entry; a failure is not an error."""
        if self.problem:
            return
        try:
            os.unlink(self.path_of(name))
        except OSError:
            pass

    def make(self) -> None:
        """Make the directory itself. Raise OSError, also if it is not this user's own."""
        if not os.path.isabs(self.path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        if self.problem:
            raise OSError(errno.EPERM, self.problem, self.path)
        marker = self.path_of(MARKER)
        if os.path.lexists(marker):
            return
        if self._home and not os.path.isdir(self.path) and (problem := problem_of_home(self._home)):
            raise OSError(errno.EPERM, problem, self.path)
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        self._problem = None  # it may have appeared a moment ago
        if self.problem:
            raise OSError(errno.EPERM, self.problem, self.path)
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def _use(self, path: str) -> None:
        try:
            if time.time() - os.stat(path).st_mtime > _USED_STEP_S:
                os.utime(path)
        except OSError:
            pass

    # Stamps

    def recall(self, stamp: str) -> str:
        """Return the identity of the image whose file has this stamp, without the kind of entry.

        "" if it is not known.
        """
        if self.problem:
            return ""
        try:
            return os.readlink(os.path.join(self.path, STAMPS, stamp))
        except OSError:
            return ""

    def remember(self, stamp: str, stem: str) -> None:
        """Record that a file with this stamp is that image; a failure is not an error."""
        link = os.path.join(self.path, STAMPS, stamp)
        try:
            self.make()
            os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink(stem, link)
        except OSError:
            pass

    def recognize(self, path: str) -> Recognized:
        """Return the identity of the file at `path`: by its stamp if that is known, else by reading it.

        Raise IcfError.
        """
        try:
            known = Recognized.parse(self.recall(stamp_of(os.stat(path))))
        except (OSError, ValueError) as error:  # a path with a NUL
            raise IcfError(f"{path}: {getattr(error, 'strerror', error)}") from error
        if known is not None:
            return known
        from icf.image import open_any_image

        def recognized() -> Recognized:
            with open_any_image(path) as image:
                return self.recognize_image(image)

        return again_if_changed(recognized)

    def recognize_image(self, image: AnyImage) -> Recognized:
        """Return the identity of a file that is open."""
        status = os.fstat(image.fileno())
        recognized = Recognized.parse(self.recall(stamp_of(status)))
        if recognized is None:
            is_lasting = is_settled(status)
            recognized = recognize(image)
            if stamp_of(os.fstat(image.fileno())) != stamp_of(status):
                raise ChangedError(f"{image.path}: changed while it was read")
            if is_lasting:
                self.remember(stamp_of(status), str(recognized))
        return recognized


def parse_size(text: str, what: str) -> int:
    """Return a size as people write it: 500M, 4G. Raise IcfError for other texts."""
    digits, unit = text.strip().upper().removesuffix("B").removesuffix("I"), ""
    if digits[-1:] in _UNITS:
        digits, unit = digits[:-1], digits[-1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
        raise IcfError(f"{what}: {text!r} is not a size such as 500M or 4G")
    return int(digits) * _UNITS[unit]


def warn_if_stale(kept: Container, image_path: str) -> None:
    """Warn, as `icf.tables.place` does, about an image whose tables are about other code."""
    if kept.head.flags & STALE_TABLES:
        from icf.tables.place import warn_stale

        warn_stale(image_path)


_complained: set[str] = set()


def complain(folder: Folder, reason: str) -> None:
    """Report, once for each directory, that nothing can be kept in it."""
    if folder.path not in _complained:
        _complained.add(folder.path)
        warn(f"{folder.path}: {reason}: symcaches are not stored")
