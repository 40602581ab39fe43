"""Whose address is taken, by the objects of the link, if they are all there.

In an object the relocation of every address names its function, in code and data that the linker folded, too:

    .text._Z6choosev     lea  ?(%rip), %rax     R_X86_64_PC32   f     taken
                         call ?                 R_X86_64_PLT32  g     not
    .data.rel.ro._ZTV1A  .quad ?                R_X86_64_64     h     virtual: it is in the symbol _ZTV1A

So the functions that are named are all that can be meant. Three things are left to the image: functions whose linkage
name nothing tells; the addresses of functions that stand in one section with others, or take their own, for which an
assembler needs no relocation; and code of the C runtime, which is in no object that was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icf.elf.objectfile import Entries, ObjectFile
from icf.elf.sectiontable import Rows
from icf.elf.types import SHF_ALLOC, STB_LOCAL, STT_OBJECT, STT_SECTION, Machine
from icf.folds.tombstoned import is_unfolded
from icf.strings import hash_names, hash_table
from linkpass.linked import Linked, Place
from linkpass.objects import LinkObjects
from linkpass.taken_by_relocation import A64_BRANCHES, RELATIVE, x86_64_branches
from linkpass.vtables import are_vtable_names

U64 = NDArray[np.uint64]
_OPERAND_BYTES = 4
_UNWIND = (".eh_frame", ".gcc_except_table")


class TakenByObjects(NamedTuple):
    """The members that the objects name, and bodies of which they do not say everything."""

    taken: set[Place]
    virtual: set[Place]
    shared_sections: set[int]  # bodies of functions that stand in one section with others


def are_complete(linked: Linked, objects: LinkObjects) -> bool:
    """Whether all functions of the image that have a symbol are in the objects, as machine code."""
    if not objects.objects or any(object_file.has_lto_code for object_file in objects.objects):
        return False
    symbols = linked.image.symbols
    stubs = [section.index for section in linked.image.sections if section.name.startswith((".plt", ".iplt"))]
    rows = symbols.functions[~np.isin(symbols.shndx[symbols.functions], stubs)]
    unknown = ~np.isin(hash_table(symbols.strtab, symbols.name_offset[rows]), objects.functions.name_hash)
    return all(is_unfolded(name) for name in symbols.names(rows[unknown].tolist()))


def taken_by_objects(linked: Linked, objects: LinkObjects, vaddrs: Iterable[int]) -> TakenByObjects:
    """What the objects say of the bodies at these addresses."""
    return _Reader(linked, objects, vaddrs).read()


class _Reader:
    def __init__(self, linked: Linked, objects: LinkObjects, vaddrs: Iterable[int]) -> None:
        self._linked, self._objects = linked, objects
        self._places: dict[str, set[Place]] = {}
        for vaddr in vaddrs:
            for idx, member in enumerate(linked.members(vaddr)):
                for name in {member.name, member.linkage, *member.aliases} - {""} if not member.nameless else ():
                    self._places.setdefault(name, set()).add(Place(vaddr, idx))
        self._found = TakenByObjects(set(), set(), set())
        self._add_aliases()
        self._hashes = np.sort(hash_names(sorted(self._places)))

    def _add_aliases(self) -> None:
        """Other symbols of the same functions, and which of them share a section."""
        functions = self._objects.functions
        rows = np.flatnonzero(np.isin(functions.name_hash, hash_names(sorted(self._places))))
        section = functions.object_idx << 32 | functions.section
        distinct = np.unique(np.stack([section, functions.offset.view(np.int64)], axis=1), axis=0)[:, 0]
        several = np.unique(distinct[1:][distinct[1:] == distinct[:-1]])
        for row, is_shared in zip(rows.tolist(), np.isin(section[rows], several).tolist(), strict=True):
            places = self._places.get(self._objects.name(row))
            if places is None:
                continue
            if is_shared:
                self._found.shared_sections.update(place.vaddr for place in places)
            for name in self._objects.names_at(
                int(functions.object_idx[row]), int(functions.section[row]), int(functions.offset[row])
            ):
                self._places.setdefault(name, set()).update(places)

    def read(self) -> TakenByObjects:
        for object_idx, object_file in enumerate(self._objects.objects):
            self._read(object_idx, object_file)
        return self._found

    def _read(self, object_idx: int, object_file: ObjectFile) -> None:
        symbols, table = object_file.symbols, object_file.sections
        wanted = np.isin(hash_table(symbols.strtab, symbols.name_offset), self._hashes) & (symbols.name_offset != 0)
        is_section = symbols.type == STT_SECTION
        code_sections = np.flatnonzero(table.is_code)
        wanted |= is_section & np.isin(symbols.shndx, code_sections)
        if not wanted.any():
            return
        sources = np.flatnonzero((table.flags & np.uint64(SHF_ALLOC)) != 0)
        sources = sources[object_file.relocation_section[sources] != 0]
        for name in _UNWIND:
            sources = sources[~np.isin(sources, table.named(name))]
        source, entries = object_file.relocations_in(sources)
        keep = wanted[entries["symbol"]]
        source, entries = source[keep], entries[keep]
        keep = ~self._are_branches(object_file, source, entries)
        source, entries = source[keep], entries[keep]
        if not len(entries):
            return
        offset = entries["addend"].copy()
        if self._linked.image.machine is Machine.X86_64:
            offset += np.where(np.isin(entries["type"], RELATIVE), _OPERAND_BYTES, 0)
        in_vtable = _in_vtables(object_file, source, entries)
        rows = np.unique(np.stack([entries["symbol"].astype(np.int64), offset, in_vtable], axis=1), axis=0)
        for symbol, addend, is_slot in rows.tolist():
            found = self._found.virtual if is_slot else self._found.taken
            found.update(self._meant(object_idx, object_file, symbol, addend))

    def _are_branches(self, object_file: ObjectFile, source: Rows, entries: Entries) -> NDArray[np.bool_]:
        """Operands of calls and direct jumps."""
        types, table = entries["type"], object_file.sections
        is_code = table.is_code[source]
        if self._linked.image.machine is Machine.AARCH64:
            return np.asarray(is_code & np.isin(types, A64_BRANCHES))
        inside = is_code & (entries["offset"] >= 2) & (entries["offset"] + np.uint64(4) <= table.size_bytes[source])
        table.check_stored(np.unique(source))
        at = np.where(inside, table.offset[source] + entries["offset"], np.uint64(2)).astype(np.int64)
        return inside & x86_64_branches(np.frombuffer(object_file.data, np.uint8), at, types)

    def _meant(self, object_idx: int, object_file: ObjectFile, symbol: int, addend: int) -> set[Place]:
        """The members that a symbol, or its section, can mean."""
        symbols = object_file.symbols
        if int(symbols.type[symbol]) == STT_SECTION:
            names = self._objects.names_at(object_idx, int(symbols.shndx[symbol]), int(symbols.value[symbol]) + addend)
        else:
            names = [symbols.name(symbol)]
        places = set[Place]().union(*(self._places.get(name, ()) for name in names))
        if int(symbols.bind[symbol]) != STB_LOCAL:
            return places
        file = object_file.source_file
        at_home = {
            place for place in places if not (files := self._linked.member(place).files) or not file or file in files
        }
        return at_home or places


def _in_vtables(object_file: ObjectFile, source: Rows, entries: Entries) -> NDArray[np.bool_]:
    """Which relocations stand in the symbol of a vtable."""
    symbols = object_file.symbols
    rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined & are_vtable_names(symbols))
    key = symbols.shndx[rows].astype(np.uint64) << np.uint64(40) | symbols.value[rows]
    order = np.argsort(key)
    key, end = key[order], (key + symbols.size_bytes[rows])[order]
    place = source.astype(np.uint64) << np.uint64(40) | entries["offset"]
    row = np.searchsorted(key, place, side="right").astype(np.int64) - 1
    if not len(key):
        return np.zeros(len(place), np.bool_)
    return np.asarray((row >= 0) & (place < end[np.maximum(row, 0)]))
