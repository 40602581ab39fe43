"""Read stacks from a Parquet file in a process of its own, and write their columns to a pipe, as an Arrow stream.

pyarrow 26 aborts on some damaged files: what it raises while it reads the metadata is not caught everywhere. And a run
of equal values takes a few bytes of a file, whatever its length: 943 bytes hold a stack of 100 million frames. So the
process that resolves stacks never opens such a file. This one does, with a limit on its memory; it checks the counts
that the file states before it reads, and reads fewer rows at a time where they are deep.

    python -P -m unwind.arrow.reading FD        what is wrong is one line on stderr, and exit status 1
"""

from __future__ import annotations

import resource
import sys
from typing import Any, BinaryIO, TextIO

COLUMNS = ("addresses", "weight", "module", "exact", "vptrs")
_VALUE_LIMIT = 1 << 27  # of one column of a row group
_BYTES_LIMIT = 1 << 31  # of one column of a row group, uncompressed
_MEMORY_BYTES = 3 << 30
_VALUES_TOGETHER, _ROWS_TOGETHER = 1 << 22, 1 << 16


def copy_columns(path: str, out: BinaryIO) -> None:
    """Write the columns of a file that are known as an Arrow stream; ValueError for counts that are too large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, pre_buffer=False)
    paths = [file.schema.column(idx).path for idx in range(len(file.schema.names))]
    coded = [each for each in paths if each.partition(".")[0] == "module"]  # few distinct texts: left as they are there
    file = pq.ParquetFile(path, pre_buffer=False, read_dictionary=coded)
    wanted = [name for name in COLUMNS if name in file.schema_arrow.names]
    deepest = _check(file.metadata)
    rows_together = int(min(max(_VALUES_TOGETHER / deepest, 1), _ROWS_TOGETHER))
    schema = pa.schema([file.schema_arrow.field(name) for name in wanted], metadata=file.schema_arrow.metadata)
    writer = None
    for batch in file.iter_batches(rows_together, columns=wanted, use_threads=False):
        if writer is None:
            schema = batch.schema.with_metadata(schema.metadata)
            writer = pa.ipc.new_stream(out, schema)
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    (writer or pa.ipc.new_stream(out, schema)).close()


def _check(metadata: Any) -> float:
    """Return how many values a row has on average, in the row group and column where it has most."""
    deepest = 1.0
    for group_idx in range(metadata.num_row_groups):
        group = metadata.row_group(group_idx)
        for idx in range(group.num_columns):
            chunk = group.column(idx)
            name, count, size_bytes = chunk.path_in_schema, chunk.num_values, chunk.total_uncompressed_size
            if name.partition(".")[0] not in COLUMNS:
                continue
            if not (0 <= count <= _VALUE_LIMIT and 0 <= size_bytes <= _BYTES_LIMIT):
                raise ValueError(
                    f"row group {group_idx}: {name} has {count} values in {size_bytes} bytes,"
                    f" may have {_VALUE_LIMIT} in {_BYTES_LIMIT}"
                )
            deepest = max(deepest, count / max(group.num_rows, 1))
    return deepest


def main(fd: int, out: BinaryIO, errors: TextIO) -> int:
    """Copy the columns of a file to a pipe, with a limit on the memory of this process; return its exit status."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        copy_columns(f"/proc/self/fd/{fd}", out)
        out.flush()
    except BrokenPipeError:
        return 1
    except Exception as error:  # pyarrow has no base class for all that it raises
        errors.write(" ".join(str(error).split())[:300] or type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.stdout.buffer, sys.stderr))
