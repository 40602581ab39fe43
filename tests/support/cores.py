"""Core files: those that the kernel writes for a program that crashes, and made ones.

A made one has its bytes from linux/elfcore.h and elf(5).
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack

from icf.elf.types import EHDR, ET_CORE, PHDR, PT_LOAD, PT_NOTE, Machine
from tests.support.toolchain import TIMEOUT_S

NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_SIGINFO, NT_FILE = 1, 3, 6, 0x53494749, 0x46494C45
_AT_SYSINFO_EHDR = 33


def crash(folder: Path, *command: str | Path) -> Path:
    """Run a program that crashes; return its core file. Skips the test where the kernel writes none there."""
    import pytest

    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip("core files are not written to the folder of the process")
    before = set(folder.iterdir())
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        timeout=TIMEOUT_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2),
    )
    assert done.returncode < 0, done
    found = [path for path in set(folder.iterdir()) - before if "core" in path.name]
    if not found:
        pytest.skip("no core file is written")
    return found[0].rename(folder / f"{Path(command[-1]).name}.core")


@dataclass
class MadeThread:
    """A thread of a made core file."""

    tid: int
    registers: Sequence[int]  # in the order of struct user_regs_struct
    signal: int = 0


@dataclass
class MadeCore:
    """A core file: `memory` has (start, bytes, size in the process, flags), `files` (start, end, page, path)."""

    machine: Machine = Machine.X86_64
    threads: list[MadeThread] = field(default_factory=list)
    memory: list[tuple[int, bytes, int, int]] = field(default_factory=list)
    files: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    siginfo: bytes = b""
    vdso: int = 0
    auxv: dict[int, int] = field(default_factory=dict)

    def notes(self) -> bytes:
        """The notes, in the kernel's order: the process's own follow those of the first thread."""
        parts: list[bytes] = []
        for thread in self.threads:
            status = bytearray(112)  # struct elf_prstatus up to pr_reg
            status[12:14] = pack("<H", thread.signal)  # pr_cursig
            status[32:36] = pack("<I", thread.tid)  # pr_pid
            registers = pack(f"<{len(thread.registers)}Q", *thread.registers)
            parts.append(note(NT_PRSTATUS, bytes(status) + registers + pack("<Q", 0)))  # pr_fpvalid
            if len(parts) > 1:
                continue
            info = bytearray(136)  # struct elf_prpsinfo
            info[24:28] = pack("<I", thread.tid)  # pr_pid
            info[40:44] = b"shop"  # pr_fname
            parts.append(note(NT_PRPSINFO, bytes(info)))
            if self.siginfo:
                parts.append(note(NT_SIGINFO, self.siginfo))
            auxv = {_AT_SYSINFO_EHDR: self.vdso, **self.auxv, 0: 0}
            parts.append(note(NT_AUXV, b"".join(pack("<2Q", *each) for each in auxv.items())))
            if self.files:
                entries = b"".join(pack("<3Q", start, end, page) for start, end, page, _ in self.files)
                names = b"".join(path + b"\0" for *_, path in self.files)
                parts.append(note(NT_FILE, pack("<2Q", len(self.files), 4096) + entries + names))
        return b"".join(parts)

    def build(self) -> bytes:
        """The bytes of the file: ELF header, program headers, notes, memory."""
        notes = self.notes()
        count = len(self.memory) + 1
        offset = EHDR.size + count * PHDR.size
        headers = [PHDR.pack(PT_NOTE, 0, offset, 0, 0, len(notes), 0, 4)]
        offset += len(notes)
        for start, content, size_bytes, flags in self.memory:
            headers.append(PHDR.pack(PT_LOAD, flags, offset, start, 0, len(content), size_bytes, 1))
            offset += len(content)
        ident = b"\x7fELF\2\1\1" + bytes(9)
        ehdr = EHDR.pack(ident, ET_CORE, self.machine, 1, 0, EHDR.size, 0, 0, EHDR.size, PHDR.size, count, 0, 0, 0)
        return b"".join([ehdr, *headers, notes, *(content for _, content, _, _ in self.memory)])


def note(kind: int, content: bytes, name: bytes = b"CORE\0") -> bytes:
    """The bytes of a note."""
    padded = name + bytes(-len(name) % 4)
    return pack("<3I", len(name), len(content), kind) + padded + content + bytes(-len(content) % 4)
