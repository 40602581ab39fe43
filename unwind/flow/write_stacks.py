"""`icf resolve --out stacks`: the stacks of a recording as they are, for `--format parquet` or an engine elsewhere."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa

from unwind.arrow.files import schema_of_stacks
from unwind.arrow.sink import GROUP_ROWS, ParquetPieces
from unwind.process.image_finder import ImageFinder
from unwind.samples.recording import Losses, Recording
from unwind.samples.together import together
from unwind.target.linked_stacks import LinkedStacks
from unwind.target.recorded_images import RecordedImages


def write_stacks(
    recording: Recording, images: ImageFinder, losses: Losses, cache_dir: str | None, out: BinaryIO
) -> int:
    """Write a row for each sample; return how many there are. Nothing is resolved."""
    stacks, schema = LinkedStacks(RecordedImages(images, cache_dir)), schema_of_stacks(losses)
    pieces, count = ParquetPieces(schema), 0
    for part in together(recording, lambda sample: len(sample.frames), limit=GROUP_ROWS):
        moved = [stacks.of(sample) for sample in part]
        columns = [
            [each.addresses for each in moved],
            [sample.weights[0] for sample in part],
            [each.modules for each in moved],
            [each.exact for each in moved],
            [each.vptrs for each in moved],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        out.writelines(pieces.write(pa.RecordBatch.from_arrays(arrays, schema=schema)))
        count += len(part)
    out.writelines(pieces.end())
    return count
