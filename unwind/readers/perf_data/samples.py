"""Samples, one after the other as they stand in the file.

A sample whose call chain ends with a cookie waits for the record that brings the rest: the program's own frames, which
the kernel looks at when it returns to it. Where that record comes first, as records of two CPUs may, it is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from icf.columns import I64
from icf.columns import U64 as Rows
from icf.errors import FormatError
from icf.log import note, warn
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.branches import BranchStacks
from unwind.readers.perf_data.chain_tree import ChainTree
from unwind.readers.perf_data.changes import tid_of
from unwind.readers.perf_data.copied import CopiedStacks
from unwind.readers.perf_data.dumps import Dumps
from unwind.readers.perf_data.events import Attr
from unwind.readers.perf_data.frames import Frames, frames_of
from unwind.readers.perf_data.header import Header
from unwind.readers.perf_data.layout import (
    CONTEXT_GUEST_KERNEL,
    CONTEXT_GUEST_USER,
    CONTEXT_HYPERVISOR,
    CONTEXT_KERNEL,
    CONTEXT_USER,
    CPUMODE_GUEST_KERNEL,
    CPUMODE_GUEST_USER,
    CPUMODE_HYPERVISOR,
    CPUMODE_KERNEL,
    CPUMODE_MASK,
    PERF_RECORD_CALLCHAIN_DEFERRED,
    PERF_RECORD_SAMPLE,
    U64,
)
from unwind.readers.perf_data.objects import CopiedObjects
from unwind.readers.perf_data.processes import Processes
from unwind.readers.perf_data.records import COMPRESSED, WITH_MORE, Batch, Record, Records
from unwind.readers.perf_data.sample_fields import Fields, UserState
from unwind.readers.perf_data.sums import Sums
from unwind.readers.perf_data.threads import NO_THREAD, Thread, Threads
from unwind.readers.perf_data.views import View, Views
from unwind.resolve.vptrs import Vptrs
from unwind.samples.recording import Sample
from unwind.samples.sums import StackSums

_MARKERS = {
    CPUMODE_KERNEL: CONTEXT_KERNEL,
    CPUMODE_HYPERVISOR: CONTEXT_HYPERVISOR,
    CPUMODE_GUEST_KERNEL: CONTEXT_GUEST_KERNEL,
    CPUMODE_GUEST_USER: CONTEXT_GUEST_USER,
}
_NONE: Frames = ()
_NO_BRANCHES: tuple[int, ...] = ()
_NEEDED = (PERF_RECORD_SAMPLE, PERF_RECORD_CALLCHAIN_DEFERRED, *COMPRESSED, *WITH_MORE)
_TOGETHER = 4096
_NOT_NEEDED = [kind for kind in range(256) if kind not in _NEEDED]
_WAITING = 1 << 14  # samples, and parts of chains whose sample is still to come
_PC = {"x86_64": 8, "i386": 8, "i486": 8, "i586": 8, "i686": 8, "aarch64": 32, "arm64": 32}  # asm/perf_regs.h


@dataclass(slots=True, eq=False)
class _Counts:
    """What is reported when all samples were read."""

    incomplete: int = 0  # the rest of their chains never came
    not_unwound: int = 0
    unknown_event: int = 0


class Samples:
    """Reads the samples of a recording."""

    def __init__(
        self,
        header: Header,
        records: Records,
        views: Views,
        processes: Processes,
        dumps: Dumps,
        objects: CopiedObjects,
    ) -> None:
        self._header, self._records, self._views = header, records, views
        self._dumps, self._branches = dumps, BranchStacks(views.others)
        self._copied, self._objects = CopiedStacks(dumps), objects
        self._pc = _PC.get(header.arch, -1)
        self._waiting: OrderedDict[tuple[int, int], list[Sample]] = OrderedDict()
        self._early: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._tree = ChainTree(views.others)
        self._threads = Threads(header.events, views, processes, self._tree)
        self._counts = _Counts()
        self._waiting_count = 0

    def __iter__(self) -> Iterator[Sample]:
        for batch in self._batches():
            yield from self._samples(batch, None)
        for samples in self._waiting.values():
            yield from self._given_up(samples)
        self._report()

    def added_up(self) -> Iterator[StackSums | list[Sample]]:
        """Yield samples of the same stack, process, name and event added up; those that come in parts, in lists."""
        sums, single = Sums(), list[Sample]()
        problem: FormatError | None = None
        try:
            for batch in self._batches():
                for sample in self._samples(batch, sums):
                    single.append(sample)
                if sums.is_full or self._tree.is_full:
                    yield from sums.take(self._tree.calls)
                if len(single) >= _TOGETHER:
                    yield single
                    single = []
        except FormatError as error:
            problem = error
        yield from sums.take(self._tree.calls)
        for samples in self._waiting.values() if problem is None else ():
            single += self._given_up(samples)
        yield single
        if problem is not None:
            raise problem
        self._report()

    def _batches(self) -> Iterator[Batch]:
        return self._records.batches(_NOT_NEEDED, self._header.events.layouts())

    def _samples(self, batch: Batch, sums: Sums | None) -> Iterator[Sample]:
        """Yield the samples of some records, and those that deferred call chains among these complete.

        Those that need no more than their call chain go to the sums, if there are any.
        """
        buffer, rows = batch
        if self._tree.is_full:
            self._tree.clear()
            self._threads.clear()
        rows, problem = self._well_formed(buffer, rows)
        threads, of_row = self._threads.of(rows)
        vptrs = self._find_stacks(buffer, rows, threads, of_row)
        if sums is not None:
            is_plain = rows[:, r.NODE] != r.NONE
            is_plain[list(vptrs)] = False
            sums.add([thread.owner for thread in threads], of_row[is_plain], rows[is_plain])
            vptrs = {at: vptrs.get(idx, ()) for at, idx in enumerate(np.flatnonzero(~is_plain).tolist())}
            rows, of_row = rows[~is_plain], of_row[~is_plain]
        stacks = self._tree.stacks(rows[:, r.NODE].tolist())
        columns = of_row.tolist(), stacks, rows[:, r.PERIOD].tolist(), rows[:, r.TIME].tolist()
        new = tuple.__new__
        for idx, (thread_idx, stack, period, time) in enumerate(zip(*columns, strict=True)):
            if stack is not None:
                thread = threads[thread_idx]
                event = thread.event
                weights = event.known_weights.get(period) or event.weights(period)
                # as Sample(...), in half the time
                yield new(
                    Sample, (stack, thread.view.process, weights, thread.labels, time, False, vptrs.get(idx, ()), None)
                )
                continue
            record = rows[idx].tolist()
            if thread_idx != NO_THREAD:
                yield from self._in_parts(record, buffer, threads[thread_idx])
            elif record[r.KIND] == PERF_RECORD_SAMPLE:
                self._counts.unknown_event += 1
            else:
                yield from self._deferred((record[r.KIND], record[r.MISC], buffer, record[r.START], record[r.END]))
        if problem is not None:
            raise problem

    def _find_stacks(self, buffer: bytes, rows: Rows, threads: Sequence[Thread], of_row: I64) -> dict[int, Vptrs]:
        """Store the node of the stack of each sample that needs no more than its call chain or its copied stack.

        Returns:
            The vtable pointers of objects in copied stacks, by row.
        """
        places = [(thread.space, thread.root, thread.copied_space) for thread in threads]
        of_threads = np.array([*places, (r.NONE, r.NONE, r.NONE)], np.uint64)[of_row]
        rows[:, r.SPACE : r.NODE + 1] = of_threads[:, :2]
        self._tree.find(buffer, rows)
        copied = np.flatnonzero(of_threads[:, 2] != r.NONE)
        if not len(copied):
            return {}
        own = rows[copied]
        own[:, r.SPACE], own[:, r.NODE] = of_threads[copied, 2], of_threads[copied, 1]
        owners = [(threads[idx].event.attr, threads[idx].view) for idx in of_row[copied].tolist()]
        extents = own[:, (r.REST, r.END)]
        chains, own = self._copied.chains(buffer, own, owners)
        self._tree.find(chains, own)
        rows[copied, r.NODE] = own[:, r.NODE]
        found = self._objects.vptrs(self._tree.calls, own[:, r.NODE].tolist(), owners, extents, buffer)
        return {int(copied[idx]): vptrs for idx, vptrs in found.items()}

    def _well_formed(self, buffer: bytes, rows: Rows) -> tuple[Rows, FormatError | None]:
        """Return the records before the first sample that is shorter than its fields, and what is wrong with that."""
        is_short = (rows[:, r.KIND] == PERF_RECORD_SAMPLE) & (rows[:, r.EVENT] != r.NONE)
        too_short = np.flatnonzero(is_short & (rows[:, r.CHAIN_END] > rows[:, r.END]))
        if not len(too_short):
            return rows, None
        _, _, start, end, *_, rest, _, _, _ = rows[too_short[0]].tolist()
        return rows[: too_short[0]], self._too_short(buffer, start, end, rest)

    def _too_short(self, buffer: bytes, start: int, end: int, rest: int) -> FormatError:
        if rest > end:
            return self._records.error(start, f"sample needs {rest - start} bytes, has {end - start}")
        count = U64.unpack_from(buffer, rest - U64.size)[0]
        return self._records.error(rest, f"sample: call chain of {count} entries, {end - rest} bytes")

    # Samples that need more than their call chain

    def _in_parts(self, record: list[int], buffer: bytes, thread: Thread) -> Iterator[Sample]:
        event, view, misc = thread.event, thread.view, record[r.MISC]
        chain, state, branches = buffer[record[r.REST] : record[r.CHAIN_END]], None, _NO_BRANCHES
        if not event.has_plain_chain:
            chain, state, branches = self._parts(event.attr, buffer, record[r.REST], record[r.END])
        frames, cookie = _NONE, 0
        if branches:
            frames = self._branches.frames(chain, branches, _marker(misc), view.user)
        if not frames:
            frames, cookie = frames_of(chain, _marker(misc), view.user, view.others)
        if state is not None:
            frames += self._dumps.frames(state, view) or self._innermost(state, view)
        if not frames and not cookie:
            frames = (view.others.get(_marker(misc), view.user).exact[record[r.IP]],)
        weights = event.weights(record[r.PERIOD])
        sample = Sample(frames, view.process, weights, thread.labels, record[r.TIME])
        if not cookie:
            yield sample
        else:
            yield from self._joined(sample, record[r.TID], cookie)

    def _parts(self, attr: Attr, buffer: bytes, at: int, end: int) -> tuple[bytes, UserState | None, tuple[int, ...]]:
        """Return the call chain of a sample, and what stands for the program's part of it: its state, its calls."""
        fields = Fields(attr, self._records, buffer, at, end)
        start, last = fields.chain()
        branches = fields.branches()
        state = None
        if attr.has_user_state:
            state = fields.user_state()
        return buffer[start:last], state, branches if attr.has_call_stack else ()

    def _innermost(self, state: UserState, view: View) -> Frames:
        """Return the program's innermost frame alone: its registers are not those of an unwinder here."""
        pc = state.register(self._pc) if self._pc >= 0 else None
        if pc is None:
            return ()
        self._counts.not_unwound += 1
        return (view.user.exact[pc],)

    # Call chains in two parts

    def _joined(self, sample: Sample, tid: int, cookie: int) -> Iterator[Sample]:
        """Yield a sample if the rest of its chain is there, and those that wait too long for theirs."""
        rest = self._early.get((tid, cookie))
        if rest is not None:
            yield self._with(sample, rest)
            return
        self._waiting.setdefault((tid, cookie), []).append(sample)
        self._waiting_count += 1
        while self._waiting_count > _WAITING:
            yield from self._given_up(self._waiting.popitem(last=False)[1])

    def _deferred(self, record: Record) -> Iterator[Sample]:
        _, _, buffer, at, end = record
        if end - at < 2 * U64.size:
            raise self._records.error(at, f"deferred call chain needs {2 * U64.size} bytes, has {end - at}")
        cookie, count = U64.unpack_from(buffer, at)[0], U64.unpack_from(buffer, at + U64.size)[0]
        start = at + 2 * U64.size
        if count > (end - start) // U64.size:
            raise self._records.error(start, f"deferred call chain of {count} entries, {end - start} bytes are left")
        chain = buffer[start : start + U64.size * count]
        key = tid_of(self._header, buffer, at, end), cookie
        self._early[key] = chain
        if len(self._early) > _WAITING:
            self._early.popitem(last=False)
        for sample in self._waiting.pop(key, ()):
            self._waiting_count -= 1
            yield self._with(sample, chain)

    def _with(self, sample: Sample, chain: bytes) -> Sample:
        view, *_ = self._views.at(sample.process.pid, sample.time_ns)
        rest, _ = frames_of(chain, CONTEXT_USER, view.user, view.others)
        return sample._replace(frames=sample.frames + rest)

    def _given_up(self, samples: list[Sample]) -> list[Sample]:
        self._counts.incomplete += len(samples)
        self._waiting_count -= len(samples)
        return [sample for sample in samples if sample.frames]

    def _report(self) -> None:
        counts, path = self._counts, self._header.path
        if counts.not_unwound:
            note(
                f"{path}: {counts.not_unwound} samples hold a copy of the stack of a program that is not for x86-64 or"
                " AArch64: its innermost frame alone is used",
                "record with --call-graph fp",
            )
        if any(event.attr.has_branches_alone for event in self._header.events.all):
            note(
                f"{path}: samples hold the branches before them and no call chain: their innermost frame alone is used",
                "record with --call-graph fp, dwarf or lbr",
            )
        if counts.incomplete:
            warn(f"{path}: {counts.incomplete} samples lack the program's frames, which were to follow")
        if counts.unknown_event:
            warn(f"{path}: {counts.unknown_event} samples are of no event that the header lists: left out")


def _marker(misc: int) -> int:
    return _MARKERS.get(misc & CPUMODE_MASK, CONTEXT_USER)
