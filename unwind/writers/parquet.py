"""Write resolved samples as Parquet: a row for each, in order (`unwind.arrow.answers` lists the columns)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unwind.arrow import need_pyarrow
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Recording
from unwind.samples.together import FRAMES
from unwind.writers.named import Namer
from unwind.writers.protocol import Writer


def open_writer(recording: Recording, namer: Namer) -> Writer:
    """Return what writes samples; `IcfError` without pyarrow."""
    need_pyarrow()
    return ParquetWriter(with_lines=namer.with_lines)


class ParquetWriter:
    """Writes the answers for samples, some thousands at a time."""

    def __init__(self, *, with_lines: bool = True) -> None:
        from unwind.arrow.answers import SCHEMA
        from unwind.arrow.frames import FrameTable
        from unwind.arrow.sink import GROUP_ROWS, ParquetPieces

        self._frames, self._pieces = FrameTable(with_lines=with_lines), ParquetPieces(SCHEMA)
        self._group_rows = GROUP_ROWS
        self._waiting: list[Resolved] = []
        self._frame_count = 0  # of those that wait

    def write(self, resolved: Resolved) -> bytes:
        """Keep a sample; return what can be written."""
        return b"".join(self.write_batch((resolved,)))

    def write_batch(self, batch: Sequence[Resolved]) -> Iterator[bytes]:
        """Keep some samples; yield what can be written."""
        self._waiting += batch
        self._frame_count += sum([len(each.answers) for each in batch])
        if len(self._waiting) >= self._group_rows or self._frame_count >= FRAMES:
            yield from self._written()

    def end(self) -> Iterator[bytes]:
        """Yield the rest."""
        if self._waiting:
            yield from self._written()
        yield from self._pieces.end()

    def _written(self) -> Iterator[bytes]:
        import pyarrow as pa

        from unwind.arrow.answers import SCHEMA

        stacks = [each.answers for each in self._waiting]
        starts = np.zeros(len(stacks) + 1, np.uint64)
        np.cumsum([len(each) for each in stacks], out=starts[1:])
        rows = np.array([self._frames.row(answer) for stack in stacks for answer in stack], np.uint32)
        addresses = pa.array([answer.address for stack in stacks for answer in stack], pa.uint64())
        weights = pa.array([each.sample.weights[0] for each in self._waiting], pa.int64())
        problems = pa.nulls(len(stacks), SCHEMA.field("problem").type)
        self._waiting.clear()
        self._frame_count = 0
        frames = self._frames.frames(rows, starts, addresses)
        yield from self._pieces.write(pa.RecordBatch.from_arrays([frames, weights, problems], schema=SCHEMA))
