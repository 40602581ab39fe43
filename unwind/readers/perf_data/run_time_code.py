"""Names of functions that a compiler made while the process ran, from /tmp/perf-PID.map.

A process in a container has another number there, and another /tmp: that of its root directory, as long as it runs.
"""

from __future__ import annotations

import os
import stat
import time

from unwind.process.jit.perf_map import PerfMap
from unwind.process.proc_files import innermost_pid
from unwind.process.roots import Roots

_CLOCK_SLACK_S = 5


class RunTimeCode:
    """The perf maps of recorded processes, as far as they are there and theirs.

    Times of a recording are since the machine was started, up to seconds. After another start they seem later than they
    were, so that no map counts that should not.
    """

    def __init__(self, is_of_this_machine: bool, began_ns: int, roots: Roots) -> None:
        self._is_of_this_machine, self._began_ns, self._roots = is_of_this_machine, began_ns, roots
        self._maps: dict[tuple[int, int], PerfMap | None] = {}

    def name(self, pid: int, since_ns: int, address: int) -> str:
        """Return the function at an address of memory that is of no file; "" if that is not known.

        `since_ns` is when the process was started, 0 if it was there before.
        """
        key = pid, since_ns
        if key not in self._maps:
            self._maps[key] = self._open(pid, since_ns or self._began_ns) if self._is_of_this_machine else None
        perf_map = self._maps[key]
        code = perf_map.find(address) if perf_map is not None else None
        return code.name if code is not None else ""

    def _path(self, pid: int) -> str:
        """Return where a process writes its map; raises `OSError` for one of a container that has ended."""
        root, number = self._roots.of(pid), pid
        if root:
            with open(f"/proc/{pid}/status", "rb") as file:
                number = innermost_pid(file.read(), pid)
        return f"{root}/tmp/perf-{number}.map"

    def _open(self, pid: int, since_ns: int) -> PerfMap | None:
        """Read a process's map, if it was written to since then and belongs to root or to this user."""
        since_s = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + since_ns / 1e9 - _CLOCK_SLACK_S
        try:
            fd = os.open(self._path(pid), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            is_ours = status.st_uid in (0, os.geteuid()) or not os.geteuid()
            if not stat.S_ISREG(status.st_mode) or not is_ours or status.st_mtime < since_s:
                return None
            perf_map = PerfMap()
            perf_map.read(fd)
            return perf_map
        except OSError:
            return None
        finally:
            os.close(fd)
