"""Unwinds and resolves the threads of a running process from a copy of their stacks.

Names come from `LiveSymbolizer`, which knows the files of containers, deleted ones, and functions made at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from icf.log import warn
from unwind.dumps.live import copy_process
from unwind.dumps.live_images import LiveImages
from unwind.dumps.walk import DumpWalker, WalkedThread
from unwind.resolve.resolved import Resolved, StackAnswers
from unwind.samples.recording import RecordedFrame, RecordedProcess, Sample
from unwind.symbolize.answer import Answer, read_frames
from unwind.symbolize.reasons import NO_MODULE
from unwind.target.live_symbolizer import open_process
from unwind.target.search import SearchPaths
from unwind.target.thread_objects import ThreadObjects
from unwind.target.thread_stacks import ResolvedThread, labels_of


class LiveStacks:
    """The stacks of a process as they were when this was made; to be closed.

    Raises `IcfError` if there is no such process, or it may not be stopped; from any method when it has ended.
    """

    def __init__(self, pid: int, search: SearchPaths, *, with_lines: bool = True, use_vptrs: bool = True) -> None:
        self._copied = copy_process(pid)
        self._with_lines = with_lines
        self._symbolizer = open_process(
            pid, debug_roots=search.debug_roots, cache_dir=search.cache_dir, shared_caches=search.shared_caches
        )
        self.images = LiveImages(self._symbolizer.live, self._copied)
        self._use_vptrs, self._objects = use_vptrs, ThreadObjects(self.images, search)
        self._walker = DumpWalker(self._copied.dump, self.images)
        self._process = RecordedProcess(pid)

    def threads(self) -> Iterator[ResolvedThread]:
        """Yield each thread with its frames."""
        for tid in self._copied.stuck:
            warn(f"process {self._copied.dump.pid}: thread {tid} waits uninterruptibly: its stack is not shown")
        walks = [self._walker.walk(thread) for thread in self._copied.dump.threads]
        answered = [self._resolve(walked) for walked in walks]
        if self._with_lines:
            read_frames(answered)
        for walked, answers in zip(walks, answered, strict=True):
            frames = tuple(RecordedFrame(each.pc, is_exact=not each.is_call) for each in walked.frames)
            sample = Sample(frames, self._process, labels=labels_of(walked, self._copied.dump))
            yield ResolvedThread(walked, Resolved(sample, StackAnswers(answers)))

    def close(self) -> None:
        """Close the files of the process."""
        self._symbolizer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _resolve(self, walked: WalkedThread) -> list[Answer]:
        frames = walked.frames
        exact = [idx for idx, frame in enumerate(frames) if idx and not frame.is_call]
        addresses = [frame.pc for frame in frames]
        answers = list(self._symbolizer.resolve(addresses, exact=exact))
        vptrs = self._objects.vptrs(frames, answers) if self._use_vptrs else ()
        if vptrs:
            answers = list(self._symbolizer.resolve(addresses, vptrs, exact))
        for idx, frame in enumerate(frames):
            if not self.images.is_as_it_was(frame.pc - frame.is_call):  # other code has come there since
                answers[idx] = Answer(frame.pc, reason=NO_MODULE)
        return answers
