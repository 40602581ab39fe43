"""Read stacks in Parquet: columns of addresses and weights (`unwind.arrow.stacks` lists them)."""

from __future__ import annotations

from unwind.arrow import need_pyarrow
from unwind.readers.source import Source
from unwind.samples.recording import Recording

_MAGIC = b"PAR1"


def recognizes(head: bytes) -> bool:
    """Return whether a file is Parquet."""
    return head.startswith(_MAGIC)


def read(source: Source) -> Recording:
    """Return the stacks; `FormatError` for a file that is damaged, `IcfError` without pyarrow."""
    need_pyarrow()
    from unwind.arrow.files import ParquetStacks

    stacks = ParquetStacks(source.content(), source.images.given_path)
    return Recording("parquet", stacks, losses=stacks.losses)
