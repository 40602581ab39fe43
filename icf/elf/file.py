"""An ELF file: sections and their contents, and the bytes at addresses.

Opening reads the headers and nothing else, so it costs the same for 30 KB and 300 MB. Everything
further is read when asked for, once, into memory of this process (`icf.filebytes`): a file that is
cut short while it is open is an error. Views keep that memory alive, also after `close`.

Addresses are translated through the loadable segments, as the kernel does it. In a separate debug
file the program headers still describe the original's layout while the bytes are gone; all its
allocated sections are NOBITS, and nothing in it counts as backed by the file.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Self

from icf.elf.headers import SECTION_HEADERS, Headers, parse_headers
from icf.elf.types import (
    DT_NULL,
    PT_DYNAMIC,
    PT_LOAD,
    SHDR,
    SHF_COMPRESSED,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_NULL,
    Machine,
    Section,
    Segment,
)
from icf.errors import FormatError
from icf.filebytes import FileBytes

if TYPE_CHECKING:
    from icf.contents import Contents

STREAMED_BYTES = 64 << 20  # shorter sections are kept: reading them again takes time
_DYNAMIC_ENTRY_SIZE_BYTES = 16
_OVERLAP = 2  # the bytes of all segments are at most so many times those of the file


class ElfFile:
    """One ELF64 little-endian file; use `open`. `data`: its bytes, to be taken in slices.

    `headers`: of a file of another format, which is read as if it were one.
    """

    def __init__(
        self, path: str, data: memoryview | FileBytes, *, allow_rel: bool = False, headers: Headers | None = None
    ) -> None:
        self.path = path
        self.data = data
        self.headers = headers or parse_headers(data, path, allow_rel=allow_rel)
        self.machine: Machine = self.headers.machine
        self.elf_type = self.headers.elf_type
        self.entry = self.headers.entry
        self.sections: tuple[Section, ...] = self.headers.sections
        self.segments: tuple[Segment, ...] = self.headers.segments
        self._section_by_name: dict[str, Section] = {}
        for section in self.sections:
            if section.type != SHT_NULL:
                self._section_by_name.setdefault(section.name, section)
        self._inflated: dict[int, memoryview] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_rel: bool = False) -> Self:
        """Open the file; `allow_rel` admits relocatable objects."""
        path = os.fspath(path)
        return cls.of(path, FileBytes.open(path), allow_rel=allow_rel)

    @classmethod
    def of(cls, path: str, data: FileBytes, *, allow_rel: bool = False) -> Self:
        """Take over the bytes of an open file; they are closed if it is not an ELF file."""
        with data.closed_on_error():
            return cls(path, data, allow_rel=allow_rel)

    def close(self) -> None:
        """Close the file; its memory goes with the last view."""
        if isinstance(self.data, FileBytes):
            self.data.close()

    def fileno(self) -> int:
        """Return the descriptor of the file, which may no longer be the one at `path`."""
        if not isinstance(self.data, FileBytes):
            raise ValueError(f"{self.path}: is not a file")
        return self.data.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Sections

    def named(self, name: str) -> Section | None:
        """Return the first section of exactly that name."""
        return self._section_by_name.get(name)

    def section(self, name: str) -> Section | None:
        """Return the first section of that name; `.zdebug_x` stands in for a missing `.debug_x`."""
        section = self._section_by_name.get(name)
        if section is None and name.startswith(".debug_"):
            section = self._section_by_name.get(".z" + name[1:])
        return section

    def extent(self, section: Section) -> tuple[int, int]:
        """Return where the bytes of a section start and end in the file."""
        if section.type in (SHT_NOBITS, SHT_NULL):
            return 0, 0
        size_bytes = len(self.data)
        if section.offset > size_bytes or section.size_bytes > size_bytes - section.offset:
            raise FormatError(
                self.path,
                SECTION_HEADERS,
                self.headers.shoff + section.index * SHDR.size,
                f"section {section.name or section.index} of {section.size_bytes} bytes at {section.offset:#x} "
                f"ends outside of the file of {size_bytes} bytes",
            )
        return section.offset, section.offset + section.size_bytes

    def stored(self, section: Section) -> memoryview:
        """Return the bytes of a section as they lie in the file."""
        start, end = self.extent(section)
        return self.data[start:end]

    def is_compressed(self, section: Section) -> bool:
        """Return whether `contents` inflates the section."""
        if section.flags & SHF_COMPRESSED and section.type != SHT_NOBITS:
            return True
        if not section.name.startswith(".zdebug_"):
            return False
        from icf.elf.compression import is_gnu_compressed

        return is_gnu_compressed(section.name, self.stored(section))

    def contents(self, section: Section | str) -> memoryview:
        """Return the (inflated) contents; empty if the section is absent or has none in this file."""
        if isinstance(section, str):
            found = self.section(section)
            if found is None:
                return self.data[:0]
            section = found
        if not self.is_compressed(section):
            return self.stored(section)
        view = self._inflated.get(section.index)
        if view is None:
            from icf.elf.compression import inflate

            gnu = not section.flags & SHF_COMPRESSED
            inflated = inflate(self.stored(section), self.path, section.name, gnu=gnu)
            view = self._inflated[section.index] = memoryview(inflated).toreadonly()
        return view

    def streamed(self, section: Section | str) -> Contents:
        """Return the (inflated) contents; large ones that can be read again are not kept in memory."""
        return self.unkept(section, above_bytes=STREAMED_BYTES)

    def unkept(self, section: Section | str, above_bytes: int = 0) -> Contents:
        """Return the (inflated) contents; those of more than so many bytes that can be read again are not kept."""
        from icf.contents import Contents

        found = self.section(section) if isinstance(section, str) else section
        if found is None:
            return Contents(self.data[:0])
        start, end = self.extent(found)
        if isinstance(self.data, FileBytes) and not self.is_compressed(found) and end - start > above_bytes:
            return Contents.of_file(self.data, start, end)
        return Contents(self.contents(found))

    def contents_size_bytes(self, section: Section) -> int:
        """Return how many bytes `contents` has, without reading them if they are not compressed."""
        if self.is_compressed(section):
            return len(self.contents(section))
        start, end = self.extent(section)
        return end - start

    def private_copy(self, section: Section | str) -> memoryview:
        """Return the contents as a writable view that changes nothing else."""
        if isinstance(section, str):
            found = self.section(section)
            if found is None:
                return memoryview(bytearray())
            section = found
        if isinstance(self.data, FileBytes) and not self.is_compressed(section):
            return self.data.private_copy(*self.extent(section))
        return memoryview(bytearray(self.contents(section)))

    def release(self, start: int, end: int) -> None:
        """Give back the memory of a part of the file, of which no view may be in use; it is read again when needed."""
        if isinstance(self.data, FileBytes):
            self.data.forget(start, end)

    # Addresses

    @cached_property
    def is_debug_file(self) -> bool:
        """Whether this is a separate debug file, without the bytes that get loaded."""
        allocated = [s for s in self.sections if s.is_alloc and s.type != SHT_NOTE]
        return bool(allocated) and all(s.type == SHT_NOBITS for s in allocated)

    @cached_property
    def backed(self) -> list[tuple[int, int, int]]:
        """(start, end, file offset) of the loaded ranges that have bytes in the file, ascending.

        Raises FormatError if the file is far too short for all of them.
        """
        if self.is_debug_file:
            return []
        size_bytes = len(self.data)
        ranges = []
        for segment in self.segments:
            if segment.type == PT_LOAD and segment.offset < size_bytes:
                filesz = min(segment.filesz, size_bytes - segment.offset)
                if filesz:
                    ranges.append((segment.vaddr, segment.vaddr + filesz, segment.offset))
        stored_bytes = sum(end - start for start, end, _ in ranges)
        if stored_bytes > _OVERLAP * size_bytes:
            problem = f"{len(ranges)} segments have {stored_bytes} bytes, the file has {size_bytes}: they overlap"
            raise FormatError(self.path, "program headers", 0, problem)
        return sorted(ranges)

    @cached_property
    def _backed_starts(self) -> list[int]:
        return [start for start, _, _ in self.backed]

    def read(self, vaddr: int, size_bytes: int) -> memoryview:
        """Return the bytes from `vaddr` on: `size_bytes` of them, or as many as the file backs without a gap."""
        index = bisect_right(self._backed_starts, vaddr) - 1
        if index < 0 or size_bytes <= 0:
            return self.data[:0]
        start, end, offset = self.backed[index]
        if vaddr >= end:
            return self.data[:0]
        first = offset + (vaddr - start)
        return self.data[first : first + min(size_bytes, end - vaddr)]

    @property
    def span(self) -> tuple[int, int]:
        """The lowest loaded address, and the address after the highest; (0, 0) if nothing is loaded."""
        loads = [segment for segment in self.segments if segment.type == PT_LOAD and segment.memsz]
        if not loads:
            return 0, 0
        return min(segment.vaddr for segment in loads), max(segment.vaddr + segment.memsz for segment in loads)

    @cached_property
    def dynamic(self) -> tuple[tuple[int, int], ...]:
        """The entries (d_tag, d_val) of the dynamic section."""
        for segment in self.segments:
            if segment.type == PT_DYNAMIC:
                table = self.read(segment.vaddr, segment.filesz)
                break
        else:
            return ()
        whole = table[: len(table) // _DYNAMIC_ENTRY_SIZE_BYTES * _DYNAMIC_ENTRY_SIZE_BYTES].cast("Q")
        entries = []
        for index in range(0, len(whole), 2):
            if whole[index] == DT_NULL:
                break
            entries.append((whole[index], whole[index + 1]))
        return tuple(entries)
