"""The identity of an image that was mapped: the first page of its file, of which most dumps have a copy."""

from __future__ import annotations

from collections.abc import Sequence

from icf.elf.headers import parse_headers
from icf.elf.notes import build_id_of_notes
from icf.elf.types import PT_LOAD, PT_NOTE, Segment
from icf.errors import IcfError
from icf.reader import Reader
from unwind.dumps.dump import CopiedMemory

_PAGE_BYTES = 4096
_NOTE_LIMIT_BYTES = 1 << 16


def first_page_at(memory: CopiedMemory, start: int) -> bytes:
    """Return the page of memory at an address; empty if it was not copied as a whole."""
    return read_at(memory, start, _PAGE_BYTES) if start else b""


def segments_of(first_page: bytes) -> Sequence[Segment]:
    """Return the program headers of the image whose file begins so; none if they are not there."""
    page = bytearray(first_page)
    if page[:4] != b"\x7fELF":
        return ()
    page[40:48] = bytes(8)  # e_shoff: the section headers are not mapped
    try:
        return parse_headers(memoryview(page), "first page").segments
    except IcfError:
        return ()


def build_id_at(memory: CopiedMemory, start: int) -> bytes:
    """Return the build id of the image whose beginning was mapped at an address; empty if it is not known."""
    segments = segments_of(first_page_at(memory, start))
    first = next((each.vaddr for each in segments if each.type == PT_LOAD and each.offset == 0), None)
    for note in segments:
        if note.type == PT_NOTE and note.filesz <= _NOTE_LIMIT_BYTES and first is not None:
            notes = read_at(memory, start + note.vaddr - first, note.filesz)
            try:
                build_id = build_id_of_notes(Reader(notes, "", "PT_NOTE"), 8 if note.align == 8 else 4)
            except IcfError:
                return b""
            if build_id:
                return build_id
    return b""


def read_at(memory: CopiedMemory, start: int, size_bytes: int) -> bytes:
    """Return bytes of memory; none if they were not copied as a whole."""
    extent = memory.extent(start)
    if extent is None or start + size_bytes > extent[1]:
        return b""
    return bytes(memory.view(start, start + size_bytes))
