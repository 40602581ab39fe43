"""The perf map and the jitdumps of a process: found, checked and read on.

    /proc/PID/root/tmp/perf-N.map, /tmp/perf-PID.map       N is the process's own number in its container
    jit-N.dump wherever it is mapped                       its writers keep a page of it mapped, so that it is found
    /proc/PID/root/tmp/jit-N.dump

Any user can write to /tmp, and these files stay there: one counts if it belongs to the user of the process, to this
user or to root, and was written to since the process was started, unless the process itself has it mapped. A jitdump
has more facts than a perf map, so it is used first.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator

from icf.errors import FormatError
from unwind.process.jit.code import JitCode
from unwind.process.jit.jitdump import JitDump
from unwind.process.jit.perf_map import PerfMap
from unwind.process.live.module_file import open_mapped
from unwind.process.live.procfs import Target
from unwind.process.maps import Mapping

_JITDUMP = re.compile(r"jit-\d+\.dump")
_CLOCK_SLACK_S = 1.0


class _File:
    """A file as far as it was read; `name` is its path in the process's directory."""

    def __init__(self, name: str, code: JitDump | PerfMap, fd: int = -1) -> None:
        self.name, self.code, self.fd = name, code, fd


class JitFiles:
    """Functions made at run time, by address."""

    def __init__(self, target: Target, warn: Callable[[str], None]) -> None:
        self._target, self._warn = target, warn
        self._started_s, self._users = target.started_s(), {target.user(), os.geteuid(), 0}
        pid = target.own_pid()
        maps = [f"root/tmp/perf-{pid}.map", *([f"/tmp/perf-{target.pid}.map"] if pid != target.pid else [])]
        dump = f"root/tmp/jit-{pid}.dump"
        self._perf_maps = [_File(name, PerfMap()) for name in maps]
        self._dump = _File(dump, JitDump(dump.removeprefix("root")))
        self._mapped: dict[tuple[int, int], _File] = {}

    def close(self) -> None:
        """Close the files."""
        for file in (self._dump, *self._mapped.values(), *self._perf_maps):
            if file.fd >= 0:
                os.close(file.fd)
                file.fd = -1

    def take_note(self, mappings: Iterable[Mapping]) -> None:
        """Find the jitdumps among what is mapped."""
        for mapping in mappings:
            if mapping.is_of_file and _JITDUMP.fullmatch(os.path.basename(mapping.path_once)):
                if mapping.file_id in self._mapped:
                    continue
                fd = open_mapped(self._target, mapping)
                if fd >= 0:
                    self._mapped[mapping.file_id] = _File("", JitDump(mapping.path_once), fd)

    def read(self) -> None:
        """Read the bytes added to the files since the last call, and files that have appeared."""
        for file in self._files():
            if file.name:
                self._look_for(file)
            if file.fd >= 0:
                try:
                    file.code.read(file.fd)
                except FormatError as error:
                    self._warn(f"{error}: nothing more is read of it")

    def find(self, address: int) -> JitCode | None:
        """Return the function that lies at an address, as far as the files were read."""
        for file in self._files():
            code = file.code.find(address)
            if code is not None:
                return code
        return None

    def codes(self) -> Iterator[JitCode]:
        """Yield all functions, as far as the files were read."""
        for file in self._files():
            yield from file.code.codes()

    def _files(self) -> list[_File]:
        """Return the jitdumps first, which have more facts."""
        return [*(self._mapped.values() or (self._dump,)), *self._perf_maps]

    def _look_for(self, file: _File) -> None:
        """Open a file that has appeared, or that has taken the place of another."""
        try:
            if file.fd >= 0 and os.path.samestat(self._target.status(file.name), os.fstat(file.fd)):
                return
            fd = self._target.open(file.name, os.O_NOFOLLOW)
        except OSError:
            return
        if not self._counts(os.fstat(fd), file.name.removeprefix("root")):
            os.close(fd)
            return
        if file.fd >= 0:
            os.close(file.fd)
        file.fd = fd
        file.code = JitDump(file.code.path) if isinstance(file.code, JitDump) else PerfMap()

    def _counts(self, status: os.stat_result, path: str) -> bool:
        if not stat.S_ISREG(status.st_mode) or status.st_mtime < self._started_s - _CLOCK_SLACK_S:
            return False
        if status.st_uid not in self._users:
            self._warn(f"{path}: belongs to user {status.st_uid}, not to that of the process: not used")
            return False
        return True
