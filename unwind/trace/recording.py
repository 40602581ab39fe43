"""A trace as a recording: samples that are instructions with their callers, weights that count how often they ran."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from icf.elf.types import ET_DYN
from icf.errors import IcfError, UnsupportedError
from icf.image import open_image
from unwind.samples.recording import RecordedModule, RecordedProcess, Recording, Sample, Value
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.container import TraceFile
from unwind.trace.cores import samples_of_cores
from unwind.trace.modules import find_modules, read_modules
from unwind.trace.reader import TraceReader
from unwind.trace.seek import read_head
from unwind.trace.stacks import TraceStacks

FORMAT = "drmemtrace"
_WANTED = c.KEEP_INSTRUCTIONS | c.KEEP_DATA | c.KEEP_MARKERS


def recording_of(path: str, files: Sequence[str], image: str | None, modules: str | None = None) -> Recording:
    """Return the recording of a trace; `IcfError` where nothing says what it is of (`process_of`)."""
    process = process_of(path, image, modules)
    ranges = [(module.start, module.end) for module in process.modules]
    if image is not None and process.modules[:1] == [RecordedModule(image)]:
        opened = open_image(image)
        ranges = [opened.span]
        opened.close()
    samples = _samples(files, process, ranges, is_whole=os.path.isdir(path))
    return Recording(FORMAT, samples, (Value("instructions", "count"),))


def process_of(path: str, image: str | None, modules: str | None = None) -> RecordedProcess:
    """Return the process of a trace.

    Where its modules lay is in `modules`, or in the trace's own `modules.log`; without one all of it is in `image`, at
    its addresses as linked.

    Raises `IcfError` where neither is known, and for an image that the loader may have moved anywhere.
    """
    listed = modules or find_modules(path)
    if listed is not None:
        return read_modules(listed)
    if image is not None:
        with open_image(image) as opened:
            if opened.elf_type == ET_DYN:
                problem = f"{path}: has no modules.log, and {image} is position-independent: nothing says where it lay"
                raise IcfError(problem, hint="--modules FILE")
        return RecordedProcess(modules=[RecordedModule(image)])
    raise IcfError(f"{path}: has no modules.log: nothing says what it is of", hint="-e IMAGE, or --modules FILE")


def _samples(
    files: Sequence[str], process: RecordedProcess, ranges: Sequence[tuple[int, int]], *, is_whole: bool
) -> Iterator[Sample]:
    cores: dict[str, list[str]] = {}  # by directory: one for each window
    for path in files:
        filetype = _filetype(path)
        if filetype & (k.IS_FILTERED | k.IS_INSTRUCTION_FILTERED):
            raise UnsupportedError(f"{path}: instructions were filtered out of it, so calls are missing")
        if filetype & k.IS_CORE_SHARDED:
            cores.setdefault(os.path.dirname(path), []).append(path)
            continue
        with TraceFile(path) as file:
            yield from TraceStacks(TraceReader(file, _WANTED), process, ranges).samples()
    for of_window in cores.values():
        yield from samples_of_cores(of_window, process, ranges, is_whole=is_whole)


def _filetype(path: str) -> int:
    with TraceFile(path) as file:
        head = TraceReader(file, 0)
        read_head(head)
        return int(head.state[c.FILETYPE])
