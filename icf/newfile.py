"""A new file that has no name until it is complete, so that an error leaves nothing.

It has no name (O_TMPFILE) while it is written, and disappears with the process, however that ends. It gets a name
beside the file that it replaces for the moment between two system calls, since only a name can replace another. On
a file system without O_TMPFILE it has that name from the start, and an error or a signal that can be caught removes it.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Self

_NO_UNNAMED_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}


class NewFile:
    """A new file in `directory`; it disappears unless it gets a name and replaces another file."""

    def __init__(self, directory: str, prefix: str) -> None:
        self._directory, self._prefix = directory, prefix
        self._name = ""

    def __enter__(self) -> Self:
        try:
            self.fd = os.open(self._directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            self.path = f"/proc/self/fd/{self.fd}"
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
            self._make_name()
            self.fd = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            self.path = self._name
        return self

    def _make_name(self) -> None:
        # set before the file exists: a signal at any time then removes the file
        self._name = os.path.join(self._directory, self._prefix + os.urandom(8).hex())

    def name(self) -> str:
        """Return the name, which the file gets now if it had none."""
        if not self._name:
            self._make_name()
            os.link(self.path, self._name, src_dir_fd=self.fd, follow_symlinks=True)  # with a descriptor: linkat
        return self._name

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        os.close(self.fd)
        if kind is not None and self._name:
            with suppress(FileNotFoundError):  # it has replaced the other already, or has no name yet
                os.unlink(self._name)
