"""Whose samples are: the process, thread, event and CPU of each, and what holds for all of these for a while."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from unwind.readers.perf_data import rows as r
from unwind.readers.perf_data.chain_tree import ChainTree
from unwind.readers.perf_data.events import NO_CPU, Event, Events
from unwind.readers.perf_data.layout import PERF_RECORD_SAMPLE
from unwind.readers.perf_data.processes import Processes
from unwind.readers.perf_data.sums import Owner
from unwind.readers.perf_data.views import View, Views
from unwind.samples.recording import Label, RecordedProcess

NO_THREAD = -1
_KEPT = 1 << 16
_KEY = [r.EVENT, r.PID, r.TID, r.CPU]


class Thread(NamedTuple):
    """What holds for the samples of an event in a thread, on a CPU, for a while."""

    since: int
    until: int
    event: Event
    view: View
    space: int  # of the view in the tree; NONE: its samples need more than their call chains
    copied_space: int  # the same for samples with copied stacks; NONE: they have none, or need more than these
    root: int  # of the process in the tree
    labels: tuple[Label, ...]
    owner: Owner


class Threads:
    """The threads of a recording; `tree` is where the stacks of their samples go."""

    def __init__(self, events: Events, views: Views, processes: Processes, tree: ChainTree) -> None:
        self._events, self._views, self._processes, self._tree = events, views, processes, tree
        self._known: dict[tuple[int, int, int, int], Thread] = {}  # by event, process, thread and CPU
        self._owners: dict[tuple[RecordedProcess, tuple[Label, ...]], Owner] = {}

    def of(self, rows: U64) -> tuple[list[Thread], I64]:
        """Return the threads of some records, and for each record which of them; NO_THREAD of what is not a sample."""
        of_row = np.full(len(rows), NO_THREAD, np.int64)
        samples = np.flatnonzero((rows[:, r.KIND] == PERF_RECORD_SAMPLE) & (rows[:, r.EVENT] != r.NONE))
        samples = samples[np.lexsort((rows[samples, r.TIME], *rows[samples][:, _KEY].T))]
        keys, times = rows[samples][:, _KEY], rows[samples, r.TIME]
        is_last = np.ones(len(samples), bool)
        is_last[:-1] = (keys[1:] != keys[:-1]).any(axis=1)
        threads: list[Thread] = []
        start = 0
        for end in (np.flatnonzero(is_last) + 1).tolist():
            while start < end:
                event, pid, tid, cpu = keys[start].tolist()
                thread = self._thread_at(event, pid, tid, cpu, int(times[start]))
                within = np.searchsorted(times[start:end], np.uint64(min(thread.until - 1, r.NONE)), side="right")
                of_row[samples[start : start + int(within)]] = len(threads)
                threads.append(thread)
                start += int(within)
        return threads, of_row

    def clear(self) -> None:
        """Forget them, as a tree that is begun anew has other numbers."""
        self._known.clear()
        self._owners.clear()

    def _thread_at(self, event: int, pid: int, tid: int, cpu: int, time: int) -> Thread:
        thread = self._known.get((event, pid, tid, cpu))
        if thread is None or not thread.since <= time < thread.until:
            if len(self._known) >= _KEPT:
                self.clear()
            thread = self._known[event, pid, tid, cpu] = self._make(self._events.all[event], pid, tid, cpu, time)
        return thread

    def _make(self, event: Event, pid: int, tid: int, cpu: int, time: int) -> Thread:
        comm, since, until = self._processes.comm_at(tid, time)
        name = (Label("comm", comm),) if comm else ()
        where = (Label("cpu", cpu),) if cpu != NO_CPU else ()
        labels = Label("pid", pid), Label("tid", tid), *name, *where, Label("event", event.name)
        view, view_since, view_until = self._views.at(pid, time)
        space = self._tree.space_of(view.user)
        spaces = space if event.is_plain else r.NONE, space if event.has_copied_stacks else r.NONE
        root = self._tree.calls.root(view.process)
        owner = self._owner(view.process, event, (Label("pid", pid), *name, Label("event", event.name)))
        return Thread(max(since, view_since), min(until, view_until), event, view, *spaces, root, labels, owner)

    def _owner(self, process: RecordedProcess, event: Event, labels: tuple[Label, ...]) -> Owner:
        key = process, labels
        owner = self._owners.get(key)
        if owner is None:
            owner = self._owners[key] = Owner(process, event, labels)
        return owner
