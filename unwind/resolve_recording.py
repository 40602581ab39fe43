"""Resolve a recording: samples are read, resolved and written some thousands at a time.

Where nothing more waits in a pipe, what was read is answered at once.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from contextlib import ExitStack
from typing import BinaryIO

from icf.errors import IcfError
from icf.model import Verdict
from unwind.options import losses_of
from unwind.output import open_output
from unwind.progress import Progress
from unwind.readers.source import Source
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Recording, Sample
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.formats import ADDED_UP, open_writer
from unwind.writers.named import Ambiguous, Namer
from unwind.writers.protocol import Writer


def resolve_recording(args: Namespace, recording: Recording, source: Source, out_format: str) -> bool:
    """Write what each sample is; return whether any frame of any sample is known, or there was none.

    Raises `IcfError` for a recording that breaks a rule of its format; what was read before is written.
    """
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    writer = open_writer(out_format, recording, Namer(Ambiguous(args.ambiguous), with_lines=not args.no_lines))
    with ExitStack() as opened:
        losses, with_lines = losses_of(args, recording.losses), not args.no_lines
        resolver = RecordedResolver(search, source.images, losses=losses, with_lines=with_lines)
        opened.enter_context(resolver)
        out = opened.enter_context(open_output(args.output))
        samples = recording.added_up() if recording.added_up and out_format in ADDED_UP else recording
        with Progress(source.stream) as progress:
            is_any_known, problem = _resolve(samples, source, resolver, writer, out, progress)
        resolver.report()
        if problem is not None:
            raise problem
        return is_any_known


def _resolve(
    samples: Iterable[Sample],
    source: Source,
    resolver: RecordedResolver,
    writer: Writer,
    out: BinaryIO,
    progress: Progress,
) -> tuple[bool, IcfError | None]:
    """Return whether any frame is known, or there was none, and what ended the recording early."""
    problem: IcfError | None = None
    is_any_known, count = False, 0
    try:
        for batch in resolver.batches(samples, source.has_more):
            out.write(b"".join(map(writer.write, batch)))
            is_any_known = is_any_known or any(map(_is_known, batch))
            if not source.has_more():
                out.flush()
            count += len(batch)
            progress.step(len(batch))
    except IcfError as error:
        problem = error
    for piece in writer.end():
        out.write(piece)
    return is_any_known or not count, problem


def _is_known(resolved: Resolved) -> bool:
    return any(answer.verdict is not Verdict.UNKNOWN for answer in resolved.answers)
