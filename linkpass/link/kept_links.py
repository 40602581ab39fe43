"""Keeps links between runs, in the user's cache (`icf.cachefolder`).

    HASH.link       a link, by its command (`linkpass.link.kept_link`)
    HASH.objects    what was read of its objects, by its output (`linkpass.link.kept_objects`)

A file is replaced as a whole, so links that run at the same time do not disturb each other: the last one stays. A file
that is damaged, or that another user could have written, counts as missing. Nothing here is ever an error: without a
file, or without a place for it, the pass runs.

A file counts as used when it is read, and those not used for the longest time go when they have more than 256 MB.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256

import icf
import linkpass
from icf.cachefolder import LINKS, chosen_directory, is_own, problem_of_home, problem_of_owner
from icf.newfile import NewFile
from linkpass.link.kept_link import KeptLink

_LINK, _OBJECTS = ".link", ".objects"
_LIMIT_BYTES, _FILE_LIMIT_BYTES, _OBJECTS_LIMIT_BYTES = 256 << 20, 32 << 20, 128 << 20


class KeptLinks:
    """The directory of kept links; the first that is kept makes it."""

    def __init__(self) -> None:
        self._cache, self._home = chosen_directory()
        self._path = os.path.join(self._cache, LINKS)
        self._program: list[str] = []

    def load(self, command: Sequence[str]) -> KeptLink | None:
        """Return what was kept of this command in this directory, by this very version of the program."""
        content = self._read(command, _LINK, _FILE_LIMIT_BYTES)
        try:
            return KeptLink.parse(content) if content is not None else None
        except ValueError:
            return None

    def save(self, command: Sequence[str], kept: KeptLink) -> None:
        """Keep a link in place of the last one of this command, and make room for it."""
        self._write(command, _LINK, kept.to_bytes(), _FILE_LIMIT_BYTES)

    def load_objects(self, output: str) -> bytes | None:
        """Return what was kept of the objects of the last link to this file, by this very version of the program."""
        return self._read([output], _OBJECTS, _OBJECTS_LIMIT_BYTES)

    def save_objects(self, output: str, content: bytes) -> None:
        """Keep objects in place of those of the last link to this file, and make room for them."""
        self._write([output], _OBJECTS, content, _OBJECTS_LIMIT_BYTES)

    def _read(self, key: Sequence[str], suffix: str, limit_bytes: int) -> bytes | None:
        if problem_of_owner(self._cache) or problem_of_owner(self._path):
            return None
        try:
            path = self._file(key, suffix)
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(fd, "rb") as file:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode) or not is_own(status) or status.st_size > limit_bytes:
                    return None
                content = file.read(limit_bytes)
            with suppress(OSError):  # a directory that can only be read
                os.utime(path)
        except OSError:
            return None
        return content

    def _write(self, key: Sequence[str], suffix: str, content: bytes, limit_bytes: int) -> None:
        if len(content) > limit_bytes:
            return
        with suppress(OSError):
            self._make()
            with NewFile(self._path, ".") as out:
                rest = memoryview(content)
                while len(rest):
                    rest = rest[os.write(out.fd, rest) :]
                os.replace(out.name(), self._file(key, suffix))
            self._shrink()

    def _file(self, key: Sequence[str], suffix: str) -> str:
        if not self._program:
            self._program = [os.getcwd(), *_program()]
        return os.path.join(self._path, sha256(json.dumps([*key, *self._program]).encode()).hexdigest() + suffix)

    def _make(self) -> None:
        """Make the directory. Raise OSError if it is not, or would not be, this user's own."""
        if self._home and not os.path.isdir(self._cache) and problem_of_home(self._home):
            raise PermissionError(self._home)
        os.makedirs(self._cache, mode=0o700, exist_ok=True)
        if not problem_of_owner(self._cache):
            with suppress(FileExistsError):
                os.mkdir(self._path, mode=0o700)
        if problem_of_owner(self._cache) or problem_of_owner(self._path):
            raise PermissionError(self._path)

    def _shrink(self) -> None:
        with os.scandir(self._path) as listed:
            kept = [each for each in listed if each.name.endswith((_LINK, _OBJECTS))]
            found = [(each.stat(follow_symlinks=False), each.path) for each in kept]
        excess_bytes = sum(status.st_size for status, _ in found) - _LIMIT_BYTES
        for status, path in sorted(found, key=lambda each: each[0].st_mtime_ns):
            if excess_bytes <= 0:
                break
            with suppress(OSError):
                os.unlink(path)
                excess_bytes -= status.st_size


def _program() -> Iterator[str]:
    """Yield what identifies the code of this program: its files, with sizes and times."""
    for folder in (*icf.__path__, *linkpass.__path__):
        for path, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                if name.endswith((".py", ".so")):
                    status = os.stat(os.path.join(path, name))
                    yield f"{path}/{name} {status.st_size} {status.st_mtime_ns}"
