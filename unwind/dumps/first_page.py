"""The identity of an image that was mapped: the first page of its file, of which most dumps have a copy."""

from __future__ import annotations

from icf.elf.headers import parse_headers
from icf.elf.notes import build_id_of_notes
from icf.elf.types import PT_LOAD, PT_NOTE
from icf.errors import IcfError
from icf.reader import Reader
from unwind.dumps.dump import CopiedMemory

_PAGE_BYTES = 4096
_NOTE_LIMIT_BYTES = 1 << 16


def first_page_at(memory: CopiedMemory, start: int) -> bytes:
    """Return the page of memory at an address; empty if it was not copied as a whole."""
    return _read(memory, start, _PAGE_BYTES) if start else b""


def build_id_at(memory: CopiedMemory, start: int) -> bytes:
    """Return the build id of the image whose beginning was mapped at an address; empty if it is not known."""
    page = bytearray(first_page_at(memory, start))
    if page[:4] != b"\x7fELF":
        return b""
    page[40:48] = bytes(8)  # e_shoff: the section headers are not mapped
    try:
        segments = parse_headers(memoryview(page), "first page").segments
        first = next((each.vaddr for each in segments if each.type == PT_LOAD and each.offset == 0), None)
        for note in segments:
            if note.type == PT_NOTE and note.filesz <= _NOTE_LIMIT_BYTES and first is not None:
                notes = _read(memory, start + note.vaddr - first, note.filesz)
                build_id = build_id_of_notes(Reader(notes, "", "PT_NOTE"), 8 if note.align == 8 else 4)
                if build_id:
                    return build_id
    except IcfError:
        return b""
    return b""


def _read(memory: CopiedMemory, start: int, size_bytes: int) -> bytes:
    extent = memory.extent(start)
    if extent is None or start + size_bytes > extent[1]:
        return b""
    return bytes(memory.view(start, start + size_bytes))
