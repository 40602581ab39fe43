"""Stacks in Parquet files, which a process of their own reads (`unwind.arrow.reading`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import pyarrow as pa

from icf.errors import FormatError
from icf.filebytes import FileBytes
from unwind.arrow.stacks import ADDRESSES, EXACT_PCS, MODULE, VPTRS, WEIGHT, StackReader
from unwind.samples.calls import stacks_at
from unwind.samples.recording import Losses, Sample

LOSSES = b"icf.losses"  # in the metadata of the schema: which frames the stacks may lack
_SECTION = "Parquet"
_MESSAGE_BYTES = 1000
_MODULE = "unwind.arrow.reading"


class ParquetStacks:
    """The stacks of a file, which are read once: as batches, or as samples.

    Args:
        content: the file.
        image: path of the image that stacks without modules are of.

    Raises:
        FormatError: the file is damaged.
    """

    def __init__(self, content: FileBytes, image: str | None) -> None:
        self.path, self._image = content.path, image
        self._errors = TemporaryFile()
        self._process = start_reading(content.fileno(), self._errors)
        assert self._process.stdout is not None
        with self._problems():
            self._stream = pa.ipc.open_stream(pa.PythonFile(self._process.stdout, mode="r"))

    @property
    def losses(self) -> Losses:
        """The frames that the stacks may lack, as the file says; those of frame pointers, if it says nothing."""
        text = (self._stream.schema.metadata or {}).get(LOSSES, Losses.FRAME_POINTERS.value.encode())
        try:
            return Losses(text.decode("ascii", "replace"))
        except ValueError:
            names = ", ".join(each.value for each in Losses)
            problem = f"{LOSSES.decode()} is {text[:30]!r}, must be one of {names}"
            raise FormatError(self.path, _SECTION, 0, problem) from None

    def batches(self) -> Iterator[Any]:
        """Yield record batches with the columns that are known; `FormatError` where the file is damaged."""
        try:
            while True:
                with self._problems():
                    batch = next(self._stream, None)
                if batch is None:
                    break
                yield batch
            if self._process.wait():
                raise self._problem()
        finally:
            self.close()

    def close(self) -> None:
        """End the process that reads."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def __iter__(self) -> Iterator[Sample]:
        reader = StackReader(self.path, self._image)
        for batch in self.batches():
            stacks = reader.read(batch)
            table = reader.table
            roots = np.array([table.calls.root(process) for process in stacks.processes], np.uint64)
            numbers, _ = table.keep(stacks.addresses, stacks.kinds, stacks.starts, roots[stacks.process])
            found = stacks_at(table.calls, table.nodes[numbers].tolist())
            for row, (number, frames) in enumerate(zip(numbers.tolist(), found, strict=True)):
                process = stacks.processes[stacks.process[row]]
                vptrs = stacks.vptrs.get(row, ()) if len(process.modules) == 1 else ()
                weights = (int(stacks.weights[row]),)
                yield Sample(frames, process, weights, vptrs=vptrs, is_called=table.is_called(number))

    @contextmanager
    def _problems(self) -> Iterator[None]:
        """Turn a stream that ends early into the error that the process has reported."""
        try:
            yield
        except (pa.ArrowException, OSError, EOFError) as error:
            problem = self._problem()
            self.close()
            raise problem from error

    def _problem(self) -> FormatError:
        """Return what has ended the process that reads."""
        status = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read(_MESSAGE_BYTES).decode("utf-8", "replace")
        if status < 0:
            text = f"pyarrow ended with {signal.Signals(-status).name} when it read the file, which is damaged"
        return FormatError(self.path, _SECTION, 0, " ".join(text.split()) or "the file is damaged")


def start_reading(fd: int, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process that reads a file; its output is a stream of record batches."""
    command = [sys.executable, "-P", "-m", _MODULE, str(fd)]
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}  # others reserve more than they use
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, pass_fds=[fd], env=environment
    )


def schema_of_stacks(losses: Losses) -> Any:
    """Return the schema of stacks as readers write them."""
    fields = [
        (ADDRESSES, pa.list_(pa.uint64())),
        (WEIGHT, pa.int64()),
        (MODULE, pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        (EXACT_PCS, pa.list_(pa.bool_())),
        (VPTRS, pa.list_(pa.uint64())),
    ]
    return pa.schema(fields, metadata={LOSSES: losses.value.encode()})
