"""The notes of a core file (elf(5), linux/elfcore.h): threads with their registers, mapped files, what ended it.

PRSTATUS   one for each thread, first the one that crashed        PRPSINFO   pid and name of the program
SIGINFO    follows the thread that got the signal                 AUXV       pairs of key and value, see getauxval(3)
FILE       count, page size; count * (start, end, page of the file); count names that end with a NUL
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from struct import unpack_from
from typing import NamedTuple

from icf.elf.types import Machine
from icf.reader import Reader
from unwind.dumps.dump import DumpedThread
from unwind.dumps.register_order import NEEDED_BYTES, registers_of

_PRSTATUS, _PRPSINFO, _AUXV, _SIGINFO, _FILE = 1, 3, 6, 0x53494749, 0x46494C45
_KERNEL = (b"CORE\0", b"CORE")
_PID_AT, _SIGNAL_AT, _REGISTERS_AT = 32, 12, 112  # of struct elf_prstatus
_INFO_PID_AT, _NAME_AT, _NAME_END = 24, 40, 56  # of struct elf_prpsinfo
_ADDRESS_AT = 16  # of siginfo_t
_AT_SYSINFO_EHDR = 33
_HAVE_ADDRESS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)


class FileEntry(NamedTuple):
    """A mapping of a file."""

    start: int
    end: int
    offset: int
    path: str


class Notes:
    """What the notes say."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.threads: list[DumpedThread] = []
        self.files: list[FileEntry] = []
        self.auxv: dict[int, int] = {}
        self.pid = 0
        self.command = ""

    def read(self, segment: memoryview, path: str) -> None:
        """Add the notes of a segment of the file. Raises `FormatError`."""
        for kind, note in _notes(segment, path):
            if kind == _PRSTATUS:
                self._add_thread(note)
            elif kind == _PRPSINFO:
                note.pos += _INFO_PID_AT
                self.pid = note.u32()
                note.pos += _NAME_AT - _INFO_PID_AT - 4
                self.command = os.fsdecode(bytes(note.take(_NAME_END - _NAME_AT)).split(b"\0")[0])
            elif kind == _SIGINFO and self.threads:
                self._add_signal(note)
            elif kind == _AUXV:
                while note.remaining >= 16:
                    key = note.u64()
                    self.auxv[key] = note.u64()
            elif kind == _FILE:
                self._add_files(note)

    @property
    def vdso(self) -> int:
        """Where the kernel's own image lies; 0 if that is not known."""
        return self.auxv.get(_AT_SYSINFO_EHDR, 0)

    def _add_thread(self, note: Reader) -> None:
        status = note.take(_REGISTERS_AT)
        registers = registers_of(self._machine, note.take(NEEDED_BYTES[self._machine]))
        (tid,), (number,) = unpack_from("<I", status, _PID_AT), unpack_from("<H", status, _SIGNAL_AT)
        # the kernel writes the signal that ended the process to each thread
        name = _signal_name(number) if number and not self.threads else ""
        self.threads.append(DumpedThread(tid, registers, stopped_by=name))

    def _add_signal(self, note: Reader) -> None:
        number = note.u32()
        thread = self.threads[-1]
        if len(self.threads) > 1 or not thread.stopped_by or number not in _HAVE_ADDRESS:
            return
        note.pos += _ADDRESS_AT - 4
        stopped_by = f"{_signal_name(number)} at address {note.u64():#x}"
        self.threads[-1] = DumpedThread(thread.tid, thread.registers, thread.name, stopped_by)

    def _add_files(self, note: Reader) -> None:
        start = note.pos
        count, page_bytes = note.u64(), note.u64()
        if count > note.remaining // 24:
            raise note.error(f"NT_FILE has {count} entries, there is room for {note.remaining // 24}", start)
        if not 0 < page_bytes <= 1 << 32:
            raise note.error(f"NT_FILE has pages of {page_bytes} bytes", start + 8)
        places = [(note.u64(), note.u64(), note.u64()) for _ in range(count)]
        for low, high, page in places:
            path = os.fsdecode(note.cstring())
            if low < high and page * page_bytes < 1 << 63:
                self.files.append(FileEntry(low, high, page * page_bytes, path))


def _notes(segment: memoryview, path: str) -> Iterator[tuple[int, Reader]]:
    """Yield the kind and the content of each note that is the same for all machines."""
    reader = Reader(segment, path, "PT_NOTE")
    while reader.remaining >= 12:
        name_bytes, desc_bytes, kind = reader.u32(), reader.u32(), reader.u32()
        name = bytes(reader.take(name_bytes))
        reader.pos += -name_bytes % 4
        start = reader.pos
        reader.take(desc_bytes)
        if name in _KERNEL:
            yield kind, Reader(segment, path, reader.section, start, reader.pos)
        reader.pos += -desc_bytes % 4


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
