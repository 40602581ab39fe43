"""Samples, one after the other as they stand in the file.

A sample whose call chain ends with a cookie waits for the record that brings the rest: the program's own frames, which
the kernel looks at when it returns to it. Where that record comes first, as records of two CPUs may, it is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from icf.log import note, warn
from unwind.readers.perf_data.branches import BranchStacks
from unwind.readers.perf_data.changes import tid_of
from unwind.readers.perf_data.dumps import Dumps
from unwind.readers.perf_data.events import NO_CPU, Attr, Event
from unwind.readers.perf_data.frames import Frames, frames_of, is_marked
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
    SAMPLE_CALLCHAIN,
    SAMPLE_REGS_USER,
    U64,
)
from unwind.readers.perf_data.processes import Processes
from unwind.readers.perf_data.records import Record, Records
from unwind.readers.perf_data.sample_fields import Fields, UserState
from unwind.readers.perf_data.views import View, Views
from unwind.samples.recording import Label, Sample

_MARKERS = {
    CPUMODE_KERNEL: CONTEXT_KERNEL,
    CPUMODE_HYPERVISOR: CONTEXT_HYPERVISOR,
    CPUMODE_GUEST_KERNEL: CONTEXT_GUEST_KERNEL,
    CPUMODE_GUEST_USER: CONTEXT_GUEST_USER,
}
_NONE: Frames = ()
_KEPT_LABELS = 1 << 16
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

    def __init__(self, header: Header, records: Records, views: Views, processes: Processes, dumps: Dumps) -> None:
        self._header, self._records, self._views, self._processes = header, records, views, processes
        self._dumps, self._branches = dumps, BranchStacks(views.others)
        self._pc = _PC.get(header.arch, -1)
        self._waiting: OrderedDict[tuple[int, int], list[Sample]] = OrderedDict()
        self._early: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._counts = _Counts()
        self._waiting_count = 0

    def __iter__(self) -> Iterator[Sample]:
        current, of_sample, new = self._views.current, self._header.events.of_sample, tuple.__new__
        for record in self._records.read():
            kind, misc, buffer, at, end = record
            if kind != PERF_RECORD_SAMPLE:
                if kind == PERF_RECORD_CALLCHAIN_DEFERRED:
                    yield from self._deferred(record)
                continue
            event = of_sample(buffer, at, end)
            if event is None:
                self._counts.unknown_event += 1
                continue
            fields = event.fields
            start = at + fields.size
            if start > end:
                raise self._records.error(at, f"sample needs {fields.size} bytes, has {end - at}")
            values = fields.unpack_from(buffer, at)
            ip, pid, tid, time, cpu, period = event.pick(values + event.defaults)
            known = current.get(pid)
            view = known[2] if known and known[0] <= time < known[1] else self._views.at(pid, time)
            state, cookie = None, 0
            if event.has_plain_chain:
                last = start + U64.size * values[-1]
                if last > end:
                    raise self._records.error(start, f"sample: call chain of {values[-1]} entries, {end - start} bytes")
                chain = buffer[start:last]
                frames = view.stacks.get(chain, _NONE)
            else:
                chain, state, branches = self._parts(event.attr, buffer, start, end)
                if branches:
                    frames = self._branches.frames(chain, branches, _marker(misc), view.user)
                else:
                    frames = view.stacks.get(chain, _NONE) if state is not None else _NONE
            if not frames:
                frames, cookie = self._frames(chain, view, misc)
            if state is not None:
                frames += self._dumps.frames(state, view) or self._innermost(state, view)
            if not frames and not cookie:
                frames = (view.others.get(_marker(misc), view.user).exact[ip],)
            labels = event.labels.get((tid, cpu))
            if labels is None or not labels[0] <= time < labels[1]:
                labels = self._labels_of(pid, tid, time, cpu, event)
            weights = event.known_weights.get(period) or event.weights(period)
            # as Sample(...), in half the time
            sample = new(Sample, (frames, view.process, weights, labels[2], time, False, (), state))
            if not cookie:
                yield sample
            else:
                yield from self._joined(sample, tid, cookie)
        for samples in self._waiting.values():
            yield from self._given_up(samples)
        self._report()

    def _parts(self, attr: Attr, buffer: bytes, at: int, end: int) -> tuple[bytes, UserState | None, tuple[int, ...]]:
        """Return the call chain of a sample, and what stands for the program's part of it: its state, its calls."""
        fields = Fields(attr, self._records, buffer, at, end)
        start, last = fields.chain()
        branches = fields.branches()
        state = None
        if attr.sample_type & SAMPLE_REGS_USER and (
            attr.excludes_user_chain or not attr.sample_type & SAMPLE_CALLCHAIN
        ):
            state = fields.user_state()
        return buffer[start:last], state, branches if attr.has_call_stack else ()

    def _frames(self, chain: bytes, view: View, misc: int) -> tuple[Frames, int]:
        frames, cookie = frames_of(chain, _marker(misc), view.user, view.others)
        if not cookie and is_marked(chain):
            self._views.keep(view, chain, frames)
        return frames, cookie

    def _innermost(self, state: UserState, view: View) -> Frames:
        """Return the program's innermost frame alone: its registers are not those of an unwinder here."""
        pc = state.register(self._pc) if self._pc >= 0 else None
        if pc is None:
            return ()
        self._counts.not_unwound += 1
        return (view.user.exact[pc],)

    def _labels_of(self, pid: int, tid: int, time: int, cpu: int, event: Event) -> tuple[int, int, tuple[Label, ...]]:
        """Return the labels of a thread's samples on a CPU, and from when to when they hold."""
        comm, since, until = self._processes.comm_at(tid, time)
        labels = [Label("pid", pid), Label("tid", tid)]
        if comm:
            labels.append(Label("comm", comm))
        if cpu != NO_CPU:
            labels.append(Label("cpu", cpu))
        if len(event.labels) >= _KEPT_LABELS:
            event.labels.clear()
        known = event.labels[tid, cpu] = since, until, (*labels, Label("event", event.name))
        return known

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
        view = self._views.at(sample.process.pid, sample.time_ns)
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
