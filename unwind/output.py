"""Where a command writes its results: standard output, or a file that appears when it is complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from icf.errors import IcfError
from icf.newfile import NewFile


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Open the file that results go to, standard output for None; on an error a file is left as it was.

    Raises `IcfError` where the file cannot be written.
    """
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    directory, name = os.path.split(os.path.abspath(path))
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a device, a pipe
            with open(path, "wb") as stream:
                yield stream
            return
        with NewFile(directory, f".{name}.") as new:
            with open(new.fd, "wb", closefd=False) as stream:
                yield stream
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(new.fd, 0o666 & ~mask)
            os.replace(new.name(), path)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise IcfError(f"{path}: {error.strerror}") from error
