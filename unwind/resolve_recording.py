"""Resolve a recording: samples are read, resolved and written some thousands at a time.

Where nothing more waits in a pipe, what was read is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from icf.errors import IcfError
from icf.model import Verdict
from unwind.progress import Progress
from unwind.resolve.resolved import Resolved
from unwind.samples.recording import Recording, Sample
from unwind.target.recorded import RecordedResolver
from unwind.writers.protocol import Writer

_TOGETHER = 4096  # samples


def resolve_recording(
    recording: Recording,
    resolver: RecordedResolver,
    writer: Writer,
    out: BinaryIO,
    progress: Progress,
    has_more: Callable[[], bool],
) -> bool:
    """Write what each sample is; return whether any frame of any sample is known, or there was none.

    Raises `IcfError` for a recording that breaks a rule of its format; what was read before is written.
    """
    together: list[Sample] = []
    problem: IcfError | None = None
    is_any_known, count = False, 0

    def write() -> None:
        nonlocal is_any_known, count
        for resolved in resolver.resolve(together):
            out.write(writer.write(resolved))
            is_any_known = is_any_known or _is_known(resolved)
        count += len(together)
        progress.step(len(together))
        together.clear()

    try:
        for sample in recording:
            together.append(sample)
            if len(together) == _TOGETHER:
                write()
            elif not has_more():
                write()
                out.flush()
    except IcfError as error:
        problem = error
    write()
    for piece in writer.end():
        out.write(piece)
    progress.done()
    resolver.report()
    if problem is not None:
        raise problem
    return is_any_known or not count


def _is_known(resolved: Resolved) -> bool:
    return any(answer.verdict is not Verdict.UNKNOWN for answer in resolved.answers)
