"""`icf resolve` of a recording."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from icf.errors import IcfError
from icf.log import note
from unwind.flow.progress import Progress
from unwind.flow.write_samples import write_samples
from unwind.options import losses_of
from unwind.output import open_output
from unwind.readers.formats import IN_TEXT
from unwind.readers.source import Source
from unwind.samples.recording import Recording, Sample
from unwind.target.given_places import is_placed, note_unplaced
from unwind.target.recorded import RecordedResolver
from unwind.target.recorded_objects import RecordedObjects
from unwind.target.search import SearchPaths
from unwind.writers.explained import ExplainedWriter
from unwind.writers.formats import open_writer
from unwind.writers.json_lines import JsonWriter
from unwind.writers.named import Ambiguous, Namer
from unwind.writers.protocol import Writer
from unwind.writers.text import TextWriter


def resolve_recording(args: Namespace, recording: Recording, source: Source, out_format: str) -> bool:
    """Write what each sample is; return whether any frame of any sample is known, or there was none.

    Raises `IcfError` for a recording that breaks a rule of its format; what was read before is written.
    """
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    namer = Namer(Ambiguous(args.ambiguous), with_lines=not args.no_lines, max_candidates=args.max_candidates)
    writer: Writer = open_writer(out_format, recording, namer)
    with ExitStack() as opened:
        losses, with_lines = losses_of(args, recording.losses), not args.no_lines
        resolver = RecordedResolver(search, source.images, losses=losses, with_lines=with_lines)
        opened.enter_context(resolver)
        if args.explain:
            assert isinstance(writer, (TextWriter, JsonWriter))
            writer = ExplainedWriter(writer, resolver.explained)
        source.objects = None if args.no_vptr else RecordedObjects(resolver, search)
        out = opened.enter_context(open_output(args))
        placed = Placed(recording.samples)
        samples = placed if recording.format in IN_TEXT else recording.samples
        with Progress(source.stream) as progress:
            written = write_samples(samples, resolver, writer, out, has_more=source.has_more, step=progress.step)
        resolver.report()
        if not written.samples and written.problem is None:
            if recording.format in IN_TEXT:
                raise IcfError(f"{source.path}: has no stack in the format {recording.format}")
            note(f"{source.path}: has no samples")
        if placed.unplaced_count:
            note_unplaced(source.path, placed.unplaced_count)
        return written.outcome()


class Placed:
    """Samples of a text, of which those are counted that have no frame in a module."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples, self.unplaced_count = samples, 0

    def __iter__(self) -> Iterator[Sample]:
        for sample in self._samples:
            self.unplaced_count += not is_placed(sample)
            yield sample
