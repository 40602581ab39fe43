"""Which address space a process had when a sample was taken, and what its threads were called."""

from __future__ import annotations

from bisect import bisect_right

from unwind.process.roots import Roots
from unwind.readers.perf_data.changes import Changes
from unwind.readers.perf_data.spaces import FOREVER, Space


class Processes:
    """The processes and threads of a recording, from all changes in order."""

    def __init__(self, changes: Changes, roots: Roots) -> None:
        self._is_whole, self._roots = changes.is_whole, roots
        self._spaces: dict[int, tuple[list[int], list[Space]]] = {}
        self._comms: dict[int, tuple[list[int], list[str]]] = {}
        for change in changes.in_order():
            if change.tid >= 0:
                comm = change.comm or self.comm_at(change.parent_tid, change.time)[0]
                times, comms = self._comms.setdefault(change.tid, ([], []))
                times.append(change.time)
                comms.append(comm)
            if change.mapped is not None:
                self._last_space(change.pid).add(change.time, change.mapped)
            elif change.is_exec:
                self._begin_space(
                    change.pid, change.time, Space(change.pid, self._is_whole, None, self._last_space(change.pid))
                )
            elif change.parent >= 0:
                parent = self._last_space(change.parent)
                self._begin_space(change.pid, change.time, Space(change.pid, self._is_whole, parent))

    def space_at(self, pid: int, time: int) -> tuple[Space, int, int]:
        """Return the address space of a process, and from when to when it was this one."""
        if pid not in self._spaces:
            self._begin_space(pid, 0, Space(pid, False))
        times, spaces = self._spaces[pid]
        at = max(bisect_right(times, time) - 1, 0)
        since = times[at] if at else 0
        return spaces[at], since, times[at + 1] if at + 1 < len(times) else FOREVER

    def comm_at(self, tid: int, time: int) -> tuple[str, int, int]:
        """Return what a thread was called, "" if that is not known, and from when to when."""
        times, comms = self._comms.get(tid, ((), ()))
        if not times:
            return "", 0, FOREVER
        at = max(bisect_right(times, time) - 1, 0)
        return comms[at], times[at] if at else 0, times[at + 1] if at + 1 < len(times) else FOREVER

    def _last_space(self, pid: int) -> Space:
        if pid not in self._spaces:
            self._begin_space(pid, 0, Space(pid, self._is_whole))
        return self._spaces[pid][1][-1]

    def _begin_space(self, pid: int, time: int, space: Space) -> None:
        space.roots = self._roots
        times, spaces = self._spaces.setdefault(pid, ([], []))
        times.append(time)
        spaces.append(space)
