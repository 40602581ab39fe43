"""Hides the linker's output, so that the program has its name only when it has its tables.

A link can be killed at any moment, so a linker that writes to the name that the user gave leaves a program without
tables there. It is given a directory of its own beside that file instead:

    the user gave        -o bin/shop
    the driver still has -o bin/shop                        names of .d, .dwo, .gcda files and LTO temporaries
    the linker gets      -o bin/.icf-link-5f0c21d4/shop     the last -o counts, for gold, lld and mold
    in the end           rename to bin/shop                 after the pass, in one step

Names that the linker makes of its output (`shop.0.5.precodegen.bc`, `shop.time-trace`, `shop.dbg`) begin with the same
name in that directory, and are moved out of it. Text that has the name (dependency files, link maps, diagnostics)
has one path component more; without it, it is the text of a link that writes to the user's name. The image itself
does not contain its own name: it is the same to the byte.

The directory is locked for as long as this process or the linker lives. The lock distinguishes the directory of a
killed link from one in use, and the next link that writes there removes it.

A wrapper that does more than run a driver may expect the file under the user's name; so does a linker that updates
its last output. They write in place (`linkpass.link.driver`), and a comparison shows what the link wrote
(`Identity`): each of gold (in place), lld and mold (a new file) changes the inode, or size and times.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, Self

_PREFIX = ".icf-link-"
_TEXT_SIZE_LIMIT_BYTES = 1 << 30


class Identity(NamedTuple):
    """Fields that change whenever a file is written or replaced."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, path: str) -> Identity | None:
        """Return the identity of the file at a path; None if there is none."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return None
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_file(path: str) -> bool:
    """Return whether an output is, or will be, a file, and not a device."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


class HiddenOutput:
    """A directory beside `output` in which the linker writes; a context that removes it.

    `path` is the name for the linker; "" if the directory cannot be made, which the linker then reports.
    """

    def __init__(self, output: str) -> None:
        self.output = output
        self.path = ""
        self.names: Mapping[str, str] = {}  # of files that the linker reads -> of the user's
        self._directory, self._name = os.path.split(output)
        self._hidden = ""
        self._lock = -1

    def __enter__(self) -> Self:
        with suppress(OSError):
            _remove_left_behind(self._directory)
            while not self.path:
                self._hidden = os.path.join(self._directory, _PREFIX + os.urandom(4).hex())
                os.mkdir(self._hidden)
                self._lock = os.open(self._hidden, os.O_RDONLY | os.O_DIRECTORY)
                with suppress(OSError):  # a file system without locks: nothing is ever removed there
                    fcntl.flock(self._lock, fcntl.LOCK_EX)
                    os.set_inheritable(self._lock, True)  # the linker may outlive this process
                if os.path.isdir(self._hidden):  # another link did not remove it before it was locked
                    self.path = os.path.join(self._hidden, self._name)
                else:
                    os.close(self._lock)
        return self

    def is_written(self) -> bool:
        """Return whether the linker has written the program."""
        return bool(self.path) and os.path.isfile(self.path)

    def shown(self, text: str) -> str:
        """Return a text as it would be if the linker had written to the user's name, and read the user's files."""
        for own, users in self._replaced():
            text = text.replace(own, users)
        return text

    def shown_bytes(self, text: bytes) -> bytes:
        """Return the same for bytes."""
        for own, users in self._replaced():
            text = text.replace(os.fsencode(own), os.fsencode(users))
        return text

    def _replaced(self) -> Iterator[tuple[str, str]]:
        yield from self.names.items()
        if self.path:
            yield os.path.basename(self._hidden) + "/", ""

    def publish(self, texts: tuple[str, ...] = ()) -> None:
        """Rename all files to their own names, the program last; `texts` are files that the linker wrote elsewhere."""
        for path in texts:
            self._correct(path)
        self.publish_others()
        os.replace(self.path, self.output)

    def publish_others(self) -> None:
        """Rename all files but the program to their own names: with --lto-emit-asm there is no program."""
        for name in sorted(os.listdir(self._hidden)) if self.path else ():
            if name != self._name:
                os.replace(os.path.join(self._hidden, name), os.path.join(self._directory, name))

    def __exit__(self, *_: object) -> None:
        if self._lock >= 0:
            _remove(self._hidden, self._lock)
            os.close(self._lock)

    def _correct(self, path: str) -> None:
        """Remove the directory from the names in a text file."""
        if not os.path.isfile(path) or os.path.getsize(path) > _TEXT_SIZE_LIMIT_BYTES:
            return
        with open(path, "r+b") as file:
            text = file.read()
            corrected = self.shown_bytes(text)
            if corrected != text:
                file.seek(0)
                file.write(corrected)
                file.truncate()


def _remove_left_behind(directory: str) -> None:
    """Remove the directories of killed links."""
    with os.scandir(directory or ".") as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_PREFIX)]
    for name in names:
        path = os.path.join(directory, name)
        with suppress(OSError):  # another user's, or already removed
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path, lock)
            finally:
                os.close(lock)


def _remove(path: str, directory: int) -> None:
    """Remove one of these directories, open as `directory`; linkers make no directories in it."""
    with suppress(OSError):
        for name in os.listdir(directory):
            os.unlink(name, dir_fd=directory)
        os.rmdir(path)
