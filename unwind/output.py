"""Where a command writes its results: standard output, or a file that appears when it is complete."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from icf.errors import IcfError
from icf.newfile import NewFile
from icf.overwriting import refuse_to_overwrite

STDOUT = "-"
_INPUTS = ("stacks", "file", "exe", "modules", "debug_file", "core", "minidump", "log", "trace", "which")


def check_output(args: Namespace) -> None:
    """Raise `IcfError` if the file that a command writes is one that it reads."""
    inputs = [getattr(args, name, None) for name in _INPUTS]
    refuse_to_overwrite(args.output, [*filter(_is_path, inputs), *getattr(args, "files", ())])


def _is_path(value: object) -> bool:
    return isinstance(value, str)


@contextmanager
def open_output(args: Namespace) -> Iterator[BinaryIO]:
    """Open the file that results go to (`-o`), standard output without one; on an error a file is left as it was.

    Raises `IcfError` where the file cannot be written, or is one that the command reads.
    """
    check_output(args)
    path: str | None = args.output
    if path is None or path == STDOUT:
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
