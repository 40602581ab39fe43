"""The functions that the objects of a link put into the slots of vtables.

    object   _ZTV1A, symbol   .data.rel.ro._ZTV1A + 16   R_X86_64_64   _ZN1A1fEv
    image    _ZTV1A           at + 16 the address of a body: its member _ZN1A1fEv

A vtable with local linkage is looked up by its name and source file. Where several objects have it, one of them is
in the image.
"""

from __future__ import annotations

import numpy as np

from icf.columns import U64
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL, STT_OBJECT, STT_SECTION
from icf.sets import distinct, is_in
from icf.strings import hash_names
from icf.vtables.layout import Vtables, are_vtable_names
from linkpass.linked import Linked
from linkpass.objects.functions import LinkObjects

_OFFSET_BITS = np.uint64(40)  # no section is larger than a file
_OFFSET_LIMIT = (np.uint64(1) << _OFFSET_BITS) - np.uint64(1)
# a vtable in an object: offset in its symbol -> names of the function there, the source file of a local one
_Table = dict[int, tuple[tuple[str, ...], str]]


class SlotsByObject:
    """The functions in slots, looked up by group and offset."""

    def __init__(self, image: Image, vtables: Vtables, objects: LinkObjects) -> None:
        self._objects = objects
        symbols, groups = image.symbols, vtables.groups
        rows = groups.symbol.tolist()
        self._keys = [
            (name, symbols.file_name(row) if symbols.bind[row] == STB_LOCAL else "")
            for row, name in zip(rows, symbols.names(rows), strict=True)
        ]
        self._tables: dict[tuple[str, str], list[_Table]] = {}
        wanted = np.sort(hash_names(sorted({name for name, _ in self._keys})))
        for object_idx in range(len(objects.objects)):
            self._read(object_idx, wanted)

    def members_in(self, linked: Linked, group: int, offset: int, vaddr: int) -> frozenset[int] | None:
        """Return the members of a body that the objects may put at an offset in a group.

        None if the objects lack it.
        """
        name, file = self._keys[group]
        # mold makes global symbols local; one of an object without a STT_FILE symbol seems to be of another file
        tables = [table for each in dict.fromkeys([file, ""]) for table in self._tables.get((name, each), [])]
        found: set[int] = set()
        entries = [table[offset] for table in tables if offset in table]
        for names, file in entries:
            by_name = linked.members_by_name(vaddr)
            named = {idx for name in names for idx in by_name.get(name, ())}
            if file:
                members = linked.members(vaddr)
                named = {
                    idx
                    for idx in named
                    if file in (files := members.files_of(idx))
                    or (not files and (members.is_local(idx) or not named - {idx}))
                }
            if not named:
                return frozenset()  # the function is in another body, or the known members are not all
            found |= named
        return frozenset(found) if entries else None

    def _read(self, object_idx: int, wanted: U64) -> None:
        """Read the vtables of an object that have one of these hashes of names."""
        object_file = self._objects.objects[object_idx]
        symbols = object_file.symbols
        rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined)
        rows = rows[are_vtable_names(symbols, rows)]
        rows = rows[is_in(symbols.hashes(rows), wanted)]
        rows = rows[symbols.shndx[rows] < object_file.sections.count]
        if not len(rows):
            return
        source, entries = object_file.relocations_in(distinct(symbols.shndx[rows]).astype(np.int64))
        key = _keys(source.astype(np.uint64), entries["offset"])
        order = np.argsort(key, kind="stable")
        key, offsets = key[order], entries["offset"][order].tolist()
        targets = list(zip(entries["symbol"][order].tolist(), entries["addend"][order].tolist(), strict=True))
        section, start = symbols.shndx[rows].astype(np.uint64), np.minimum(symbols.value[rows], _OFFSET_LIMIT)
        first = np.searchsorted(key, _keys(section, start)).tolist()
        end = np.searchsorted(key, _keys(section, start + np.minimum(symbols.size_bytes[rows], _OFFSET_LIMIT))).tolist()
        named = {target: self._named(object_idx, *target) for target in set(targets)}
        for at, row in enumerate(rows.tolist()):
            is_local = symbols.bind[row] == STB_LOCAL
            name = (symbols.name(row), object_file.source_file if is_local else "")
            here = slice(first[at], end[at])
            table = dict(zip(offsets[here], map(named.__getitem__, targets[here]), strict=True))
            value = int(symbols.value[row])
            self._tables.setdefault(name, []).append({offset - value: one for offset, one in table.items()})

    def _named(self, object_idx: int, symbol: int, addend: int) -> tuple[tuple[str, ...], str]:
        """Return the names of the function that a relocation refers to, and the source file if it is local."""
        object_file = self._objects.objects[object_idx]
        symbols = object_file.symbols
        is_local = symbols.bind[symbol] == STB_LOCAL
        file = object_file.source_file if is_local else ""
        if symbols.type[symbol] == STT_SECTION:
            section, offset = int(symbols.shndx[symbol]), int(symbols.value[symbol]) + addend
            return tuple(self._objects.names_at(object_idx, section, offset)), file
        return ((symbols.name(symbol),) if addend == 0 else ()), file


def _keys(section: U64, offset: U64) -> U64:
    """Return a number for each place, in the order of places; all offsets that no section has count as one."""
    return section << _OFFSET_BITS | np.minimum(offset, _OFFSET_LIMIT)
