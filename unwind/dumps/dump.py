"""What was copied of a process, whatever it was copied to: a core file, a minidump, memory of this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from icf.elf.types import Machine
from icf.pe.identity import PeIdentity
from unwind.process.maps import Mapping

PC = {Machine.X86_64: 16, Machine.AARCH64: 32}
"""DWARF's number of the program counter."""
SP = {Machine.X86_64: 7, Machine.AARCH64: 31}
"""DWARF's number of the stack pointer."""


class CopiedMemory(Protocol):
    """Memory of the process as far as it was copied."""

    def extent(self, address: int) -> tuple[int, int] | None:
        """Return the start and end of the copied memory around an address; None if it was not copied."""

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes of a range that lies in one extent."""


@dataclass(frozen=True, slots=True)
class DumpedThread:
    """A thread; the first of a dump is the one that crashed, if one did."""

    tid: int
    registers: dict[int, int]  # by DWARF number; those that are known
    name: str = ""
    stopped_by: str = ""  # "SIGSEGV at address 0x8"


@dataclass(frozen=True, slots=True)
class DumpedModule:
    """A file that was mapped."""

    path: str  # as the process knew it; "" if that is not known
    build_id: bytes  # empty: not known
    mappings: tuple[Mapping, ...]  # ascending; of a minidump one that covers the whole image
    first_page: bytes = b""  # what memory had of the file's beginning; empty: not known
    load_address: int | None = None  # of its lowest page, where that alone is known of the mappings
    pe: PeIdentity | None = None  # of a PE image


@dataclass(slots=True)
class ProcessDump:
    """A process; `path` is that of the dump."""

    path: str
    machine: Machine
    memory: CopiedMemory
    threads: list[DumpedThread] = field(default_factory=list)
    modules: list[DumpedModule] = field(default_factory=list)
    pid: int = 0  # 0: not known
    command: str = ""
    vdso: int = 0  # where the kernel's own image lies; 0: not known
    vdso_build_id: bytes = b""  # for a dump without a copy of it
    code: list[tuple[int, int]] = field(default_factory=list)  # start and end of memory that is executable, if known
