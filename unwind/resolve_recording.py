"""`icf resolve` of a recording."""

from __future__ import annotations

from argparse import Namespace
from contextlib import ExitStack

from unwind.options import losses_of
from unwind.output import open_output
from unwind.progress import Progress
from unwind.readers.source import Source
from unwind.samples.recording import Recording
from unwind.target.recorded import RecordedResolver
from unwind.target.recorded_objects import RecordedObjects
from unwind.target.search import SearchPaths
from unwind.write_samples import write_samples
from unwind.writers.formats import open_writer
from unwind.writers.named import Ambiguous, Namer


def resolve_recording(args: Namespace, recording: Recording, source: Source, out_format: str) -> bool:
    """Write what each sample is; return whether any frame of any sample is known, or there was none.

    Raises `IcfError` for a recording that breaks a rule of its format; what was read before is written.
    """
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    namer = Namer(Ambiguous(args.ambiguous), with_lines=not args.no_lines, max_candidates=args.max_candidates)
    writer = open_writer(out_format, recording, namer)
    with ExitStack() as opened:
        losses, with_lines = losses_of(args, recording.losses), not args.no_lines
        resolver = RecordedResolver(search, source.images, losses=losses, with_lines=with_lines)
        opened.enter_context(resolver)
        source.objects = None if args.no_vptr else RecordedObjects(resolver, search)
        out = opened.enter_context(open_output(args.output))
        with Progress(source.stream) as progress:
            is_any_known, problem = write_samples(
                recording.samples, resolver, writer, out, has_more=source.has_more, step=progress.step
            )
        resolver.report()
        if problem is not None:
            raise problem
        return is_any_known
