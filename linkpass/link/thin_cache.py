"""Finds the entries of a ThinLTO cache that a link with lld uses (`--thinlto-cache-dir=`).

With a cache lld takes the code of unchanged modules from files `llvmcache-HASH`, and writes nothing for them to
`--lto-obj-path`, nor for those that it compiles and puts there. It names the files nowhere. The kernel (inotify)
reports
which files of a directory are opened, or get their names: those are the entries. It reports those of other links that
use the cache at that time, too; an additional object is harmless, as with archives, because each statement of an
object is checked against the code. gold's plugin copies entries to its `obj-path`, so it needs none of this.
"""

from __future__ import annotations

import ctypes
import os
import struct

_IN_MOVED_TO, _IN_OPEN, _IN_Q_OVERFLOW = 0x80, 0x20, 0x4000
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, size of the name that follows
_READ_SIZE_BYTES = 1 << 16
_PREFIX = "llvmcache-"


class CacheWatch:
    """A watch on a cache directory from before the link on."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1
        self._is_new = not os.path.isdir(directory)  # then all entries are of this link
        if self._is_new:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd >= 0 and libc.inotify_add_watch(self._fd, os.fsencode(directory), _IN_OPEN | _IN_MOVED_TO) < 0:
            os.close(self._fd)
            self._fd = -1

    def entries(self) -> list[str] | None:
        """Return the entries that were used, once; None if the kernel cannot report them, or has dropped some."""
        if self._is_new:
            names = set(os.listdir(self._directory)) if os.path.isdir(self._directory) else set()
        elif self._fd < 0:
            return None
        else:
            names = set()
            while events := self._read():
                at = 0
                while at < len(events):
                    _, mask, _, size_bytes = _EVENT.unpack_from(events, at)
                    at += _EVENT.size + size_bytes
                    if mask & _IN_Q_OVERFLOW:
                        return None
                    names.add(os.fsdecode(events[at - size_bytes : at].rstrip(b"\0")))
            os.close(self._fd)
            self._fd = -1
        return [os.path.join(self._directory, name) for name in sorted(names) if name.startswith(_PREFIX)]

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _READ_SIZE_BYTES)
        except BlockingIOError:
            return b""
