"""The stack of the first thread of a core, with what is needed to ask for the parameters of its frames.

Notes and segments are read by pyelftools.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.segments import NoteSegment

from icf.dwarf.cfi.frames import Row
from icf.elf.image import Image
from icf.elf.types import PT_LOAD, Machine
from icf.errors import IcfError
from unwind.objects.activation import Activation, Described, activations
from unwind.walk.images import ImageSteps
from unwind.walk.walker import Steps, Walker

# as the kernel writes user_regs_struct, and as DWARF numbers them
_IN_NOTE = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp".split()
_BY_NUMBER = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
_REGISTERS_AT = 112  # in NT_PRSTATUS


class CoreStack:
    """A core; it is the memory of its own stack."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        self._segments: list[tuple[int, int, int]] = []  # start, end, offset in the file
        self._mapped: list[tuple[int, int, int, str]] = []  # start, end, offset in the file, path
        self._images: dict[str, tuple[Image, ImageSteps, Described] | None] = {}
        self._opened = ExitStack()
        registers: dict[str, int] = {}
        with path.open("rb") as file:
            for segment in ELFFile(file).iter_segments():
                if segment["p_type"] == "PT_LOAD":
                    start, offset, size_bytes = segment["p_vaddr"], segment["p_offset"], segment["p_filesz"]
                    self._segments.append((start, start + size_bytes, offset))
                elif isinstance(segment, NoteSegment):
                    for note in segment.iter_notes():
                        if note["n_type"] == "NT_PRSTATUS" and not registers:
                            registers = dict(zip(_IN_NOTE, _words(note["n_desc"]), strict=True))
                        elif note["n_type"] == "NT_FILE":
                            self._add_files(note["n_desc"])
        self.registers = {number: registers[name] for number, name in enumerate(_BY_NUMBER)}

    def __enter__(self) -> CoreStack:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def read(self, address: int, size_bytes: int) -> bytes | None:
        for start, end, offset in self._segments:
            if start <= address and address + size_bytes <= end:
                return self._data[offset + address - start :][:size_bytes]
        return None

    def stack(self) -> list[Activation]:
        """Return the frames, innermost first."""
        ranges = [(start, end, offset) for start, end, offset in self._segments]
        walk = Walker(Steps(Machine.X86_64), self._row_at).walk(self.registers, self._data, ranges)
        return activations(walk.frames, self._described_at)

    def module_at(self, address: int) -> tuple[str, int] | None:
        """Return the path of the image at an address, and its load bias."""
        found = self._image_at(address)
        return None if found is None else (found[0][0].path, found[1])

    def _add_files(self, note: Any) -> None:
        for entry, name in zip(note.Elf_Nt_File_Entry, note.filename, strict=True):
            offset = entry.page_offset * note.page_size
            self._mapped.append((entry.vm_start, entry.vm_end, offset, name.decode()))

    def _image_at(self, address: int) -> tuple[tuple[Image, ImageSteps, Described], int] | None:
        for start, end, offset, path in self._mapped:
            if start <= address < end:
                if path not in self._images:
                    self._images[path] = self._open(path)
                known = self._images[path]
                at = address - start + offset
                for segment in known[0].segments if known else ():
                    if segment.type == PT_LOAD and segment.offset <= at < segment.offset + segment.filesz:
                        assert known is not None
                        return known, address - (segment.vaddr + at - segment.offset)
        return None

    def _open(self, path: str) -> tuple[Image, ImageSteps, Described] | None:
        try:
            image = self._opened.enter_context(Image.open(path))
            return image, ImageSteps(image, lambda _: None), Described(image)
        except (IcfError, OSError):
            return None

    def _row_at(self, address: int) -> Row | None:
        found = self._image_at(address)
        return None if found is None else found[0][1].row_at(address - found[1])

    def _described_at(self, address: int) -> tuple[Described, int] | None:
        found = self._image_at(address)
        return None if found is None else (found[0][2], found[1])


def _words(note: str | bytes) -> tuple[int, ...]:
    data = note.encode("latin-1") if isinstance(note, str) else note
    return struct.unpack_from(f"<{len(_IN_NOTE)}Q", data, _REGISTERS_AT)
