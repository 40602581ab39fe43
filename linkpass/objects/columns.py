"""The sections and symbols of all objects of a link as columns, and the addresses of those that the image names.

Sections are numbered through, object after object, in the order of the link. A symbol has a key: the hash of
its name, mixed with that of its source file if it is local. Symbols with one key are one thing, except local symbols of
source files that have one name: those are not looked up.

    object  a.o   section 17  .text._Z3foov   symbol _Z3foov   ─┐  same key
    image                                     symbol _Z3foov   ─┘  at 0x1720: so section 17 is at 0x1720

Linkers make hidden symbols local, mold all; these are compared by their names alone, unless a local one has the name.

Of several COMDAT groups of one name the first is linked and the others are dropped: only its sections prevail. A member
of an archive counts if any section of it is in the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.elf.image import Image
from icf.elf.objectfile import ObjectFile
from icf.elf.symbols import Symbols
from icf.elf.types import (
    SHF_ALLOC,
    SHF_MERGE,
    SHT_NOBITS,
    STB_LOCAL,
    STB_WEAK,
    STT_FILE,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
)
from icf.sets import distinct_pairs, is_in

NOWHERE = -1  # in place of an address, or of a row
_MIX = np.uint64(0x9E3779B97F4A7C15)
_IS_FUNCTION = np.isin(np.arange(16), (STT_FUNC, STT_GNU_IFUNC))  # by type
_IS_NAMED = np.isin(np.arange(16), (STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC))


class Sections(NamedTuple):
    """The sections of all objects, a row each, the null sections too; as pieces of code, see linkpass.objects.code."""

    object_idx: I64
    section: I64  # in its object
    offset: U64  # of the piece in the section: 0
    size_bytes: U64
    file_offset: U64
    is_code: Mask
    is_placed: Mask  # it is loaded, and in one piece: not strings, which a linker splits
    has_relocations: Mask
    group: U64  # hash of the name of its COMDAT group, 0 if it is in none


class Definitions(NamedTuple):
    """The named symbols in loaded sections of the objects, in link order."""

    symbol: I64  # row in the symbol table of the object
    section: I64  # row of Sections
    value: I64
    key: U64
    name_hash: U64
    is_local: Mask
    is_weak: Mask
    is_function: Mask


class LinkColumns:
    """The symbols that the objects define, and their addresses by name."""

    def __init__(self, image: Image, objects: Sequence[ObjectFile]) -> None:
        self.objects = objects
        self.first = np.cumsum([0, *(object_file.sections.count for object_file in objects)]).astype(np.int64)
        self.keys: list[U64] = []  # of the symbols of each object, 0 for those without a name
        sections, definitions = [], []
        for object_idx, object_file in enumerate(objects):
            hashes, keys = _keys(object_file)
            self.keys.append(keys)
            sections.append(_sections(object_idx, object_file))
            definitions.append(_definitions(object_file, hashes, keys, int(self.first[object_idx])))
        self.sections = Sections(*map(np.concatenate, zip(*sections, strict=True)))
        self.definitions = Definitions(*map(np.concatenate, zip(*definitions, strict=True)))
        self._read_image(image)

    def _read_image(self, image: Image) -> None:
        """Look all definitions up in the symbol tables of the image."""
        found = self.definitions
        local = np.sort(found.key[found.is_local])
        is_doubtful = found.is_local & is_in(found.key, local[1:][local[1:] == local[:-1]])
        is_distinct = ~found.is_local & ~is_in(found.name_hash, np.sort(found.name_hash[found.is_local]))
        self.has_symbol = np.zeros(len(found.key), np.bool_)  # in .symtab
        self.address = np.full(len(found.key), NOWHERE, np.int64)
        for symbols in (image.dynamic_symbols, image.symbols):
            is_named = symbols.is_defined & _IS_NAMED[symbols.type] & (symbols.name_offset != 0)
            rows = np.flatnonzero(is_named)
            hashes, values = symbols.hashes(rows), symbols.value[rows].view(np.int64)
            is_local = symbols.bind[rows] == STB_LOCAL
            keys = hashes.copy()
            keys[is_local] = _with_file(hashes[is_local], symbols, rows[is_local])
            address = _look_up(keys, values, found.key)
            is_demoted = is_distinct & (address == NOWHERE)
            address[is_demoted] = _look_up(hashes, values, found.key[is_demoted])
            is_known = ~is_doubtful & (address != NOWHERE)
            self.address[is_known] = address[is_known]
            is_one_each = is_doubtful & _have_one_each(keys[is_local], values[is_local], local, found.key)
            self.has_symbol = is_known | is_one_each
        dynamic = image.dynamic_symbols
        imported = np.flatnonzero(~dynamic.is_defined & (dynamic.name_offset != 0))
        self.imported = dynamic.hashes(imported)
        self.has_symbol &= ~is_doubtful | self._have_all_files(image.symbols)

    def _have_all_files(self, symbols: Symbols) -> Mask:
        """Return for each definition whether objects are there for all source files with the name of its own.

        Linkers keep the symbol of the source file of each object. If an object is missing, its static functions may
        have the symbols that are thought to be those of others.
        """
        linked = [each for each, is_linked in zip(self.objects, self.is_linked.tolist(), strict=True) if is_linked]
        own = self.definitions.key ^ self.definitions.name_hash
        given = np.concatenate([np.empty(0, np.uint64), *(_files(each.symbols) for each in linked)])
        return np.asarray(_count(_files(symbols), own) <= _count(given, own))

    @cached_property
    def is_linked(self) -> Mask:
        """For each object whether the linker took it: of the members of an archive those that are needed."""
        linked = np.array([not object_file.name.endswith(")") for object_file in self.objects], np.bool_)
        linked[self.sections.object_idx[self.definitions.section[self.address != NOWHERE]]] = True
        return linked

    @property
    def copies(self) -> Mask:
        """Whether a section may be in the link: all copies of all groups."""
        return np.asarray(self.is_linked[self.sections.object_idx] & self.sections.is_placed)

    @cached_property
    def prevails(self) -> Mask:
        """Whether a section is in the link: its object is linked, and its group is the first of its name."""
        sections, prevails = self.sections, self.copies
        rows = np.flatnonzero(prevails & (sections.group != 0))
        groups, first = np.unique(sections.group[rows], return_index=True)
        owner = sections.object_idx[rows[first]]
        prevails[rows] = owner[np.searchsorted(groups, sections.group[rows])] == sections.object_idx[rows]
        return prevails

    def bases(self, sections: Mask) -> I64:
        """Return the address of each of these sections by its symbols.

        NOWHERE without symbols, or where they disagree. A weak one may be that of another object, so it counts where
        there are no others.
        """
        found = self.definitions
        rows = np.flatnonzero((self.address != NOWHERE) & sections[found.section])
        is_weak = found.is_weak[rows]
        rows = rows[~is_weak | ~is_in(found.section[rows], found.section[rows[~is_weak]])]
        bases = np.full(len(self.sections.section), NOWHERE, np.int64)
        wanted = self.address[rows] - found.value[rows]
        bases[found.section[rows]] = wanted
        bases[found.section[rows[bases[found.section[rows]] != wanted]]] = NOWHERE
        return bases


def _keys(object_file: ObjectFile) -> tuple[U64, U64]:
    """Return the hash of the name and the key of each symbol."""
    symbols = object_file.symbols
    hashes = np.zeros(symbols.count, np.uint64)
    rows = np.flatnonzero(symbols.name_offset != 0)
    hashes[rows] = symbols.hashes(rows)
    keys = hashes.copy()
    local = rows[symbols.bind[rows] == STB_LOCAL]
    keys[local] = _with_file(hashes[local], symbols, local)
    return hashes, keys


def _have_one_each(known: U64, values: I64, defined: U64, keys: U64) -> Mask:
    """Return for which keys the image has as many symbols as the objects define, each at an address of its own.

    Static functions of one name, of two files of one name: nothing shows whose symbol is whose, but each has one.

    Args:
        known: the keys of the local symbols of the image.
        values: their addresses.
        defined: the keys of the local definitions; both these and `keys` may have one several times.
        keys: what is asked.
    """
    apart = distinct_pairs(known, values.view(np.uint64))[0]
    count = _count(known, keys)
    return np.asarray((count == _count(apart, keys)) & (count == _count(defined, keys)))


def _count(among: U64, keys: U64) -> I64:
    """Return how often each key is among others."""
    among = np.sort(among)
    return np.searchsorted(among, keys, side="right") - np.searchsorted(among, keys)


def _with_file(hashes: U64, symbols: Symbols, rows: I64) -> U64:
    """Return the keys of local symbols."""
    files = symbols.file_rows[rows]
    known = np.flatnonzero(files >= 0)
    mixed = hashes.copy()
    mixed[known] ^= symbols.hashes(files[known]) * _MIX
    return mixed


def _files(symbols: Symbols) -> U64:
    """Return what each symbol of a source file adds to the keys of the local symbols after it."""
    return symbols.hashes(symbols.type == STT_FILE) * _MIX


def _sections(object_idx: int, object_file: ObjectFile) -> Sections:
    table = object_file.sections
    end_bytes = np.uint64(len(object_file.data))
    size_bytes = np.where(table.type == SHT_NOBITS, np.uint64(0), table.size_bytes)
    is_stored = (table.offset <= end_bytes) & (size_bytes <= end_bytes - np.minimum(table.offset, end_bytes))
    is_whole = (table.flags & np.uint64(SHF_ALLOC | SHF_MERGE)) == SHF_ALLOC
    signature = object_file.group_symbol
    grouped = np.flatnonzero(signature != 0)
    group = np.zeros(table.count, np.uint64)
    # gcc's groups of constructors are named by local symbols (C5), which mean the same in all files
    symbols = object_file.symbols
    group[grouped] = symbols.hashes(signature[grouped])
    return Sections(
        np.full(table.count, object_idx, np.int64),
        np.arange(table.count, dtype=np.int64),
        np.zeros(table.count, np.uint64),
        size_bytes,
        table.offset,
        table.is_code,
        is_whole & (is_stored | (table.type == SHT_NOBITS)),
        object_file.relocation_section != 0,
        group,
    )


def _definitions(object_file: ObjectFile, hashes: U64, keys: U64, first: int) -> Definitions:
    symbols, table = object_file.symbols, object_file.sections
    rows = np.flatnonzero(symbols.is_defined & (keys != 0) & _IS_NAMED[symbols.type])
    rows = rows[symbols.shndx[rows] < table.count]
    rows = rows[(table.flags[symbols.shndx[rows]] & np.uint64(SHF_ALLOC)) != 0]
    return Definitions(
        rows,
        symbols.shndx[rows].astype(np.int64) + first,
        symbols.value[rows].view(np.int64),
        keys[rows],
        hashes[rows],
        symbols.bind[rows] == STB_LOCAL,
        symbols.bind[rows] == STB_WEAK,
        _IS_FUNCTION[symbols.type[rows]],
    )


def _look_up(known: U64, values: I64, keys: U64) -> I64:
    """Return the value of each key, NOWHERE if it is not known or has several."""
    if not len(known):
        return np.full(len(keys), NOWHERE, np.int64)
    order = np.lexsort((values, known))
    known, values = known[order], values[order]
    first = np.searchsorted(known, keys)
    last = np.searchsorted(known, keys, side="right") - 1
    found = np.minimum(first, len(known) - 1)
    return np.where((last >= first) & (values[found] == values[last]), values[found], NOWHERE)
