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
from unwind.resolve.resolved import AnsweredSums, Resolved
from unwind.samples.recording import Recording, Sample
from unwind.target.recorded import RecordedResolver
from unwind.target.recorded_objects import RecordedObjects
from unwind.target.search import SearchPaths
from unwind.writers.formats import open_writer
from unwind.writers.named import Ambiguous, Namer
from unwind.writers.protocol import BatchWriter, SumsWriter, Writer


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
        source.objects = None if args.no_vptr else RecordedObjects(resolver, search)
        out = opened.enter_context(open_output(args.output))
        with Progress(source.stream) as progress:
            is_any_known, problem = _resolve(recording.samples, source, resolver, writer, out, progress)
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
    add_up = isinstance(writer, SumsWriter)
    try:
        for part in (resolver.added_up if add_up else resolver.batches)(samples, source.has_more):
            if isinstance(part, AnsweredSums):
                assert isinstance(writer, SumsWriter)
                out.writelines(writer.write_sums(part))
                part_count = part.sample_count
            else:
                if isinstance(writer, BatchWriter):
                    out.writelines(writer.write_batch(part))
                else:
                    out.write(b"".join(map(writer.write, part)))
                part_count = len(part)
            is_any_known = is_any_known or _is_any_known(part)
            if not source.has_more():
                out.flush()
            count += part_count
            progress.step(part_count)
    except IcfError as error:
        problem = error
    for piece in writer.end():
        out.write(piece)
    return is_any_known or not count, problem


def _is_any_known(part: AnsweredSums | list[Resolved]) -> bool:
    if isinstance(part, AnsweredSums):
        return any(answer.verdict is not Verdict.UNKNOWN for answer in part.tree.answers) or _is_any_known(
            [each.resolved for each in part.whole]
        )
    return any(answer.verdict is not Verdict.UNKNOWN for resolved in part for answer in resolved.answers)
