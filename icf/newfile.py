"""A file that is written: without a name first, so that nothing of it stays whatever goes wrong.

It has no name (O_TMPFILE) while it is being written and is gone with the process, however that ends. It gets a name
beside the file that it replaces for the moment between two system calls, since only a name can replace another. Where
a file system knows no such files it has that name from the start, and an error or a signal that can be caught takes
it away.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Self

_NO_UNNAMED_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}


class NewFile:
    """A new file in `directory`; unless it gets a name, and that another, nothing of it stays."""

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
        # known before the file has it: whatever signal comes in between, the file is taken away
        self._name = os.path.join(self._directory, self._prefix + os.urandom(8).hex())

    def name(self) -> str:
        """Return the name, given to it now if it had none."""
        if not self._name:
            self._make_name()
            os.link(self.path, self._name, src_dir_fd=self.fd, follow_symlinks=True)  # with a descriptor: linkat
        return self._name

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        os.close(self.fd)
        if kind is not None and self._name:
            with suppress(FileNotFoundError):  # it has replaced the other already, or has no name yet
                os.unlink(self._name)
