"""What addresses and threads meant when a sample was taken, looked up once for as long as nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from unwind.readers.perf_data.changes import Mapped
from unwind.readers.perf_data.frames import Frames, Tables
from unwind.readers.perf_data.names import UserFrames
from unwind.readers.perf_data.processes import Processes
from unwind.readers.perf_data.spaces import Space
from unwind.samples.recording import RecordedProcess

_KEPT_VIEWS = 256
_KEPT_BYTES = 1 << 25  # of call chains


class View:
    """What addresses mean in a process for a while, and the call chains that were seen there."""

    __slots__ = ("process", "user", "others", "find", "stacks")

    def __init__(
        self,
        process: RecordedProcess,
        user: Tables,
        others: dict[int, Tables],
        find: Callable[[int], Mapped | None],
    ) -> None:
        self.process, self.user, self.others, self.find = process, user, others, find
        self.stacks: dict[bytes, Frames] = {}


class Views:
    """The views of all processes."""

    def __init__(self, processes: Processes, frames: UserFrames, others: dict[int, Tables]) -> None:
        self._processes, self._frames, self.others = processes, frames, others
        self.current: dict[int, tuple[int, int, View]] = {}  # of each process, from when to when it holds
        self._views: dict[tuple[Space, int], View] = {}
        self._kept_bytes = 0

    def at(self, pid: int, time: int) -> View:
        """Return the view of a process at a time."""
        current = self.current.get(pid)
        if current is not None and current[0] <= time < current[1]:
            return current[2]
        space, space_since, space_until = self._processes.space_at(pid, time)
        number, since, until = space.state_at(time)
        view = self._views.get((space, number))
        if view is None:
            if len(self._views) >= _KEPT_VIEWS:
                self._views.clear()
                self.current.clear()
            user = Tables(self._frames.of(space, number))
            view = self._views[space, number] = View(
                space.process_of(number), user, self.others, partial(space.find, number=number)
            )
        self.current[pid] = max(since, space_since), min(until, space_until), view
        return view

    def keep(self, view: View, chain: bytes, frames: Frames) -> None:
        """Remember what a chain is."""
        self._kept_bytes += 2 * len(chain) + 200
        if self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes = 0
            for each in self._views.values():
                each.stacks.clear()
        view.stacks[chain] = frames
