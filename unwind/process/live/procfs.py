"""A process that is read through /proc.

Its directory there is opened once: when the process has ended, every read through it fails, even if another
process has got its number since.

If the kernel can (Linux 6.11), one call of 2 us returns the mapping at an address now (PROCMAP_QUERY), so no answer
rests on a library that was unloaded meanwhile. Elsewhere the list of all mappings is read and compared, 0.2 ms.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from struct import Struct
from typing import Literal

from icf.errors import IcfError
from unwind.process.maps import Mapping
from unwind.process.proc_files import has_ended, innermost_pid

_QUERY = Struct("<9Q4I2Q")  # struct procmap_query of linux/fs.h
_PROCMAP_QUERY = 3 << 30 | _QUERY.size << 16 | ord("f") << 8 | 17
_NO_ANSWER = (0,) * 12  # its fields after the address
_EVERYWHERE = (0, 1 << 64)
_PIECE_BYTES = 1 << 20
_DEBUG_ROOT = "/usr/lib/debug"
_START_TIME = 19  # in /proc/PID/stat, counted from after the name of the program


class Target:
    """A process by its number, or this one."""

    def __init__(self, pid: int | Literal["self"]) -> None:
        self.pid = os.getpid() if pid == "self" else pid
        self._memory = self._queried = self._folder = -1
        try:
            self._folder = os.open(
                f"/proc/{_thread_with_memory(self.pid)}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            )
        except OSError as error:
            raise IcfError(f"process {self.pid}: no such process") from error
        self.can_query = True

    def close(self) -> None:
        """Close what was opened."""
        for fd in (self._folder, self._memory, self._queried):
            if fd >= 0:
                os.close(fd)
        self._folder = self._memory = self._queried = -1

    def open(self, name: str, flags: int = 0) -> int:
        """Return a descriptor of a file in its directory, or beyond it (`root/...`). Raise OSError."""
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | flags, dir_fd=self._folder)

    def status(self, name: str) -> os.stat_result:
        """Return the `stat` of such a file. Raise OSError."""
        return os.stat(name, dir_fd=self._folder)

    def text(self, name: str) -> bytes:
        """Return a file of its directory. Raise IcfError if the process has ended or is another user's."""
        try:
            fd = self.open(name)
            try:
                return b"".join(iter(lambda: os.read(fd, _PIECE_BYTES), b""))
            finally:
                os.close(fd)
        except PermissionError as error:
            raise IcfError(
                f"process {self.pid}: permission denied", hint="run as the owner of the process or as root"
            ) from error
        except OSError as error:
            raise IcfError(f"process {self.pid}: has ended") from error

    def unchanged(self, address: int, mapping: Mapping | None, text: bytes) -> tuple[int, int] | None:
        """Return the range around the address that the same part of that file still backs, or no file.

        None if that changed.
        """
        if self.can_query:
            try:
                start, end, *place = self._query(address)
            except OSError:
                self.can_query = False
            else:
                expected = [0, 0, 0]
                if mapping is not None:
                    expected = [mapping.inode and mapping.offset - mapping.start, mapping.inode, mapping.device]
                return (start, end) if place == expected and (mapping is None) == (end == 0) else None
        return _EVERYWHERE if self.text("maps") == text else None

    def _query(self, address: int) -> tuple[int, int, int, int, int]:
        """Return the mapping there: start, end, file offset less address, inode and device; zeros without one."""
        asked = bytearray(_QUERY.pack(_QUERY.size, 0, address, *_NO_ANSWER))
        while True:
            is_new = self._queried < 0
            if is_new:
                self._queried = self.open("maps")
            try:
                fcntl.ioctl(self._queried, _PROCMAP_QUERY, asked)
                break
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return (0, 0, 0, 0, 0)
                if is_new or error.errno != errno.ESRCH:
                    raise
                os.close(self._queried)  # another program runs in the process now
                self._queried = -1
        _, _, _, start, end, _, _, offset, inode, major, minor, *_ = _QUERY.unpack(asked)
        return start, end, inode and offset - start, inode, os.makedev(major, minor)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return the memory from `address` on, as much as can be read; empty if it cannot."""
        try:
            if self._memory < 0:
                self._memory = self.open("mem")
            return os.pread(self._memory, size_bytes, address)
        except (OSError, OverflowError):
            return b""

    def own_pid(self) -> int:
        """Return the process's own number in its container."""
        return innermost_pid(self.text("status"), self.pid)

    def started_s(self) -> float:
        """Return when the process was started, in seconds since 1970."""
        ticks = int(self.text("stat").rpartition(b")")[2].split()[_START_TIME])
        booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted_s + ticks / os.sysconf("SC_CLK_TCK")

    def user(self) -> int:
        """Return the user that owns the process."""
        return os.fstat(self._folder).st_uid

    def debug_roots(self) -> tuple[str, ...]:
        """Return the directories of debug information in its container, if it is in one."""
        try:
            if self.status("ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino:
                return ()
        except OSError:
            return ()
        return (f"/proc/{self.pid}/root{_DEBUG_ROOT}",)


def _thread_with_memory(pid: int) -> int:
    """Return the number under which /proc shows the memory of a process: that of another thread once the first ended.

    Raise OSError if there is no such process.
    """
    tids = sorted(map(int, os.listdir(f"/proc/{pid}/task")), key=lambda tid: tid != pid)
    return next((tid for tid in tids if not has_ended(tid)), pid)
