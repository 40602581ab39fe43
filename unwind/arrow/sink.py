"""Parquet as pieces of bytes, for writers that return what can be written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_ROWS = 1 << 14  # of a row group, fewer where stacks have many frames

# Statistics of each column take as long as all else, and say nothing of a list. pyarrow cuts the rows of a list into
# pieces of 1,024 values otherwise.
OPTIONS: dict[str, Any] = {"compression": "zstd", "write_statistics": ["weight"], "write_batch_size": 1 << 14}


class ParquetPieces:
    """Writes record batches of one schema; each row group is complete when its batch was written."""

    def __init__(self, schema: Any) -> None:
        self._sink = _Pieces()
        self._writer = pq.ParquetWriter(pa.PythonFile(self._sink, mode="w"), schema, **OPTIONS)

    def write(self, batch: Any) -> Iterator[bytes]:
        """Yield what a batch adds to the file."""
        self._writer.write_batch(batch)
        yield self._sink.take()

    def end(self) -> Iterator[bytes]:
        """Yield the end of the file."""
        self._writer.close()
        yield self._sink.take()


class _Pieces:
    """A file that keeps what was written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size_bytes = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size_bytes += len(piece)
        return len(piece)

    def take(self) -> bytes:
        pieces, self._pieces = b"".join(self._pieces), []
        return pieces

    def tell(self) -> int:
        return self._size_bytes

    def flush(self) -> None:
        """Do nothing: all is in memory."""

    def close(self) -> None:
        self.closed = True
