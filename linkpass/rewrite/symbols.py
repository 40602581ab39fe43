"""Section indices inside of section contents, after sections were removed: symbols and groups.

Linkers that keep relocations also write a section symbol for each section, the relocation sections
included. A symbol of a removed section goes too, unless relocations or groups that stay count on the
rows of its table; then it becomes a nameless absolute one.

The dynamic symbol table is loaded, yet its section indices are for tools only; it is patched in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from icf.columns import U32
from icf.elf.symbols import SYM
from icf.elf.types import (
    SHN_ABS_16,
    SHN_LORESERVE,
    SHN_LORESERVE_16,
    SHN_XINDEX_16,
    SHT_DYNSYM,
    SHT_GROUP,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
)
from icf.errors import IcfError
from linkpass.rewrite.edits import Entry

if TYPE_CHECKING:
    from icf.elf.image import Image

_REMOVED = np.uint32(0xFFFFFFFF)


def renumber_contents(image: Image, entries: list[Entry], new_index: Mapping[int, int]) -> None:
    """Set the new contents of each symbol table and group in which an index changes."""
    mapping = np.full(len(image.sections), _REMOVED, dtype=np.uint32)
    mapping[list(new_index.keys())] = list(new_index.values())
    for entry in entries:
        if entry.before is None or entry.edit is not None:
            continue
        if entry.section.type in (SHT_SYMTAB, SHT_DYNSYM):
            _renumber_symbols(image, entries, entry, mapping)
        elif entry.section.type == SHT_GROUP:
            words = np.frombuffer(image.contents(entry.before)[: entry.before.size_bytes // 4 * 4], dtype="<u4").copy()
            words[1:] = _renumbered(image, entry, words[1:], mapping)
            _put(entry, words[np.flatnonzero(words != _REMOVED)].tobytes())


def _renumber_symbols(image: Image, entries: list[Entry], entry: Entry, mapping: U32) -> None:
    assert entry.before is not None
    symbols = image.symbols_of(entry.before.index)
    shndx = symbols.shndx.copy()
    shndx[symbols.is_defined] = _renumbered(image, entry, shndx[symbols.is_defined], mapping)
    dead = symbols.is_defined & (shndx == _REMOVED)
    raw = np.frombuffer(image.contents(entry.before), dtype=SYM).copy()
    is_escaped = (shndx >= SHN_LORESERVE_16) & (shndx < SHN_LORESERVE)
    raw["st_shndx"] = np.where(is_escaped, SHN_XINDEX_16, shndx & 0xFFFF).astype("<u2")
    extended = np.where(is_escaped, shndx, 0).astype("<u4")
    if dead.any():
        if entry.section.is_alloc:
            raise IcfError(f"{image.path}: a symbol of {entry.section.name} lies in a section to be removed")
        index = entry.section.index
        if any(e.section.link == index and e.section.type != SHT_SYMTAB_SHNDX for e in entries[1:]):
            raw[dead] = np.zeros(1, dtype=SYM)
            raw["st_shndx"][dead] = SHN_ABS_16
        else:
            raw, extended = raw[~dead], extended[~dead]
            dead_locals = int(np.count_nonzero(dead[: entry.section.info]))
            entry.section = entry.section._replace(info=entry.section.info - dead_locals)
    if raw.tobytes() != image.contents(entry.before):
        _put(entry, raw.tobytes())
    for other in entries:
        if other.section.type == SHT_SYMTAB_SHNDX and other.section.link == entry.section.index:
            _put(other, extended.tobytes())


def _renumbered(image: Image, entry: Entry, indices: U32, mapping: U32) -> U32:
    if len(indices) and int(indices.max()) >= len(mapping):
        raise IcfError(
            f"{image.path}: {entry.section.name} names section {int(indices.max())}, there are {len(mapping)} sections"
        )
    return mapping[indices]


def _put(entry: Entry, content: bytes) -> None:
    entry.content = content
    entry.section = entry.section._replace(size_bytes=len(content))
