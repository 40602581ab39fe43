"""Where processes see their root directory: in containers and after `chroot` it is another one than ours.

    /proc/PID/root        as long as the process runs; what lies below it is what the process sees

If a process has ended, another one of its mount namespace serves as well: the container may still run. Which files are
those that were recorded, the finder of images decides (`unwind.process.image_finder`).
"""

from __future__ import annotations

import os
from functools import cached_property


class Roots:
    """The roots of processes; `mounts` has the inodes of the mount namespaces that are recorded of some."""

    def __init__(self, mounts: dict[int, int], proc: str = "/proc") -> None:
        self._mounts, self._proc = mounts, proc
        self._known: dict[int, str] = {}
        self._first: dict[tuple[int, int, int], str] = {}  # of all processes with the same root

    def of(self, pid: int) -> str:
        """Return the root directory of a process; "" if it is ours, or not known.

        A process of another namespace that is gone has a path that leads to nothing.
        """
        root = self._known.get(pid)
        if root is None:
            root = self._known[pid] = self._find(pid)
        return root

    def _find(self, pid: int) -> str:
        recorded = self._mounts.get(pid)
        there = self._namespace(pid)
        if there and recorded in (None, there):
            return self._root(pid)
        if recorded in (None, self._own):
            return ""
        return self._root(self._pids[recorded]) if recorded in self._pids else f"{self._proc}/{pid}/root"

    def _root(self, pid: int) -> str:
        """Return the root of a process that runs; of several with the same one that of the first."""
        root = f"{self._proc}/{pid}/root"
        try:
            own, status = os.stat(f"{self._proc}/self/root"), os.stat(root)
        except OSError:
            return ""
        namespace = self._namespace(pid)
        if namespace == self._own and os.path.samestat(own, status):
            return ""
        return self._first.setdefault((namespace, status.st_dev, status.st_ino), root)

    def _namespace(self, pid: int | str) -> int:
        """Return the inode of a process's mount namespace; 0 if it has ended, or is another user's."""
        try:
            return os.stat(f"{self._proc}/{pid}/ns/mnt").st_ino
        except OSError:
            return 0

    @cached_property
    def _own(self) -> int:
        return self._namespace("self")

    @cached_property
    def _pids(self) -> dict[int, int]:
        """A running process of each mount namespace."""
        pids = sorted((int(name) for name in os.listdir(self._proc) if name.isdecimal()), reverse=True)
        return {namespace: pid for pid in pids if (namespace := self._namespace(pid))}
