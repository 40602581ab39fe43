"""The section headers of an object as columns, and the contents of its sections.

With -ffunction-sections an object may have tens of thousands of sections, so none of them becomes a Python
object: the headers stay in the mapping, a column is one numpy operation on first use, and a name
is decoded only when a caller wants it. Section 0 is the null section.

The place of the table is checked when it is read, everything else on first use: a bad section does not
make the others unreadable.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from icf.columns import I64, U32, U64, Mask
from icf.elf import compression
from icf.elf.headers import HEADERS, SECTION_HEADERS, table_bytes
from icf.elf.types import EHDR, SHDR, SHF_ALLOC, SHF_COMPRESSED, SHF_EXECINSTR, SHN_XINDEX_16, SHT_NOBITS, SHT_NULL
from icf.errors import FormatError
from icf.reader import Reader
from icf.sets import is_one_of

SECTION = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("vaddr", "<u8"),
        ("offset", "<u8"),
        ("size_bytes", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("align", "<u8"),
        ("entsize", "<u8"),
    ]
)


def gather(buffer: memoryview, item: np.dtype[Any], starts: I64, counts: I64) -> npt.NDArray[Any]:
    """Return a copy of `counts[k]` items from `starts[k]` on, for all k; the caller has checked that they lie inside.

    The view has an item at every byte offset: tables are aligned in an object, objects not always in an archive.
    """
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, dtype=item)
    first = np.cumsum(counts) - counts
    places = np.repeat(starts - first * item.itemsize, counts) + np.arange(total) * item.itemsize
    anywhere: npt.NDArray[Any] = np.ndarray((len(buffer) - item.itemsize + 1,), dtype=item, buffer=buffer, strides=(1,))
    return anywhere[places]


class SectionTable:
    """The sections of the object `data`; a column is indexed by section."""

    def __init__(self, data: memoryview, path: str) -> None:
        self.path, self.data = path, data
        reader = Reader(data, path, HEADERS)
        _, _, _, _, _, _, shoff, _, ehsize, _, _, shentsize, shnum, shstrndx = EHDR.unpack(reader.take(EHDR.size))
        if ehsize != EHDR.size:
            raise reader.error(f"e_ehsize is {ehsize}, must be {EHDR.size}", 52)
        if shoff == 0:
            shnum = shstrndx = 0
        else:
            if shentsize != SHDR.size:
                raise reader.error(f"e_shentsize is {shentsize}, must be {SHDR.size}", 58)
            first = SHDR.unpack(table_bytes(data, path, SECTION_HEADERS, shoff, 1, SHDR.size))
            shnum = shnum or first[5]
            shstrndx = first[6] if shstrndx == SHN_XINDEX_16 else shstrndx
            if shstrndx and shstrndx >= shnum:
                raise reader.error(f"e_shstrndx is {shstrndx}, must be below the section count {shnum}", 62)
        self._shoff: int = shoff
        self._names_section: int = shstrndx
        self.count: int = shnum
        self._raw = np.frombuffer(table_bytes(data, path, SECTION_HEADERS, shoff, shnum, SHDR.size), dtype=SECTION)
        self._inflated: dict[int, memoryview] = {}

    def __len__(self) -> int:
        return self.count

    def error(self, section: int, problem: str) -> FormatError:
        """Return the error to raise for `problem` in a section's header."""
        return FormatError(self.path, SECTION_HEADERS, self._shoff + int(section) * SHDR.size, problem)

    def headers(self) -> npt.NDArray[np.void]:
        """Return a copy of the headers, a row of SECTION each."""
        return self._raw.copy()

    @property
    def names_section(self) -> int:
        """The section with the names of the sections; 0 if there is none."""
        return self._names_section

    @cached_property
    def name_offset(self) -> U32:
        return np.ascontiguousarray(self._raw["name"])

    @cached_property
    def type(self) -> U32:
        return np.ascontiguousarray(self._raw["type"])

    @cached_property
    def flags(self) -> U64:
        return np.ascontiguousarray(self._raw["flags"])

    @cached_property
    def offset(self) -> U64:
        """Where the section's bytes start in the object."""
        return np.ascontiguousarray(self._raw["offset"])

    @cached_property
    def size_bytes(self) -> U64:
        """Size as stored, maybe compressed."""
        return np.ascontiguousarray(self._raw["size_bytes"])

    @cached_property
    def link(self) -> U32:
        return np.ascontiguousarray(self._raw["link"])

    @cached_property
    def info(self) -> U32:
        return np.ascontiguousarray(self._raw["info"])

    @cached_property
    def entsize(self) -> U64:
        return np.ascontiguousarray(self._raw["entsize"])

    @cached_property
    def is_code(self) -> Mask:
        """Whether the section is loaded and executable."""
        code = np.uint64(SHF_ALLOC | SHF_EXECINSTR)
        return np.asarray(((self.flags & code) == code) & (self.type != SHT_NOBITS))

    @cached_property
    def names(self) -> bytes:
        """The section name table; a copy, since only `bytes` can be searched."""
        return bytes(self.stored(self._names_section)) if self._names_section else b""

    def name(self, section: int) -> str:
        """Return the section's name."""
        name_offset = int(self.name_offset[section])
        if name_offset == 0 or not self._names_section:
            return ""
        end = self.names.find(0, name_offset)
        if end < 0:
            raise self.error(
                section,
                f"name of section {section} at {name_offset:#x} has no end "
                f"in the name table of {len(self.names)} bytes",
            )
        return self.names[name_offset:end].decode("utf-8", "surrogateescape")

    def named(self, name: str) -> I64:
        """Return the sections of exactly that name, ascending: none, one, or as many as have no name of their own."""
        needle = name.encode("utf-8", "surrogateescape") + b"\0"
        places = []  # a name may be stored once more, as the tail of a longer one
        place = self.names.find(needle)
        while place >= 0:
            places.append(place)
            place = self.names.find(needle, place + len(needle))
        return np.flatnonzero(is_one_of(self.name_offset, places))

    def stored(self, section: int) -> memoryview:
        """Return the bytes of a section as they lie in the object."""
        header = self._raw[section]
        if header["type"] in (SHT_NOBITS, SHT_NULL):
            return self.data[:0]
        offset, size_bytes = int(header["offset"]), int(header["size_bytes"])
        if offset > len(self.data) or size_bytes > len(self.data) - offset:
            raise self.error(
                section,
                f"section {section} of {size_bytes} bytes at {offset:#x} "
                f"ends outside of the file of {len(self.data)} bytes",
            )
        return self.data[offset : offset + size_bytes]

    def contents(self, section: int) -> memoryview:
        """Return the (inflated) contents of a section, not relocated; empty for NOBITS."""
        stored = self.stored(section)
        flags = int(self.flags[section])
        is_compressed = bool(flags & SHF_COMPRESSED) and bool(stored)
        is_gnu = not flags & (SHF_ALLOC | SHF_COMPRESSED) and bytes(stored[:4]) == b"ZLIB"
        if is_gnu:
            is_compressed = is_gnu = self.name(section).startswith(".zdebug_")
        if not is_compressed:
            return stored
        view = self._inflated.get(section)
        if view is None:
            inflated = compression.inflate(stored, self.path, self.name(section), gnu=is_gnu)
            view = self._inflated[section] = memoryview(inflated).toreadonly()
        return view

    def check_stored(self, sections: I64) -> None:
        """Refuse sections whose bytes are not all in the file, or that overlap so much that a copy outgrows it."""
        offset, size_bytes = self.offset[sections], self.size_bytes[sections]
        total = np.uint64(len(self.data))
        is_bad = (offset > total) | (size_bytes > total - np.minimum(offset, total))
        if is_bad.any():
            self.stored(int(sections[np.argmax(is_bad)]))
        if len(sections) and int(size_bytes.sum()) > len(self.data):
            raise self.error(
                int(sections[0]),
                f"{len(sections)} sections of one kind have {int(size_bytes.sum())} bytes, the file has {total}",
            )
