"""`.eh_frame` and `.debug_frame` sections put together from CIEs and FDEs."""

from __future__ import annotations

from struct import pack

from icf.dwarf.cfi.entries import FrameSection
from icf.dwarf.cfi.frames import CallFrames
from icf.elf.image import Image
from icf.elf.types import SHF_ALLOC, SHT_PROGBITS, Machine
from tests.support.elf import Elf, Part

FRAMES_AT = 0x1000
ABSOLUTE, RELATIVE_4 = 0x00, 0x1B
X86_64_START = bytes([0x0C, 7, 8, 0x90, 1])  # def_cfa rsp + 8; return address at cfa - 8


def cie(
    instructions: bytes = X86_64_START,
    augmentation: bytes = b"zR",
    data: bytes = bytes([ABSOLUTE]),
    *,
    version: int = 1,
    return_address: int = 16,
    code_align: int = 1,
    is_eh: bool = True,
) -> bytes:
    """Return a CIE whose data alignment is -8."""
    body = bytes([version]) + augmentation + b"\0"
    body += b"\x08\0" if version == 4 else b""
    body += bytes([code_align, 0x78, return_address])
    body += bytes([len(data)]) + data if augmentation.startswith(b"z") else b""
    return _entry(pack("<I", 0 if is_eh else 0xFFFFFFFF), body + instructions)


def fde(
    before: bytes, low: int, size_bytes: int, instructions: bytes = b"", *, is_eh: bool = True, data: bytes = b""
) -> bytes:
    """Return an FDE that follows `before`, of the CIE at the start of the section, with absolute addresses."""
    place = pack("<I", len(before) + 4 if is_eh else 0)
    augmentation = bytes([len(data)]) + data if is_eh else b""
    return _entry(place, pack("<QQ", low, size_bytes) + augmentation + instructions)


def _entry(head: bytes, body: bytes) -> bytes:
    body += b"\0" * (-(len(head) + len(body)) % 8)
    return pack("<I", len(head) + len(body)) + head + body


def image_of(data: bytes, name: str = ".eh_frame", machine: Machine = Machine.X86_64) -> Image:
    """Return an image with that section."""
    vaddr = FRAMES_AT if name == ".eh_frame" else 0
    parts = [Part(name, SHT_PROGBITS, SHF_ALLOC if vaddr else 0, data, vaddr)]
    return Image("made", memoryview(Elf(parts, machine=machine).build()))


def frames_of(instructions: bytes, start: bytes = X86_64_START, machine: Machine = Machine.X86_64) -> CallFrames:
    """Return the call frames of a function at 0x4000 with 0x100 bytes."""
    first = cie(start, return_address=30 if machine is Machine.AARCH64 else 16)
    return CallFrames(image_of(first + fde(first, 0x4000, 0x100, instructions), machine=machine))


def section_of(data: bytes, name: str = ".eh_frame") -> FrameSection:
    """Return a section without an image."""
    return FrameSection("made", name, memoryview(data), FRAMES_AT, Machine.X86_64)
