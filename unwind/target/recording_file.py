"""Open a recording, and resolve its samples.

import unwind

with unwind.open_recording("perf.data") as samples:
    for sample, answers in samples:
        print(sample.weights, [answer.name or answer.linkage_names for answer in answers])
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from icf.errors import IcfError
from unwind.process.image_finder import ImageFinder
from unwind.readers.formats import PCS, reader_of, recognize
from unwind.readers.source import Source
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Losses
from unwind.target.recorded import RecordedResolver
from unwind.target.recorded_objects import RecordedObjects
from unwind.target.search import SearchPaths


@contextmanager
def open_recording(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    image: str | None = None,
    losses: Losses | None = None,
    module_roots: Sequence[str] = (),
    debug_roots: Sequence[str] = (),
    cache_dir: str | None = None,
    shared_caches: Sequence[str] = (),
    use_vptrs: bool = True,
) -> Iterator[Iterator[Resolved]]:
    """Open a recording of a profiler or a crash tool, and resolve its samples as they are asked for.

    Args:
        path: of the file, or `-` for standard input.
        format: its name as `icf resolve --format` has it; None: the content tells.
        image: the image to take for the module of its build, or of its name where no build is recorded.
        losses: the frames that the stacks may lack; None: what the format says.
        module_roots: further directories to search for modules, by build id and by path.
        debug_roots: further directories to search for debug files.
        cache_dir: the directory of symcaches; None: the user's.
        shared_caches: directories of symcaches that are only read.
        use_vptrs: whether vtable pointers of objects in copied stacks count.

    Returns:
        A context manager for an iterator of (sample, answers), one answer for each frame, innermost first.

    Raises:
        IcfError: the file cannot be opened, or is in no format that is known.
        FormatError: the file breaks a rule of its format; the samples before are given first.
    """
    with Source.open(os.fspath(path), ImageFinder(module_roots, debug_roots, image)) as source:
        name = format or recognize(source)
        if name == PCS:
            raise IcfError(f"{source.path}: these stacks are addresses alone", hint="use read_pcs and open_resolver")
        recording = reader_of(name).read(source)
        search = SearchPaths(None, debug_roots, cache_dir, shared_caches)
        losses = recording.losses if losses is None else losses
        with RecordedResolver(search, source.images, losses=losses) as resolver:
            source.objects = RecordedObjects(resolver, search) if use_vptrs else None
            yield chain.from_iterable(resolver.batches(recording))
            resolver.report()
