"""Compares a rewritten image with its input: everything outside of the plan must be as it was.

The check rests on the meaning of the two files, not on the layout that produced the second: both are
opened, sections are paired by their order, symbols by their rows, and indices are compared by what they
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from icf.elf.types import (
    EHDR,
    SHF_INFO_LINK,
    SHT_DYNSYM,
    SHT_GROUP,
    SHT_NOBITS,
    SHT_NULL,
    SHT_REL,
    SHT_RELA,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
    Section,
)
from icf.errors import IcfError
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.file import same_bytes, same_ranges
from linkpass.rewrite.layout import loaded_end

if TYPE_CHECKING:
    from icf.elf.image import Image

_E_SHOFF = slice(40, 48)
_E_SHNUM_SHSTRNDX = slice(60, 64)


def check_images(
    image: Image,
    out: Image,
    edits: Sequence[SectionEdit],
    growths: Sequence[SectionGrowth],
    removals: Sequence[str],
) -> None:
    """Raise IcfError unless `out` is `image` with these changes; of long unchanged pieces a sample is read."""
    gone = {section.index for name in removals if (section := image.named(name)) is not None}
    new_index = {s.index: index for index, s in enumerate(s for s in image.sections if s.index not in gone)}
    added = [edit.name for edit in edits if image.named(edit.name) is None]
    if len(out.sections) != len(new_index) + len(added):
        raise IcfError(f"{out.path}: has {len(out.sections)} sections, not {len(new_index) + len(added)}")
    _check_loaded(image, out, renumbered=bool(gone))
    replaced = {section.index for edit in edits if (section := image.named(edit.name)) is not None}
    grown = {section.index: growth for growth in growths if (section := image.section(growth.name)) is not None}
    for before in image.sections[1:]:
        if before.index in new_index and before.index not in replaced:
            after = out.sections[new_index[before.index]]
            _check_header(image, out, before, after, new_index)
            _check_contents(image, out, before, after, new_index, grown.get(before.index))
    for edit in edits:
        written = out.named(edit.name)
        if written is None or not same_bytes(out.stored(written), memoryview(edit.content).cast("B")):
            raise IcfError(f"{out.path}: section {edit.name} does not hold what was written")
        if (written.type, written.flags, written.align) != (edit.sh_type, edit.flags, edit.align):
            raise IcfError(f"{out.path}: header of section {edit.name} is not what was written")


def _check_loaded(image: Image, out: Image, *, renumbered: bool) -> None:
    """Compare the file header and all that follows up to the tail, but section indices in `.dynsym`."""
    header = bytearray(image.data[: EHDR.size])
    header[_E_SHOFF] = out.data[_E_SHOFF]
    header[_E_SHNUM_SHSTRNDX] = out.data[_E_SHNUM_SHSTRNDX]
    if bytes(out.data[: EHDR.size]) != header:
        raise IcfError(f"{out.path}: the ELF header differs from that of {image.path}")
    start, end = EHDR.size, loaded_end(image)
    ranges = [(start, end)]
    for section in image.sections:
        if renumbered and section.type == SHT_DYNSYM and section.is_alloc:
            ranges = [(start, section.offset), (section.end, end)]
    for start, end in ranges:
        if not same_ranges(image.fileno(), start, out.fileno(), start, end - start):
            raise IcfError(f"{out.path}: loaded bytes between {start:#x} and {end:#x} differ from {image.path}")


def _check_header(image: Image, out: Image, before: Section, after: Section, new_index: Mapping[int, int]) -> None:
    info_is_index = before.flags & SHF_INFO_LINK or before.type in (SHT_RELA, SHT_REL)
    info = new_index[before.info] if info_is_index else before.info
    expected = (before.name, before.type, before.flags, before.vaddr, new_index[before.link], before.align)
    if expected != (after.name, after.type, after.flags, after.vaddr, after.link, after.align):
        raise IcfError(f"{out.path}: header of section {after.index} ({before.name}) differs from {image.path}")
    if info != after.info and not (before.type == SHT_SYMTAB and after.info < info):
        raise IcfError(f"{out.path}: sh_info of {before.name} is {after.info}, not {info}")


def _check_contents(
    image: Image,
    out: Image,
    before: Section,
    after: Section,
    new_index: Mapping[int, int],
    growth: SectionGrowth | None,
) -> None:
    if growth is not None:
        keep_bytes = image.contents_size_bytes(before) if growth.keep_bytes is None else growth.keep_bytes
        if image.is_compressed(before):
            same = same_bytes(image.contents(before)[:keep_bytes], out.contents(after)[:keep_bytes])
        else:
            same = same_ranges(image.fileno(), before.offset, out.fileno(), after.offset, keep_bytes)
        same = same and same_bytes(out.unkept(after)[keep_bytes:], memoryview(growth.tail).cast("B"))
    elif before.index == image.headers.shstrndx:
        same = same_bytes(image.stored(before), out.stored(after)[: before.size_bytes])
    elif len(new_index) < len(image.sections) and before.type in (SHT_SYMTAB, SHT_DYNSYM):
        same = _same_symbols(image, out, before, after, new_index)
    elif len(new_index) < len(image.sections) and before.type in (SHT_GROUP, SHT_SYMTAB_SHNDX):
        same = True  # the latter is compared with its symbols
    elif before.type in (SHT_NULL, SHT_NOBITS):
        same = True
    else:
        same = before.size_bytes == after.size_bytes
        same = same and same_ranges(image.fileno(), before.offset, out.fileno(), after.offset, before.size_bytes)
    if not same:
        raise IcfError(f"{out.path}: contents of section {before.name} differ from {image.path}")


def _same_symbols(image: Image, out: Image, before: Section, after: Section, new_index: Mapping[int, int]) -> bool:
    """Return whether the tables hold the same symbols, but for those of sections that are gone."""
    import numpy as np  # rewriting an object removes nothing, and needs no numpy

    old, new = image.symbols_of(before.index), out.symbols_of(after.index)
    mapping = np.array([new_index.get(index, 0) for index in range(len(image.sections))], dtype=np.uint32)
    shndx = old.shndx.copy()
    shndx[old.is_defined] = mapping[shndx[old.is_defined]]
    stays = ~old.is_defined | (shndx != 0)
    rows = np.arange(old.count) if new.count == old.count else np.flatnonzero(stays)
    if len(rows) != new.count:
        return False
    kept = stays[rows]
    columns = (
        (old.value, new.value), (old.size_bytes, new.size_bytes), (old.type, new.type), (old.bind, new.bind),
        (old.name_offset, new.name_offset), (shndx, new.shndx),
    )  # fmt: skip
    return all(np.array_equal(left[rows][kept], right[kept]) for left, right in columns)
