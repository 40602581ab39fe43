"""The stacks of a core-sharded trace: each file has what one core ran, and threads move from core to core.

A thread that goes on has the stack that it had when it was left. So all files are read at once, each as far as that
stack is known:

    core 0   thread 5, begins        thread 6            thread 5: waits until core 1 has been read up to **
    core 1   thread 7                thread 5 **         thread 6

Where nothing says what a thread ran before (`unwind.trace.order`), its callers are unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from os.path import basename

from icf.log import note
from unwind.samples.recording import RecordedProcess, Sample
from unwind.trace import columns as c
from unwind.trace.container import TraceFile
from unwind.trace.order import Before, Place, predecessors
from unwind.trace.reader import CodeTable, TraceReader
from unwind.trace.stacks import TraceStacks
from unwind.trace.stretches import WANTED, Splitter, find_stretches

_CORE = re.compile(r"\.core\.(\d+)\.")


def samples_of_cores(
    files: Sequence[str], process: RecordedProcess, ranges: Sequence[tuple[int, int]], *, is_whole: bool
) -> Iterator[Sample]:
    """Yield the samples of the files of a core-sharded trace; one that ran long ago can come once more.

    `is_whole`: whether no file of it is elsewhere. Raises `FormatError` for a record that breaks a rule.
    """
    before = _order(files, is_whole)
    with ExitStack() as opened:
        table = CodeTable()
        readers = [TraceReader(opened.enter_context(TraceFile(path)), WANTED | c.KEEP_DATA, table) for path in files]
        yield from _Cores(readers, before, TraceStacks(readers[0], process, ranges)).samples()


def _order(files: Sequence[str], is_whole: bool) -> dict[Place, Before]:
    """Return what each stretch follows, as far as it is known; nothing if the file of a core is missing."""
    names = [_CORE.search(basename(path)) for path in files]
    numbers = sorted(int(name[1]) if name else -1 for name in names)
    if not is_whole or numbers != list(range(len(files))):
        note("not all cores of the trace are there: what called a thread that moved is not known", "name its directory")
        return {}
    stretches, has_times = [], False
    for path in files:
        with TraceFile(path) as file:
            found, is_of_threads = find_stretches(TraceReader(file, WANTED))
        stretches.append(found)
        has_times |= is_of_threads
    before = predecessors(stretches, has_times)
    count = sum(map(len, stretches))
    threads = {each.thread for each in (stretch for found in stretches for stretch in found)}
    if lost := count - len(threads) - len(before):
        note(f"{lost:,} of {count - len(threads):,} times nothing says where a thread that goes on was before")
    return before


class _Cores:
    """Files that are read at once."""

    def __init__(self, readers: list[TraceReader], before: dict[Place, Before], stacks: TraceStacks) -> None:
        self._readers, self._before, self._stacks = readers, before, stacks
        self._uses = Counter(each.place for each in before.values())  # how many stretches go on with the stack of each
        self._left: set[Place] = set()  # stretches that were read and whose stacks are kept
        self._splitters = [Splitter() for _ in readers]
        self._pieces = [splitter.pieces(reader) for splitter, reader in zip(self._splitters, readers, strict=True)]
        self._next: list[tuple[memoryview, bool] | None] = [next(pieces, None) for pieces in self._pieces]

    def samples(self) -> Iterator[Sample]:
        """Yield the samples."""
        waiting = {idx for idx, piece in enumerate(self._next) if piece is not None}
        while waiting:
            ready = [idx for idx in sorted(waiting) if self._may_go_on(idx)]
            for idx in ready or [min(waiting)]:  # without any, the order is none of this trace
                yield from self._follow(idx)
            waiting = {idx for idx in waiting if self._next[idx] is not None}
        yield from self._stacks.counted()

    def _go_on(self, before: Before | None, tid: int) -> None:
        if before is None:
            self._stacks.go_on(None, tid)
            return
        place = before.place
        has_all = all(self._stacks.has_on_top(place, left) for left in before.needs)
        self._uses[place] -= 1
        if not self._uses[place]:
            self._left.discard(place)
        self._stacks.go_on(place, tid, is_wanted_again=self._uses[place] > 0)
        if not has_all:
            self._stacks.go_on(None, tid)

    def _may_go_on(self, idx: int) -> bool:
        before = self._before.get((idx, self._splitters[idx].number))
        return before is None or before.place in self._left

    def _follow(self, idx: int) -> Iterator[Sample]:
        """Read a file, up to a stretch that has to wait."""
        splitter, stacks = self._splitters[idx], self._stacks
        stacks.reader = self._readers[idx]
        while (piece := self._next[idx]) is not None:
            place = idx, splitter.number
            self._go_on(self._before.get(place), splitter.thread[1])
            while piece is not None and splitter.number == place[1]:
                if len(piece[0]):
                    yield from stacks.follow(piece[0])
                piece = next(self._pieces[idx], None)
            self._next[idx] = piece
            if self._uses[place]:
                stacks.keep(place)
                self._left.add(place)
            if not self._may_go_on(idx):
                return
