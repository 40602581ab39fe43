"""Resolves samples and writes them, some thousands at a time, or added up where a format shows no single sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import BinaryIO, NamedTuple

from icf.errors import IcfError
from icf.model import Verdict
from unwind.resolve.resolved import AnsweredSums, Resolved
from unwind.samples.recording import Sample
from unwind.target.recorded import RecordedResolver
from unwind.writers.protocol import BatchWriter, SumsWriter, Writer


class Written(NamedTuple):
    """What a recording had."""

    samples: int
    is_any_known: bool  # any frame
    problem: IcfError | None  # what ended the recording early

    def outcome(self) -> bool:
        """Return whether any frame is known, or there was none; raises the problem."""
        if self.problem is not None:
            raise self.problem
        return self.is_any_known or not self.samples


def write_samples(
    samples: Iterable[Sample],
    resolver: RecordedResolver,
    writer: Writer,
    out: BinaryIO,
    *,
    has_more: Callable[[], bool] = lambda: True,
    step: Callable[[int], None] = lambda _: None,
) -> Written:
    """Write what samples are.

    Args:
        samples: of one recording.
        resolver: of its processes.
        writer: of the format that is wanted.
        out: where it goes.
        has_more: whether more samples can be read at once; if not, what was read is answered and written.
        step: called with the number of samples that were written.

    Returns:
        What the recording had; if something ended it early, what was read before is written.
    """
    problem: IcfError | None = None
    is_any_known, count = False, 0
    add_up = isinstance(writer, SumsWriter)
    try:
        for part in (resolver.added_up if add_up else resolver.batches)(samples, has_more):
            if isinstance(part, AnsweredSums):
                assert isinstance(writer, SumsWriter)
                out.writelines(writer.write_sums(part))
                part_count = part.sample_count
            else:
                if isinstance(writer, BatchWriter):
                    out.writelines(writer.write_batch(part))
                else:
                    out.writelines(map(writer.write, part))
                part_count = len(part)
            is_any_known = is_any_known or _is_any_known(part)
            if not has_more():
                out.flush()
            count += part_count
            step(part_count)
    except IcfError as error:
        problem = error
    for piece in writer.end():
        out.write(piece)
    return Written(count, is_any_known, problem)


def _is_any_known(part: AnsweredSums | list[Resolved]) -> bool:
    if isinstance(part, AnsweredSums):
        return any(answer.verdict is not Verdict.UNKNOWN for answer in part.tree.answers) or _is_any_known(
            [each.resolved for each in part.whole]
        )
    return any(answer.verdict is not Verdict.UNKNOWN for resolved in part for answer in resolved.answers)
