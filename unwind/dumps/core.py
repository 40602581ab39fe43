"""Core files of Linux: what the kernel writes when a process crashes, and gdb's `gcore`.

    PT_NOTE     threads with their registers, mapped files (`unwind.dumps.core_notes`)
    PT_LOAD     a mapping each; of those that a file backs and the process did not change there are no bytes, except
                for the first page of an image

`gcore` leaves out mappings that are as in their file, code among them: then NT_FILE alone has them. Some writers leave
out NT_FILE: then the images in memory say what they are (`unwind.dumps.mapped_images`).

Nothing is read as a whole: a core file of 100 GB with holes costs the pages that are asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from icf.elf.headers import parse_headers
from icf.elf.types import PF_X, PT_LOAD, PT_NOTE, Segment
from icf.errors import FormatError
from icf.filebytes import FileBytes
from icf.log import warn
from unwind.dumps.core_notes import FileEntry, Notes
from unwind.dumps.dump import DumpedModule, ProcessDump
from unwind.dumps.first_page import build_id_at, first_page_at
from unwind.dumps.mapped_images import mapped_images
from unwind.dumps.memory import FileMemory, Piece
from unwind.process.maps import Mapping

_NOTES_LIMIT_BYTES = 1 << 28
_THREAD_LIMIT = 1 << 16


def read_core(file: FileBytes) -> ProcessDump:
    """Return the process of a core file, which stays open. Raises `IcfError` for one that is malformed."""
    headers = parse_headers(file, file.path, allow_core=True)
    notes = Notes(headers.machine)
    for segment in headers.segments:
        if segment.type == PT_NOTE:
            notes.read(_bytes_of(segment, file), file.path)
    if not notes.threads:
        raise FormatError(file.path, "PT_NOTE", 0, "no note NT_PRSTATUS: no thread")
    loads = [each for each in headers.segments if each.type == PT_LOAD and each.memsz]
    end = max((each.offset + each.filesz for each in loads), default=0)
    if end > len(file):
        warn(f"{file.path}: is cut short: {len(file):,} of {end:,} bytes are there")
    pieces = [Piece(each.vaddr, min(each.vaddr + each.filesz, 1 << 64), each.offset) for each in loads]
    memory = FileMemory(file, pieces)
    code = [(each.vaddr, each.vaddr + each.memsz) for each in loads if each.flags & PF_X]
    code += _left_out(notes.files, loads, memory)
    modules = _modules(notes.files, code, memory) if notes.files else _unlisted(notes, loads, memory)
    return ProcessDump(
        file.path,
        headers.machine,
        memory,
        notes.threads[:_THREAD_LIMIT],
        modules,
        notes.pid,
        notes.command,
        notes.vdso,
        code=code,
    )


def _bytes_of(segment: Segment, file: FileBytes) -> memoryview:
    if segment.filesz > _NOTES_LIMIT_BYTES or segment.offset + segment.filesz > len(file):
        problem = f"notes of {segment.filesz} bytes do not fit the file of {len(file)} bytes"
        raise FormatError(file.path, "PT_NOTE", segment.offset, problem)
    return file[segment.offset : segment.offset + segment.filesz]


def _left_out(files: Sequence[FileEntry], loads: Sequence[Segment], memory: FileMemory) -> list[tuple[int, int]]:
    """Return start and end of the mappings of images that no segment has: any of them may be code."""
    segments = _Segments(loads)
    images = {each.path for each in files if not each.offset and first_page_at(memory, each.start)[:4] == b"\x7fELF"}
    return [(each.start, each.end) for each in files if each.path in images and segments.at(each.start) is None]


def _unlisted(notes: Notes, loads: Sequence[Segment], memory: FileMemory) -> list[DumpedModule]:
    """Return the images in memory, without the vdso."""
    segments = _Segments(loads)

    def is_code(address: int) -> bool | None:
        segment = segments.at(address)
        return None if segment is None else bool(segment.flags & PF_X)

    starts = [each.vaddr for each in loads if each.vaddr != notes.vdso]
    return mapped_images(memory, starts, notes.auxv, is_code)


class _Segments:
    """The segments of a core file by address."""

    def __init__(self, loads: Sequence[Segment]) -> None:
        self._segments = sorted(loads, key=lambda each: each.vaddr)
        self._starts = [each.vaddr for each in self._segments]

    def at(self, address: int) -> Segment | None:
        """Return the segment that an address lies in."""
        at = bisect_right(self._starts, address) - 1
        segment = self._segments[at] if at >= 0 else None
        return segment if segment is not None and address < segment.vaddr + segment.memsz else None


def _modules(files: Sequence[FileEntry], code: Sequence[tuple[int, int]], memory: FileMemory) -> list[DumpedModule]:
    """Return the files with code among those that were mapped."""
    code_starts = {start for start, _ in code}
    of_path: dict[str, list[Mapping]] = {}
    for entry in sorted(files):
        rights = "r-xp" if entry.start in code_starts else "r--p"
        mapping = Mapping(entry.start, entry.end, rights, entry.offset, 0, 0, entry.path)
        of_path.setdefault(mapping.path_once, []).append(mapping)
    modules = []
    for path, mappings in of_path.items():
        if any(each.is_executable for each in mappings):
            first = next((each.start for each in mappings if each.offset == 0), 0)
            build_id, page = build_id_at(memory, first), first_page_at(memory, first)
            modules.append(DumpedModule(path, build_id, tuple(mappings), page))
    return modules
