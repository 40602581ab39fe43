"""The place of every byte of the rewritten file.

`plan_layout` decides all sizes and offsets before anything is written. Its result is the list of
pieces that make up the file: ranges of the input and new bytes. Bytes that no piece covers are zero; a later
piece lies over an earlier one only where it patches the block of loaded bytes.

The tail (see `linkpass.rewrite.sections`) begins where the last loaded byte ends. A section that is not loaded
but lies before that point stays where it is; when such a one changes, its new contents move to the tail.
An empty section takes no part in the layout: it points to the start of the tail.

A pass changes few sections, and those come last in the tail. So the place of all others, and of the old part
of `.debug_info`, is known before the changes are (`plan_copies`), and a thread copies them meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from struct import pack
from typing import TYPE_CHECKING, NamedTuple

from icf.elf.headers import SECTION_HEADERS
from icf.elf.types import (
    EHDR,
    PHDR,
    SHDR,
    SHN_LORESERVE_16,
    SHN_XINDEX_16,
    SHT_NOBITS,
    SHT_NULL,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
    Section,
)
from icf.errors import FormatError, UnsupportedError
from linkpass.rewrite.edits import Entry, SectionEdit, SectionGrowth
from linkpass.rewrite.table import MAX_ALIGN, build_table

if TYPE_CHECKING:
    from icf.elf.image import Image

_TABLE_ALIGN = 8
# what a pass may change or add, in this order after all else; of the first only the end changes
_INFO_NAMES = (".debug_info", ".zdebug_info")
_ABBREV_NAMES = (".debug_abbrev", ".zdebug_abbrev")
_TABLE_NAMES = (".debug_dcall", ".debug_vcall", ".debug_icf")
_CHUNK_SIZE_BYTES = 1 << 20


class Piece(NamedTuple):
    """Bytes of the output: new ones, or `size_bytes` of the input from `source_offset` on."""

    offset: int
    size_bytes: int
    content: bytes | memoryview | None = None
    source_offset: int = 0


class Layout(NamedTuple):
    """The pieces of the output, in the order of writing."""

    pieces: tuple[Piece, ...]
    size_bytes: int


def loaded_end(image: Image) -> int:
    """Return the file offset after the last byte that must stay where it is."""
    ends = [EHDR.size, image.headers.phoff + len(image.segments) * PHDR.size if image.segments else 0]
    ends += [section.end for section in image.sections if section.is_alloc and section.type != SHT_NOBITS]
    if not image.is_debug_file:  # there the segments describe the file it was made from
        ends += [segment.offset + segment.filesz for segment in image.segments if segment.filesz]
    end = max(ends)
    if end > len(image.data):
        raise FormatError(
            image.path, "ELF header", 0, f"loaded bytes end at {end:#x}, the file at {len(image.data):#x}"
        )
    return end


def plan_layout(
    image: Image, edits: Sequence[SectionEdit], growths: Sequence[SectionGrowth], removals: Sequence[str]
) -> Layout:
    """Decide every offset; refuse changes that would break the image."""
    entries = build_table(image, edits, growths, removals)
    tail_start = loaded_end(image)
    _check_trailing_bytes(image, tail_start)
    names = next(entry for entry in entries if entry.before and entry.before.index == image.headers.shstrndx)
    edited = {entry.edit.name: entry for entry in entries if entry.edit is not None}
    tail = [*_old_tail(image, entries, tail_start), *(edited[edit.name] for edit in edits), names]
    pieces = [Piece(0, tail_start)]
    end = _place(image, tail, tail_start, pieces)
    table = _pack_table(entries)
    table_offset = _align_up(end, _TABLE_ALIGN)
    pieces.append(Piece(table_offset, len(table), table))
    for entry in entries:
        if entry.section.is_alloc and entry.content is not None:  # .dynsym, in place
            pieces.append(Piece(entry.section.offset, len(entry.content), entry.content))
    pieces.append(Piece(0, EHDR.size, _pack_header(image, table_offset, len(entries), names.section.index)))
    return Layout(tuple(pieces), table_offset + len(table))


def plan_copies(image: Image, removals: Sequence[str]) -> tuple[Piece, ...]:
    """Return what layouts with these removals begin with, as long as only sections change that a pass changes.

    The last of the pieces may be longer than in the layout (`.debug_info`, of which a pass may replace the end).
    """
    removed = {section.index for name in removals if (section := image.named(name)) is not None}
    entries = [Entry(section, section, 0) for section in image.sections if section.index not in removed]
    tail_start = loaded_end(image)
    copied = [entry for entry in _old_tail(image, entries, tail_start) if not _is_changed(image, entry.section)]
    pieces = [Piece(0, tail_start)]
    _place(image, copied, tail_start, pieces)
    return tuple(pieces)


def _is_changed(image: Image, section: Section) -> bool:
    """Return whether a pass may change a section at its start."""
    return _rank(section) > 0 and (section.name not in _INFO_NAMES or image.is_compressed(section))


def _rank(section: Section) -> int:
    """Return the place of a section among those that a pass may change, from 1 on; 0: a pass never changes it."""
    if section.name in _INFO_NAMES:
        return 1
    if section.name in _ABBREV_NAMES:
        return 2
    if section.type in (SHT_SYMTAB, SHT_SYMTAB_SHNDX):
        return 3
    return 4 + _TABLE_NAMES.index(section.name) if section.name in _TABLE_NAMES else 0


def _place(image: Image, tail: Sequence[Entry], tail_start: int, pieces: list[Piece]) -> int:
    """Give each section of the tail its offset, and append its pieces; return where the tail ends."""
    offset = tail_start
    for entry in tail:
        section, align = entry.section, _alignment(image, entry)
        if section.size_bytes == 0 or section.type == SHT_NOBITS:
            entry.section = section._replace(offset=_align_up(tail_start, align))
            continue
        offset = _align_up(offset, align)
        tail_bytes = len(entry.tail) if entry.tail is not None else 0
        kept_bytes = section.size_bytes - tail_bytes
        last = pieces[-1]
        if (
            entry.content is last.content is None
            and last.offset + last.size_bytes == offset
            and last.source_offset + last.size_bytes == section.offset
        ):  # one copy for sections that follow one another, of which an object has hundreds
            pieces[-1] = last._replace(size_bytes=last.size_bytes + kept_bytes)
        else:
            pieces.append(Piece(offset, kept_bytes, entry.content, section.offset))
        if tail_bytes:
            pieces.append(Piece(offset + kept_bytes, tail_bytes, entry.tail))
        if section.offset != offset:
            entry.section = section._replace(offset=offset)
        offset += section.size_bytes
    return offset


def _old_tail(image: Image, entries: Sequence[Entry], tail_start: int) -> list[Entry]:
    """Return the old sections that belong in the tail, in its order, without the section names.

    Those are the sections that lie there, and those that outgrew their place.
    """
    tail = []
    for entry in entries[1:]:
        section, before = entry.section, entry.before
        if before is None or entry.edit is not None or section.is_alloc or section.type == SHT_NULL:
            continue
        if before.index == image.headers.shstrndx:
            continue
        if entry.content is None and entry.tail is None and section.offset < tail_start:
            if tail_start < section.end:
                raise UnsupportedError(f"{image.path}: section {section.name} is loaded in part")
            continue
        tail.append((before, entry))
    tail.sort(key=lambda pair: (pair[0].offset, pair[0].index))
    previous_end, previous_name = 0, ""
    for before, _ in tail:
        start, end = image.extent(before)  # raises an error for a section outside of the file
        if start < end:
            if before.offset < previous_end:  # copies of one range might fill the disk
                raise UnsupportedError(f"{image.path}: sections {previous_name} and {before.name} overlap")
            previous_end, previous_name = before.end, before.name
    tail.sort(key=lambda pair: _rank(pair[0]))  # stable
    return [entry for _, entry in tail]


def _alignment(image: Image, entry: Entry) -> int:
    align = max(entry.section.align, 1)
    if align & (align - 1) or align > MAX_ALIGN:
        raise FormatError(
            image.path,
            SECTION_HEADERS,
            image.headers.shoff + (entry.before.index if entry.before else 0) * SHDR.size,
            f"section {entry.section.name} has alignment {align}, must be a power of two up to {MAX_ALIGN}",
        )
    return align


def _align_up(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _check_trailing_bytes(image: Image, tail_start: int) -> None:
    """Refuse a file with data after the ELF image: its readers find that data from the end of the file."""
    ends = [section.end for section in image.sections if section.type != SHT_NULL]
    end = max(tail_start, image.headers.shoff + len(image.sections) * SHDR.size, *ends)
    for start in _written_chunks(image, end):
        if bytes(image.data[start : start + _CHUNK_SIZE_BYTES]).strip(b"\0"):
            raise UnsupportedError(
                f"{image.path}: {len(image.data) - end} bytes at {end:#x} follow the ELF image, "
                "and could not stay where their reader looks for them",
                hint="run the pass before anything is appended to the file",
            )


def _written_chunks(image: Image, start: int) -> Iterator[int]:
    """Yield the offsets of the chunks from `start` on that are not holes, of which a sparse file may have terabytes."""
    while start < len(image.data):
        try:
            start = max(start, os.lseek(image.fileno(), start, os.SEEK_DATA))
        except OSError:  # ENXIO: only a hole is left
            return
        yield start
        start += _CHUNK_SIZE_BYTES


def _pack_table(entries: Sequence[Entry]) -> bytes:
    rows = []
    for entry in entries:
        s = entry.section
        fields = (s.type, s.flags, s.vaddr, s.offset, s.size_bytes, s.link, s.info, s.align, s.entsize)
        rows.append(SHDR.pack(entry.name_offset, *fields))
    return b"".join(rows)


def _pack_header(image: Image, table_offset: int, count: int, names_index: int) -> bytes:
    header = bytearray(image.data[: EHDR.size])
    header[40:48] = pack("<Q", table_offset)
    header[60:62] = pack("<H", count if count < SHN_LORESERVE_16 else 0)
    header[62:64] = pack("<H", names_index if names_index < SHN_LORESERVE_16 else SHN_XINDEX_16)
    return bytes(header)
