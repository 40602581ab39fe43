"""Read perf.data, as `perf record` of perf 5 and 6 writes it: to a file or a pipe, compressed or not.

    records        the bytes as records: pieces of the file, zstd streams
    layout         numbers of the format
    header         where what is, events (`events`), build ids
    changes        mappings, forks, names of threads; processes and spaces: what was where at which time
    sample_fields  the parts of a sample; frames: call chains; names: what frames are of
    kernel         kernel functions (kallsyms, kernel_images); jitdumps, run_time_code: functions made at run time
    branches       stacks that the processor noted
    samples        all of it together
    recording      the two passes over a file

The file is read twice: the records of each CPU stand in blocks, so a mapping may stand after a sample that needs it.
Memory holds what changed in processes, and the distinct addresses, not the samples.
"""

from __future__ import annotations

from unwind.readers.perf_data.layout import MAGIC, MAGIC_OTHER_ENDIAN
from unwind.readers.source import Source
from unwind.samples.recording import Recording


def recognizes(head: bytes) -> bool:
    """Return whether a file begins as perf.data does."""
    return head.startswith((MAGIC, MAGIC_OTHER_ENDIAN))


def read(source: Source) -> Recording:
    """Return the recording; `FormatError` for what breaks the format, `UnsupportedError` for big-endian ones."""
    from unwind.readers.perf_data.recording import read_recording

    return read_recording(source)
