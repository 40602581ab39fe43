"""What addresses and threads meant when a sample was taken, looked up once for as long as nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from unwind.readers.perf_data.changes import Mapped
from unwind.readers.perf_data.frames import Tables
from unwind.readers.perf_data.names import UserFrames
from unwind.readers.perf_data.processes import Processes
from unwind.readers.perf_data.spaces import Space
from unwind.samples.recording import RecordedProcess

_KEPT_VIEWS = 256


class View:
    """What addresses mean in a process for a while."""

    __slots__ = ("process", "user", "others", "find")

    def __init__(
        self,
        process: RecordedProcess,
        user: Tables,
        others: dict[int, Tables],
        find: Callable[[int], Mapped | None],
    ) -> None:
        self.process, self.user, self.others, self.find = process, user, others, find


class Views:
    """The views of all processes."""

    def __init__(self, processes: Processes, frames: UserFrames, others: dict[int, Tables]) -> None:
        self._processes, self._frames, self.others = processes, frames, others
        self._current: dict[int, tuple[View, int, int]] = {}  # of each process
        self._views: dict[tuple[Space, int], View] = {}

    def at(self, pid: int, time: int) -> tuple[View, int, int]:
        """Return the view of a process at a time, and from when to when it holds."""
        current = self._current.get(pid)
        if current is not None and current[1] <= time < current[2]:
            return current
        space, space_since, space_until = self._processes.space_at(pid, time)
        number, since, until = space.state_at(time)
        view = self._views.get((space, number))
        if view is None:
            if len(self._views) >= _KEPT_VIEWS:
                self._views.clear()
                self._current.clear()
            user = Tables(self._frames.of(space, number))
            view = self._views[space, number] = View(
                space.process_of(number), user, self.others, partial(space.find, number=number)
            )
        current = self._current[pid] = view, max(since, space_since), min(until, space_until)
        return current
