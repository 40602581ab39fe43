"""Minidumps of Crashpad, Breakpad and lldb on Linux, and of Windows: registers and stacks of all threads, modules.

Microsoft's format (minidumpapiset.h), with streams and records for ELF (Breakpad, minidump_format.h). Read are

    3 threads, 24 their names     4 modules, 0x47670009 /proc/PID/maps (`minidump_modules`)
    5 and 9 memory                6 exception     7 system
    15 process                    0x47670004 /proc/PID/status

Writers differ. Crashpad has names of threads and the process, Breakpad /proc/PID/status and maps, lldb all of it. The
address of the exception is that of the memory that could not be accessed; lldb's is that of the instruction. The thread
that crashed has its registers in the exception: those in the list may be of the handler that waits for the dump.
Minidumps of Windows have the code of an exception in place of a signal (`windows_exceptions`).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from icf.elf.types import Machine
from icf.errors import FormatError, UnsupportedError
from icf.filebytes import FileBytes
from icf.reader import Reader
from unwind.dumps.dump import PC, DumpedThread, ProcessDump
from unwind.dumps.memory import FileMemory, Piece
from unwind.dumps.minidump_file import MinidumpFile, Place, Stream
from unwind.dumps.minidump_modules import (
    is_of_windows,
    listed_modules,
    mappings_of,
    modules_of,
    windows_modules,
)
from unwind.dumps.register_order import registers_of_context
from unwind.dumps.windows_exceptions import name_of_exception

_THREADS, _NAMES = Stream(3, "ThreadListStream"), Stream(24, "ThreadNamesStream")
_MEMORY, _MEMORY_64 = Stream(5, "MemoryListStream"), Stream(9, "Memory64ListStream")
_EXCEPTION, _SYSTEM = Stream(6, "ExceptionStream"), Stream(7, "SystemInfoStream")
_PROCESS, _STATUS = Stream(15, "MiscInfoStream"), Stream(0x47670004, "LinuxProcStatus")
_MACHINES = {9: Machine.X86_64, 12: Machine.AARCH64, 0x8003: Machine.AARCH64}
_PLATFORMS = (2, 0x8201, 0x8203)  # Windows, Linux, Android
_THREAD_BYTES, _RANGE_BYTES, _RANGE_64_BYTES, _NAME_BYTES = 48, 16, 16, 12
_PARAMETER_LIMIT = 15  # EXCEPTION_MAXIMUM_PARAMETERS
_NO_CRASH = 0xFFFFFFFF  # the program has asked for the dump
_ACCESS = (signal.SIGSEGV, signal.SIGBUS)
_HAVE_ADDRESS = (*_ACCESS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)
_STATUS_LINE = re.compile(rb"^(Name|Tgid):\t(.*)$", re.MULTILINE)


class _Thread(NamedTuple):
    tid: int
    stack: Piece
    context: Place


class _Exception(NamedTuple):
    tid: int = -1  # of the thread that crashed, or has asked for the dump
    number: int = _NO_CRASH  # of the signal
    address: int = 0
    context: Place = Place(0, 0)
    parameters: tuple[int, ...] = ()  # of Windows


def read_minidump(file: FileBytes) -> ProcessDump:
    """Return the process of a minidump, whose file stays open. Raises `IcfError` for one that is malformed."""
    minidump = MinidumpFile(file)
    machine = _machine(minidump)
    is_windows = is_of_windows(minidump)
    listed, mappings = ([], []) if is_windows else (listed_modules(minidump), mappings_of(minidump))
    found = list(_threads(minidump))
    if not found:
        raise FormatError(file.path, _THREADS.name, 0, "there is no thread")
    pid, command = _process(minidump)
    dump = ProcessDump(
        file.path,
        machine,
        FileMemory(file, [*(each.stack for each in found), *_ranges(minidump), *_ranges_64(minidump)]),
        modules=windows_modules(minidump) if is_windows else modules_of(listed, mappings),
        pid=pid,
        command=command,
        code=[(each.start, each.end) for each in mappings if each.is_executable],
    )
    for vdso in (each for each in listed if each.is_vdso):
        dump.vdso, dump.vdso_build_id = vdso.start, vdso.build_id
    names, exception = dict(_names(minidump)), _exception(minidump)
    for each in sorted(found, key=lambda thread: thread.tid != exception.tid):
        has_crashed = each.tid == exception.tid
        place = exception.context if has_crashed and exception.context.size_bytes else each.context
        registers = registers_of_context(machine, minidump.part(place, "thread context"))
        dump.threads.append(DumpedThread(each.tid, registers, names.get(each.tid, "")))
    if dump.threads[0].tid == exception.tid:
        dump.threads[0] = replace(
            dump.threads[0],
            stopped_by=(
                name_of_exception(exception.number, exception.parameters)
                if is_windows
                else _stopped_by(exception, dump)
            ),
        )
    return dump


def _machine(minidump: MinidumpFile) -> Machine:
    system = minidump.stream(_SYSTEM)
    processor = system.u16()
    system.pos = 20
    platform = system.u32()
    machine = _MACHINES.get(processor)
    if machine is None or platform not in _PLATFORMS:
        raise UnsupportedError(
            f"{minidump.path}: a minidump of processor {processor}, platform {platform:#x} is not handled: x86-64 (9)"
            " and AArch64 (12) on Linux (0x8201) and Windows (2) are"
        )
    return machine


def _threads(minidump: MinidumpFile) -> Iterator[_Thread]:
    for entry in minidump.entries(_THREADS, _THREAD_BYTES):
        tid = entry.u32()
        entry.pos += 20
        stack = _range(entry)
        yield _Thread(tid, stack, Place(entry.u32(), entry.u32()))


def _names(minidump: MinidumpFile) -> Iterator[tuple[int, str]]:
    for entry in minidump.entries(_NAMES, _NAME_BYTES):
        yield entry.u32(), minidump.string(entry.u64())


def _ranges(minidump: MinidumpFile) -> Iterator[Piece]:
    yield from map(_range, minidump.entries(_MEMORY, _RANGE_BYTES))


def _range(entry: Reader) -> Piece:
    """Return the range of a MINIDUMP_MEMORY_DESCRIPTOR."""
    start, size_bytes, offset = entry.u64(), entry.u32(), entry.u32()
    return Piece(start, start + size_bytes, offset)


def _ranges_64(minidump: MinidumpFile) -> Iterator[Piece]:
    stream = minidump.stream(_MEMORY_64)
    if not stream.remaining:
        return
    stream.pos = 8
    offset = stream.u64()
    for entry in minidump.entries(_MEMORY_64, _RANGE_64_BYTES, count_bytes=8, before_bytes=8):
        start, size_bytes = entry.u64(), entry.u64()
        yield Piece(start, start + size_bytes, offset)
        offset += size_bytes


def _exception(minidump: MinidumpFile) -> _Exception:
    stream = minidump.stream(_EXCEPTION)
    if not stream.remaining:
        return _Exception()
    tid = stream.u32()
    stream.pos = 8
    number = stream.u32()
    stream.pos = 24
    address, parameter_count = stream.u64(), min(stream.u32(), _PARAMETER_LIMIT)
    stream.pos = 40
    parameters = tuple(stream.u64() for _ in range(parameter_count))
    stream.pos = 160
    return _Exception(tid, number, address, Place(stream.u32(), stream.u32()), parameters)


def _stopped_by(exception: _Exception, dump: ProcessDump) -> str:
    """Return the signal that ended the process, with the address that could not be accessed, if that is known."""
    if exception.number == _NO_CRASH:
        return ""
    try:
        name = signal.Signals(exception.number).name
    except ValueError:
        return f"signal {exception.number}"
    pc = dump.threads[0].registers[PC[dump.machine]]
    is_of_instruction = exception.address == pc and any(start <= pc < end for start, end in dump.code)
    has_address = exception.number in _HAVE_ADDRESS and not (is_of_instruction and exception.number in _ACCESS)
    return f"{name} at address {exception.address:#x}" if has_address else name


def _process(minidump: MinidumpFile) -> tuple[int, str]:
    """Return the id of the process and its name; 0 and "" for what is not known."""
    stream = minidump.stream(_STATUS)
    status = dict(_STATUS_LINE.findall(bytes(stream.take(stream.remaining))))
    digits = status.get(b"Tgid", b"")
    pid = int(digits) if re.fullmatch(rb"\d{1,10}", digits) else 0
    process = minidump.stream(_PROCESS)
    if process.remaining >= 12:
        process.pos = 4
        has_pid = process.u32() & 1
        pid = process.u32() if has_pid else pid
    return pid, os.fsdecode(status.get(b"Name", b""))
