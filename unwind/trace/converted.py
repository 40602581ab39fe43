"""A log of lackey on disk to a trace on disk, which appears when it is whole."""

from __future__ import annotations

import os
import tempfile

from icf.errors import IcfError
from icf.image import open_image
from unwind.trace import layout as k
from unwind.trace.lackey import convert
from unwind.trace.writer import TraceWriter

_SUFFIXES = (".zip", ".gz")


def convert_log(log: str, image_path: str, output: str, chunk_size: int) -> int:
    """Write the trace of a log; return how many instructions it has.

    Raises `IcfError` for a log that is not lackey's or of another program; the output is then left as it was.
    """
    image = open_image(image_path)
    suffix = next((each for each in _SUFFIXES if output.endswith(each)), "")
    machine = image.machine
    filetype = k.HAS_ENCODINGS | (k.IS_X86_64 if machine.name == "X86_64" else k.IS_AARCH64)
    try:
        with (
            open(log, "rb") as lines,
            tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(output)), prefix=".icf-") as folder,
        ):
            new = os.path.join(folder, f"new{suffix}")
            with TraceWriter(new, filetype=filetype, chunk_size=chunk_size) as trace:
                count = convert(lines, log, lambda at, size: bytes(image.read(at, size)), machine, trace)
            os.replace(new, output)
    except OSError as error:
        raise IcfError(f"{error.filename or output}: {error.strerror}") from error
    finally:
        image.close()
    return count
