"""Minidumps of Crashpad and Breakpad on Linux: registers and stacks of all threads, modules with their build ids.

Microsoft's format (minidumpapiset.h), with streams and records for ELF (Breakpad, minidump_format.h):

    header      32  "MDMP", version, number of streams, offset of the directory, checksum, time, flags
    directory   12  type, size, offset; for each stream
    streams         3 threads, 4 modules, 5 and 9 memory, 6 exception, 7 system, 15 process, 24 names of threads,
                    0x47670009 /proc/PID/maps

Strings are UTF-16 with their size in bytes before them. Offsets (RVA) count from the start of the file.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from icf.elf.types import Machine
from icf.errors import FormatError, UnsupportedError
from icf.filebytes import FileBytes
from icf.log import warn
from icf.reader import Reader
from unwind.dumps.dump import DumpedModule, DumpedThread, ProcessDump
from unwind.dumps.memory import FileMemory, Piece
from unwind.dumps.register_order import registers_of_context
from unwind.process.maps import Mapping, parse_maps

_MAGIC, _VERSION = b"MDMP", 0xA793
_HEADER_BYTES, _ENTRY_BYTES, _STREAM_LIMIT = 32, 12, 1 << 12
_THREADS, _MODULES, _MEMORY, _EXCEPTION, _SYSTEM, _MEMORY_64, _PROCESS, _NAMES = 3, 4, 5, 6, 7, 9, 15, 24
_MAPS = 0x47670009
_SECTIONS = {
    _THREADS: "ThreadListStream",
    _MODULES: "ModuleListStream",
    _MEMORY: "MemoryListStream",
    _EXCEPTION: "ExceptionStream",
    _SYSTEM: "SystemInfoStream",
    _MEMORY_64: "Memory64ListStream",
    _PROCESS: "MiscInfoStream",
    _NAMES: "ThreadNamesStream",
    _MAPS: "LinuxMaps",
}
_MACHINES = {9: Machine.X86_64, 12: Machine.AARCH64, 0x8003: Machine.AARCH64}
_PLATFORMS = (0x8201, 0x8203)  # Linux, Android
_THREAD_BYTES, _MODULE_BYTES, _RANGE_BYTES, _RANGE_64_BYTES, _NAME_BYTES = 48, 108, 16, 16, 12
_BUILD_ID = b"LEpB"  # begins a CodeView record with a build id
_BUILD_ID_LIMIT_BYTES, _STRING_LIMIT_BYTES = 64, 1 << 16
_NO_CRASH = 0xFFFFFFFF  # the program has asked for the dump
_HAVE_ADDRESS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)
_VDSO = ("linux-gate.so", "linux-vdso.so.1", "[vdso]")


class _Place(NamedTuple):
    """A MINIDUMP_LOCATION_DESCRIPTOR."""

    size_bytes: int
    offset: int


class _Thread(NamedTuple):
    tid: int
    stack: Piece
    context: _Place


class _Module(NamedTuple):
    path: str
    build_id: bytes
    start: int
    end: int


def read_minidump(file: FileBytes) -> ProcessDump:
    """Return the process of a minidump, whose file stays open. Raises `IcfError` for one that is malformed."""
    return _Minidump(file).read()


class _Minidump:
    """A minidump whose directory was read."""

    def __init__(self, file: FileBytes) -> None:
        self._file, self._path = file, file.path
        header = Reader(file[:_HEADER_BYTES], self._path, "minidump header")
        magic = bytes(header.take(4))
        if magic != _MAGIC:
            raise header.error(f"not a minidump: starts with {magic.hex()}, must start with {_MAGIC.hex()}", 0)
        version = header.u32()
        if version & 0xFFFF != _VERSION:
            raise header.error(f"version is {version & 0xFFFF:#x}, must be {_VERSION:#x}", 4)
        count, offset = header.u32(), header.u32()
        if count > _STREAM_LIMIT:
            raise header.error(f"has {count} streams, must have {_STREAM_LIMIT} or fewer", 8)
        self._streams: dict[int, _Place] = {}
        directory = self._part(_Place(count * _ENTRY_BYTES, offset), "stream directory")
        for _ in range(count):
            kind, size_bytes, at = directory.u32(), directory.u32(), directory.u32()
            self._streams.setdefault(kind, _Place(size_bytes, at))

    def read(self) -> ProcessDump:
        """Return the process."""
        machine = self._machine()
        found = list(self._threads())
        if not found:
            raise FormatError(self._path, _SECTIONS[_THREADS], 0, "there is no thread")
        names = dict(self._names())
        crashed, stopped_by, context = self._exception()
        threads = []
        for each in sorted(found, key=lambda thread: thread.tid != crashed):
            place = context if each.tid == crashed and context.size_bytes else each.context
            section = "thread context"
            registers = registers_of_context(machine, self._part(place, section))
            threads.append(DumpedThread(each.tid, registers, names.get(each.tid, "")))
        if stopped_by and threads[0].tid == crashed:
            threads[0] = replace(threads[0], stopped_by=stopped_by)
        memory = FileMemory(self._file, [*(each.stack for each in found), *self._ranges(), *self._ranges_64()])
        listed = list(self._modules())
        mappings = self._mappings()
        modules = _of_mappings(mappings, listed) if mappings else _of_list(listed)
        code = [(each.start, each.end) for each in mappings if each.is_executable]
        return ProcessDump(self._path, machine, memory, threads, modules, self._pid(), code=code)

    def _part(self, place: _Place, section: str) -> Reader:
        """Return a reader of a part of the file."""
        if place.offset > len(self._file) or place.size_bytes > len(self._file) - place.offset:
            problem = f"{place.size_bytes} bytes end outside of the file of {len(self._file)} bytes"
            raise FormatError(self._path, section, place.offset, problem)
        return Reader(self._file[place.offset : place.offset + place.size_bytes], self._path, section)

    def _stream(self, kind: int) -> Reader:
        """Return a reader of a stream; an empty one if there is none."""
        return self._part(self._streams.get(kind, _Place(0, 0)), _SECTIONS[kind])

    def _entries(self, kind: int, entry_bytes: int, *, count_bytes: int = 4, before_bytes: int = 0) -> Iterator[Reader]:
        """Yield the reader of a list for each entry: it stands at its beginning."""
        stream = self._stream(kind)
        if not stream.remaining:
            return
        count = stream.uint(count_bytes)
        start = stream.pos + before_bytes
        if count > (stream.end - start) // entry_bytes:
            raise stream.error(f"{count} entries of {entry_bytes} bytes do not fit {stream.end} bytes", 0)
        if stream.end - start - count * entry_bytes == 4:
            start += 4  # Breakpad aligns entries to 8 bytes
        for number in range(count):
            stream.pos = start + number * entry_bytes
            yield stream

    def _machine(self) -> Machine:
        system = self._stream(_SYSTEM)
        processor = system.u16()
        system.pos = 20
        platform = system.u32()
        machine = _MACHINES.get(processor)
        if machine is None or platform not in _PLATFORMS:
            raise UnsupportedError(
                f"{self._path}: a minidump of processor {processor}, platform {platform:#x} is not handled: x86-64 (9)"
                " and AArch64 (12) on Linux (0x8201) are"
            )
        return machine

    def _threads(self) -> Iterator[_Thread]:
        for entry in self._entries(_THREADS, _THREAD_BYTES):
            tid = entry.u32()
            entry.pos += 20
            stack = _range(entry)
            yield _Thread(tid, stack, _Place(entry.u32(), entry.u32()))

    def _ranges(self) -> Iterator[Piece]:
        yield from map(_range, self._entries(_MEMORY, _RANGE_BYTES))

    def _ranges_64(self) -> Iterator[Piece]:
        stream = self._stream(_MEMORY_64)
        if not stream.remaining:
            return
        stream.pos = 8
        offset = stream.u64()
        for entry in self._entries(_MEMORY_64, _RANGE_64_BYTES, count_bytes=8, before_bytes=8):
            start, size_bytes = entry.u64(), entry.u64()
            yield Piece(start, start + size_bytes, offset)
            offset += size_bytes

    def _modules(self) -> Iterator[_Module]:
        for entry in self._entries(_MODULES, _MODULE_BYTES):
            start, size_bytes = entry.u64(), entry.u32()
            entry.pos += 8
            name_at = entry.u32()
            entry.pos += 52
            record = _Place(entry.u32(), entry.u32())
            yield _Module(self._string(name_at), self._build_id(record), start, min(start + size_bytes, 1 << 64))

    def _build_id(self, record: _Place) -> bytes:
        if not 4 < record.size_bytes <= 4 + _BUILD_ID_LIMIT_BYTES:
            return b""
        content = bytes(self._part(record, "CodeView record").take(record.size_bytes))
        return content[4:] if content.startswith(_BUILD_ID) else b""

    def _names(self) -> Iterator[tuple[int, str]]:
        for entry in self._entries(_NAMES, _NAME_BYTES):
            yield entry.u32(), self._string(entry.u64())

    def _exception(self) -> tuple[int, str, _Place]:
        """Return the thread that crashed, what the signal was, and where its registers are."""
        stream = self._stream(_EXCEPTION)
        if not stream.remaining:
            return -1, "", _Place(0, 0)
        tid = stream.u32()
        stream.pos = 8
        number = stream.u32()
        stream.pos = 24
        address = stream.u64()
        stream.pos = 160
        context = _Place(stream.u32(), stream.u32())
        if number == _NO_CRASH:
            return tid, "", context
        try:
            name = signal.Signals(number).name
        except ValueError:
            return tid, f"signal {number}", context
        return tid, f"{name} at address {address:#x}" if number in _HAVE_ADDRESS else name, context

    def _pid(self) -> int:
        stream = self._stream(_PROCESS)
        if stream.remaining < 12:
            return 0
        stream.pos = 4
        has_pid = stream.u32() & 1
        return stream.u32() if has_pid else 0

    def _mappings(self) -> list[Mapping]:
        stream = self._stream(_MAPS)
        try:
            return parse_maps(bytes(stream.take(stream.remaining)).rstrip(b"\0"), self._path)
        except FormatError as error:
            warn(f"{error}: the list of modules is used")
            return []

    def _string(self, offset: int) -> str:
        size_bytes = self._part(_Place(4, offset), "string").u32()
        if size_bytes > _STRING_LIMIT_BYTES:
            raise FormatError(self._path, "string", offset, f"has {size_bytes} bytes, at most {_STRING_LIMIT_BYTES}")
        text = bytes(self._part(_Place(size_bytes, offset + 4), "string").take(size_bytes))
        return text.decode("utf-16-le", "replace").replace("\0", "")


def _range(entry: Reader) -> Piece:
    """Return the range of a MINIDUMP_MEMORY_DESCRIPTOR."""
    start, size_bytes, offset = entry.u64(), entry.u32(), entry.u32()
    return Piece(start, start + size_bytes, offset)


def _of_list(listed: list[_Module]) -> list[DumpedModule]:
    """Return the modules as far as the list alone says where they lie."""
    return [
        DumpedModule(
            each.path,
            each.build_id,
            (Mapping(each.start, each.end, "r-xp", 0, 0, 0, each.path),),
            load_address=each.start,
        )
        for each in listed
        if each.start < each.end and each.path not in _VDSO
    ]


def _of_mappings(mappings: list[Mapping], listed: list[_Module]) -> list[DumpedModule]:
    """Return the files with code, each with the build id of the listed module that begins in it."""
    of_path: dict[str, list[Mapping]] = {}
    for mapping in mappings:
        if mapping.is_of_file:
            of_path.setdefault(mapping.path_once, []).append(mapping)
    modules = []
    for path, mapped in of_path.items():
        if any(each.is_executable for each in mapped):
            here = [each for each in listed if any(place.start <= each.start < place.end for place in mapped)]
            ids = {each.build_id for each in here}
            modules.append(DumpedModule(path, ids.pop() if len(ids) == 1 else b"", tuple(mapped)))
    return modules
