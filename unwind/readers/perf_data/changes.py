"""What changed in processes while they were recorded: mappings, names of threads, forks, new programs.

    MMAP    u32 pid, tid; u64 start, size_bytes, offset; path
    MMAP2   the same, then u32 major, minor; u64 inode, generation (or u8 size, 3 bytes, 20 bytes build id);
            u32 rights, flags; path
    COMM    u32 pid, tid; name                       misc: by exec, which drops all mappings
    FORK    u32 pid, parent's pid, tid, parent's tid; u64 time
    `LOST`  u64 id, count          LOST_SAMPLES   u64 count
    KSYMBOL u64 start; u32 size_bytes; u16 kind, flags; name: a program of BPF was loaded, or is gone
    NAMESPACES  u32 pid, tid; u64 count; u64 device, inode of each: the sixth is that of mounts

Each ends with the time, among others, if the events have `sample_id_all`. Records of different CPUs are not in the
order of their times in the file, so all are read first, and put in order. What was there before is written with time 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from unwind.process.jit.code import JitCode
from unwind.process.maps import VDSO
from unwind.readers.perf_data.header import Header, without_padding
from unwind.readers.perf_data.layout import (
    CPUMODE_GUEST_KERNEL,
    CPUMODE_GUEST_USER,
    CPUMODE_HYPERVISOR,
    CPUMODE_KERNEL,
    CPUMODE_MASK,
    MISC_COMM_EXEC,
    MISC_MMAP_BUILD_ID,
    MISC_PROC_MAP_PARSE_TIMEOUT,
    PERF_RECORD_COMM,
    PERF_RECORD_FORK,
    PERF_RECORD_KSYMBOL,
    PERF_RECORD_LOST,
    PERF_RECORD_LOST_SAMPLES,
    PERF_RECORD_MMAP,
    PERF_RECORD_MMAP2,
    PERF_RECORD_NAMESPACES,
    SAMPLE_TID,
    U64,
)
from unwind.readers.perf_data.records import Record, Records
from unwind.samples.recording import Base, RecordedModule

_MMAP, _COMM, _FORK, _LOST = Struct("<II3Q"), Struct("<II"), Struct("<4IQ"), Struct("<QQ")
_FILE, _NAMESPACES, _NAMESPACE = Struct("<IIQ"), Struct("<IIQ"), Struct("<QQ")
_KSYMBOL = Struct("<QIHH")
_MAJOR_MOST, _MINOR_MOST = (1 << 12) - 1, (1 << 20) - 1  # of Linux's devices
_MOUNTS = 5  # of the namespaces
_MAJOR_BITS, _MINOR_BITS = 12, 20  # of a device: linux/kdev_t.h
_MMAP2_BYTES = _MMAP.size + 32
_BUILD_ID_AT, _RIGHTS_AT = _MMAP.size, _MMAP.size + 24
_PROT_EXEC = 4
_DELETED = " (deleted)"
_IN_MEMORY = ("//anon", "/anon_hugepage", "/dev/zero", "/memfd:", "/SYSV", "[heap]", "[stack", "[anon")
_LIMIT = (1 << 64) - 1


class MadeFunction(NamedTuple):
    """A function that a compiler made while the process ran."""

    at: Callable[[int], JitCode]  # its name and line, for an address in it
    is_certain: bool  # it was known to be there at the time; else another one may have been


class Mapped(NamedTuple):
    """A mapping with code; a later one lies over earlier ones."""

    start: int
    end: int
    path: str
    module: RecordedModule | None  # None: not of a file
    offset: int = 0  # in the file; of the kernel's text the address of the symbol that `path` ends with
    made: MadeFunction | None = None  # at run time


class Change(NamedTuple):
    """What happened to a process or, for a name, to a thread, and when."""

    time: int
    number: int  # of those with the same time the first in the file comes first
    pid: int
    mapped: Mapped | None = None
    parent: int = -1  # it was forked off
    is_exec: bool = False
    tid: int = -1  # `comm` is its name from now on, that of `parent_tid` if it is empty
    parent_tid: int = -1
    comm: str = ""


class Changes:
    """All changes of a recording."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self.all: list[Change] = []
        self.kernel: list[Mapped] = []  # its text and modules
        self.kernel_symbols: list[Mapped] = []  # of code made at run time; `path` is the name
        self.mounts: dict[int, int] = {}  # inodes of the last mount namespace of processes
        self.lost_count = 0
        self.is_whole = True  # else there are mappings that are not recorded
        self._modules: dict[RecordedModule, RecordedModule] = {}

    def take(self, record: Record, records: Records) -> None:
        """Take note of a record, if it says what has changed; `FormatError` if it is too short."""
        kind, misc, buffer, at, end = record
        if kind in (PERF_RECORD_MMAP, PERF_RECORD_MMAP2):
            self._take_mapping(record, records)
        elif kind == PERF_RECORD_COMM:
            _need(records, at, end, _COMM.size)
            pid, tid = _COMM.unpack_from(buffer, at)
            comm = buffer[at + _COMM.size : end].partition(b"\0")[0].decode("utf-8", "replace")
            is_exec = bool(misc & MISC_COMM_EXEC)
            self._add(record, Change(0, 0, pid, tid=tid, comm=comm, is_exec=is_exec))
        elif kind == PERF_RECORD_FORK:
            _need(records, at, end, _FORK.size)
            pid, parent, tid, parent_tid, time = _FORK.unpack_from(buffer, at)
            parent = parent if pid != parent else -1  # else a thread was started
            self.all.append(Change(time, len(self.all), pid, parent=parent, tid=tid, parent_tid=parent_tid))
        elif kind == PERF_RECORD_NAMESPACES:
            _need(records, at, end, _NAMESPACES.size)
            pid, _, count = _NAMESPACES.unpack_from(buffer, at)
            mounts_at = at + _NAMESPACES.size + _MOUNTS * _NAMESPACE.size
            if count > _MOUNTS and mounts_at + _NAMESPACE.size <= end:
                self.mounts[pid] = _NAMESPACE.unpack_from(buffer, mounts_at)[1]
        elif kind == PERF_RECORD_KSYMBOL:
            _need(records, at, end, _KSYMBOL.size)
            start, size_bytes, _, _ = _KSYMBOL.unpack_from(buffer, at)
            name = buffer[at + _KSYMBOL.size : end].partition(b"\0")[0].decode("utf-8", "replace")
            self.kernel_symbols.append(Mapped(start, min(start + size_bytes, _LIMIT), name, None))
        elif kind == PERF_RECORD_LOST:
            _need(records, at, end, _LOST.size)
            self.lost_count += _LOST.unpack_from(buffer, at)[1]
            self.is_whole = False
        elif kind == PERF_RECORD_LOST_SAMPLES:
            _need(records, at, end, U64.size)
            self.lost_count += U64.unpack_from(buffer, at)[0]

    def in_order(self) -> list[Change]:
        """Return all of them by time."""
        self.all.sort(key=lambda change: change[:2])
        return self.all

    def _add(self, record: Record, change: Change) -> None:
        _, _, buffer, at, end = record
        time = self._header.events.time_of(buffer, at, end)
        self.all.append(change._replace(time=time, number=len(self.all)))

    def _take_mapping(self, record: Record, records: Records) -> None:
        kind, misc, buffer, at, end = record
        head_bytes = _MMAP.size if kind == PERF_RECORD_MMAP else _MMAP2_BYTES
        _need(records, at, end, head_bytes)
        pid, _, start, size_bytes, offset = _MMAP.unpack_from(buffer, at)
        path = buffer[at + head_bytes : end].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        build_id, file_id = b"", None
        mode = misc & CPUMODE_MASK
        if kind == PERF_RECORD_MMAP2:
            rights = int.from_bytes(buffer[at + _RIGHTS_AT : at + _RIGHTS_AT + 4], "little")
            if not rights & _PROT_EXEC and mode != CPUMODE_KERNEL:
                return
            if misc & MISC_MMAP_BUILD_ID:
                id_at = at + _BUILD_ID_AT
                build_id = buffer[id_at + 4 : id_at + 4 + min(buffer[id_at], 20)]
            else:
                major, minor, inode = _FILE.unpack_from(buffer, at + _BUILD_ID_AT)
                is_device = not major >> _MAJOR_BITS and not minor >> _MINOR_BITS
                file_id = (os.makedev(major, minor), inode) if inode and is_device else None
        if misc & MISC_PROC_MAP_PARSE_TIMEOUT:
            self.is_whole = False
        mapped_end = min(start + size_bytes, _LIMIT)
        if mode == CPUMODE_KERNEL:
            self.kernel.append(Mapped(start, mapped_end, path, None, offset))
            if build_id:
                named = path.partition("]")[0] + "]" if path.startswith("[") else path
                self._header.build_ids.setdefault(named, without_padding(build_id))
        elif mode not in (CPUMODE_HYPERVISOR, CPUMODE_GUEST_KERNEL, CPUMODE_GUEST_USER) and start < mapped_end:
            module = self._module(path, build_id, file_id, start, mapped_end, offset)
            self._add(record, Change(0, 0, pid, Mapped(start, mapped_end, path, module, offset)))

    def _module(
        self, path: str, build_id: bytes, file_id: tuple[int, int] | None, start: int, end: int, offset: int
    ) -> RecordedModule | None:
        if not path.startswith("/") or path.startswith(_IN_MEMORY):
            return None
        build_id = without_padding(build_id) or self._header.build_ids.get(path, b"")
        if build_id:  # else what is there now may be another file, and " (deleted)" keeps it from being taken
            path = path.removesuffix(_DELETED)
        module = RecordedModule(path, build_id, Base.RUN_TIME, start, end, offset, file_id)
        return self._modules.setdefault(module, module)


def tid_of(header: Header, buffer: bytes, at: int, end: int) -> int:
    """Return the thread of a record other than a sample; 0 if it does not say."""
    event = header.events.of_other(buffer, at, end)
    before = event.from_end(SAMPLE_TID) if event is not None else 0
    return int.from_bytes(buffer[end - before + 4 : end - before + 8], "little") if 0 < before <= end - at else 0


def is_vdso(path: str) -> bool:
    """Return whether this is the code that the kernel maps into each process."""
    return path in (VDSO, "[vsyscall]", "[uprobes]")


def _need(records: Records, at: int, end: int, size_bytes: int) -> None:
    if end - at < size_bytes:
        raise records.error(at, f"record needs {size_bytes} bytes, has {end - at}")
