"""The future section headers and the contents that are new, without offsets.

The table is a list of entries in the order of the future indices: those that stay in their old order,
then the added ones. An entry keeps its old header, so that its bytes can be found in the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from icf.elf.types import (
    SHDR,
    SHF_COMPRESSED,
    SHF_INFO_LINK,
    SHN_LORESERVE_16,
    SHT_NOBITS,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    Section,
)
from icf.errors import FormatError, IcfError, UnsupportedError
from linkpass.rewrite.edits import Entry, SectionEdit, SectionGrowth

if TYPE_CHECKING:
    from icf.elf.image import Image

MAX_ALIGN = 1 << 20


def build_table(
    image: Image, edits: Sequence[SectionEdit], growths: Sequence[SectionGrowth], removals: Sequence[str]
) -> list[Entry]:
    """Return entries with final sizes, indices, links and contents, the name table included."""
    _check_request(image, edits, growths, removals)
    names = bytearray(image.stored(image.sections[image.headers.shstrndx]))
    start = image.headers.shoff
    raw = image.data[start : start + len(image.sections) * SHDR.size]
    removed = {section.index for name in removals if (section := image.named(name)) is not None}
    entries = []
    for section in image.sections:
        if section.index not in removed:
            at = section.index * SHDR.size
            entries.append(Entry(section, section, int.from_bytes(raw[at : at + 4], "little")))
    by_name = {entry.section.name: entry for entry in reversed(entries[1:])}
    for growth in growths:
        section_or_none = image.section(growth.name)
        entry = by_name.get(section_or_none.name) if section_or_none else None
        if entry is None:
            raise IcfError(f"{image.path}: section {growth.name} is to grow, and does not exist")
        _grow(image, entry, growth)
    for edit in edits:
        content = memoryview(edit.content).cast("B")
        section = Section(0, edit.name, edit.sh_type, edit.flags, 0, 0, len(content), 0, 0, edit.align, edit.entsize)
        existing = by_name.get(edit.name)
        if existing is None:
            entries.append(Entry(section, None, _name_offset(names, edit.name), content, edit))
        else:
            existing.section, existing.content, existing.edit = section, content, edit
    _renumber(image, entries)
    new_names = entries[_names_index(image, entries)]
    new_names.content = bytes(names)
    new_names.section = new_names.section._replace(size_bytes=len(names))
    return entries


def _names_index(image: Image, entries: Sequence[Entry]) -> int:
    """Return the future e_shstrndx."""
    return next(
        index
        for index, entry in enumerate(entries)
        if entry.before is not None and entry.before.index == image.headers.shstrndx
    )


def _check_request(
    image: Image, edits: Sequence[SectionEdit], growths: Sequence[SectionGrowth], removals: Sequence[str]
) -> None:
    """Refuse requests that cannot be met, before any work."""
    if not image.sections or not image.headers.shstrndx:
        raise UnsupportedError(f"{image.path}: has no section headers or names, a section cannot be added")
    names_section = image.sections[image.headers.shstrndx]
    if names_section.is_alloc or names_section.type != SHT_STRTAB:
        raise UnsupportedError(
            f"{image.path}: section names lie in {names_section.name}, must be a string table that is not loaded"
        )
    changed: set[str] = set()
    for name in [*(edit.name for edit in edits), *(growth.name for growth in growths), *removals]:
        section = image.section(name)
        actual_name = section.name if section else name
        if not name or actual_name in changed:
            raise IcfError(f"section {name!r} is to be changed twice, or has no name")
        changed.add(actual_name)
        if section is None:
            continue
        if section.is_alloc:
            raise UnsupportedError(f"{image.path}: {name} is loaded, only sections that are not can be changed")
        if section.index == image.headers.shstrndx:
            raise UnsupportedError(f"{image.path}: {name} holds the section names and cannot be changed")
    for edit in edits:
        if edit.align < 1 or edit.align & (edit.align - 1) or edit.align > MAX_ALIGN:
            raise IcfError(f"section {edit.name}: alignment is {edit.align}, must be a power of two up to {MAX_ALIGN}")


def _grow(image: Image, entry: Entry, growth: SectionGrowth) -> None:
    """Extend the contents of a section, compressed or not."""
    section = entry.section
    if section.type == SHT_NOBITS:
        raise IcfError(f"{image.path}: section {growth.name} is to grow, and has no contents in this file")
    old_bytes = image.contents_size_bytes(section)
    keep_bytes = old_bytes if growth.keep_bytes is None else growth.keep_bytes
    if not 0 <= keep_bytes <= old_bytes:
        raise IcfError(f"{image.path}: {keep_bytes} bytes of {growth.name} are to stay, it has {old_bytes}")
    tail = memoryview(growth.tail).cast("B")
    if image.is_compressed(section):
        from icf.elf import compression

        gnu = not section.flags & SHF_COMPRESSED
        header = compression.parse_header(image.stored(section), image.path, section.name, gnu=gnu)
        entry.content = compression.compress(b"".join((image.contents(section)[:keep_bytes], tail)), header)
        entry.section = section._replace(size_bytes=len(entry.content))
    else:
        entry.tail = tail
        entry.section = section._replace(size_bytes=keep_bytes + len(tail))


def _name_offset(names: bytearray, name: str) -> int:
    """Return where `name` stands in the name table; append it if it is missing."""
    encoded = name.encode() + b"\0"
    found = names.find(b"\0" + encoded)
    if found >= 0:
        return found + 1
    if names[-1:] != b"\0":
        names += b"\0"
    names += encoded
    return len(names) - len(encoded)


def _renumber(image: Image, entries: list[Entry]) -> None:
    """Turn every section index into the entry's place in the list: in headers, groups and symbols."""
    new_index = {entry.before.index: index for index, entry in enumerate(entries) if entry.before is not None}
    index_by_name = {entry.section.name: index for index, entry in reversed(list(enumerate(entries)))}

    def resolve(entry: Entry, old_index: int, what: str) -> int:
        if old_index == 0:
            return 0
        if old_index not in new_index and old_index < len(image.sections):
            gone = image.sections[old_index].name
            raise IcfError(f"{image.path}: {gone} cannot be removed, section {entry.section.name} refers to it")
        if old_index not in new_index:
            raise FormatError(
                image.path,
                "section headers",
                image.headers.shoff + entry.section.index * SHDR.size,
                f"section {entry.section.name} has {what} {old_index}, there are {len(image.sections)} sections",
            )
        return new_index[old_index]

    for index, entry in enumerate(entries):
        section = entry.section
        if entry.edit is not None:
            for name in (entry.edit.link, entry.edit.info):
                if name and name not in index_by_name:
                    raise IcfError(f"{image.path}: section {section.name} refers to {name}, which does not exist")
            link, info = index_by_name.get(entry.edit.link, 0), index_by_name.get(entry.edit.info, 0)
        elif index == 0:
            link, info = section.link, section.info  # of section 0 they hold counts
        else:
            link, info = resolve(entry, section.link, "sh_link"), section.info
            if section.flags & SHF_INFO_LINK or section.type in (SHT_RELA, SHT_REL):
                info = resolve(entry, section.info, "sh_info")
        if (section.index, section.link, section.info) != (index, link, info):
            entry.section = section._replace(index=index, link=link, info=info)
    if any(old != new for old, new in new_index.items()) or len(new_index) < len(image.sections):
        from linkpass.rewrite.symbols import renumber_contents

        renumber_contents(image, entries, new_index)
    count, names_index = len(entries), _names_index(image, entries)
    entries[0].section = entries[0].section._replace(
        size_bytes=count if count >= SHN_LORESERVE_16 else 0,
        link=names_index if names_index >= SHN_LORESERVE_16 else 0,
    )
