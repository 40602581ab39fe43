"""Stacks of a log whose process still runs: addresses mean what they mean there now."""

from __future__ import annotations

import os
from collections.abc import Iterable

from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.lossy_process import losses_in
from unwind.samples.recording import Base, Losses, RecordedFrame, Sample
from unwind.target.live_symbolizer import LiveSymbolizer

_PAGE_MASK = -4096


class LiveStacks:
    """Resolves samples in a running process; a frame without a module has a run-time address.

    Where a stack may lack frames, each one is looked up by itself.
    """

    def __init__(self, symbolizer: LiveSymbolizer) -> None:
        self._symbolizer = symbolizer

    def resolve(self, samples: Iterable[Sample]) -> list[Resolved]:
        """Return the samples with an answer for each frame; `IcfError` when the process has ended."""
        return [self._resolve(sample) for sample in samples]

    def _resolve(self, sample: Sample) -> Resolved:
        if len(sample.frames) > 1 and losses_in(sample.process, Losses.NONE) is not Losses.NONE:
            is_called = [sample.is_called or idx > 0 for idx in range(len(sample.frames))]
            parts = [
                sample._replace(frames=(each,), is_called=is_called[idx]) for idx, each in enumerate(sample.frames)
            ]
            return Resolved(sample, StackAnswers([self._resolve(part).answers[0] for part in parts]))
        before = (None,) if sample.is_called else ()
        addresses = (*before, *[self._address(frame) for frame in sample.frames])
        exact = [idx for idx, frame in enumerate(sample.frames, len(before)) if frame.is_exact]
        answers = self._symbolizer.resolve(addresses, (), exact)
        return Resolved(sample, StackAnswers(answers[len(before) :]))

    def _address(self, frame: RecordedFrame) -> int | None:
        if frame.address is None or frame.module is None:
            return frame.address
        path, base = frame.module.path, frame.module.base
        if base is Base.OFFSET:
            return None
        found = [
            each.bias + (each.image.span[0] & _PAGE_MASK if base is Base.LOWEST else 0)
            for each in self._symbolizer.live.modules()
            if path in (each.path, os.path.basename(each.path))  # TSan writes names without folders
        ]
        return frame.address + found[0] if len(found) == 1 else None
