"""Functions whose address is taken, by the objects of the link, if none is missing.

In an object the relocation of every address names its function, in code and data that the linker folded, too:

    .text._Z6choosev     lea  ?(%rip), %rax     R_X86_64_PC32   f     taken
                         call ?                 R_X86_64_PLT32  g     not
    .data.rel.ro._ZTV1A  .quad ?                R_X86_64_64     h     virtual: it is in the symbol _ZTV1A

So only the named functions can be meant. Three cases remain to the image: functions without a known linkage
name; the addresses of functions that stand in one section with others, or take their own, for which an
assembler needs no relocation; and code of the C runtime, which no given object has.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from icf.aliases import REAL, WRAP
from icf.elf.image import Image
from icf.sets import distinct, is_in
from icf.strings import hash_names
from linkpass.linked import Linked, Place
from linkpass.objects.addresses import Addresses
from linkpass.objects.functions import LinkObjects
from linkpass.objects.missing import find_missing
from linkpass.pointers.taken_by_relocation import TAG_LIMIT


class TakenByObjects(NamedTuple):
    """The members that the objects name, and bodies for which the objects are not enough."""

    taken: set[Place]
    virtual: set[Place]
    shared_sections: set[int]  # bodies of functions that stand in one section with others


def are_complete(image: Image, objects: LinkObjects) -> bool:
    """Return whether the objects have all that the image has, as machine code."""
    if not objects.objects or any(object_file.has_lto_code for object_file in objects.objects):
        return False
    return not find_missing(image, objects.objects, objects.functions.name_hash)


def taken_by_objects(linked: Linked, objects: LinkObjects, vaddrs: Iterable[int]) -> TakenByObjects:
    """Return the members that the objects name in the bodies at these addresses."""
    return _Reader(linked, objects, vaddrs).read()


class _Reader:
    def __init__(self, linked: Linked, objects: LinkObjects, vaddrs: Iterable[int]) -> None:
        self._linked, self._objects = linked, objects
        has_real = any(object_file.symbols.mentions(REAL.encode()) for object_file in objects.objects)
        by_name: dict[str, set[Place]] = {}
        for vaddr in vaddrs:
            for idx, names in enumerate(linked.members(vaddr).linkage_names):
                place = Place(vaddr, idx)
                for name in names:
                    by_name.setdefault(name, set()).add(place)
                    if has_real:  # --wrap: f is `__real_f` in the objects, and `__wrap_f` is f
                        by_name.setdefault(f"{REAL}{name}", set()).add(place)
                    if name.startswith(WRAP):
                        by_name.setdefault(name.removeprefix(WRAP), set()).add(place)
        hashes = hash_names(list(by_name)).tolist()
        self._places: dict[int, set[Place]] = dict(zip(hashes, by_name.values(), strict=True))  # by hash of the name
        self._shared_sections = self._add_aliases()
        self._hashes = np.array(sorted(self._places), np.uint64)

    def _add_aliases(self) -> set[int]:
        """Add other symbols of the same functions; return the bodies of functions that share a section."""
        functions = self._objects.functions
        hashes, section = functions.name_hash, functions.object_idx << 32 | functions.section
        is_named = is_in(hashes, np.fromiter(self._places, np.uint64))
        beside = section[1:] == section[:-1]  # each function and the next one
        together = beside & (functions.offset[1:] == functions.offset[:-1])
        pairs: set[tuple[int, int]] = set()
        rows, distance = np.flatnonzero(together), 1
        while len(rows):
            others = rows + distance
            matter = (is_named[rows] | is_named[others]) & (hashes[rows] != hashes[others])
            pairs.update(zip(hashes[rows[matter]].tolist(), hashes[others[matter]].tolist(), strict=True))
            rows = rows[others < len(together)]
            rows, distance = rows[together[rows + distance]], distance + 1
        changed = True
        while changed:
            changed = False
            for name, alias in pairs:
                first, second = self._places.setdefault(name, set()), self._places.setdefault(alias, set())
                if first != second:
                    first |= second
                    second |= first
                    changed = True
        several = distinct(section[1:][beside & ~together])
        shared = distinct(hashes[is_in(section, several)]).tolist()
        return {place.vaddr for name in shared for place in self._places.get(name, ())}

    def read(self) -> TakenByObjects:
        """Return all that the objects name."""
        rows = self._objects.addresses
        matter = np.flatnonzero(rows.is_section | is_in(rows.name_hash, self._hashes))
        rows = Addresses(*map(itemgetter(matter), rows))
        by_place = np.flatnonzero(rows.is_section)
        object_idx, section, offset = rows.object_idx[by_place], rows.section[by_place], rows.offset[by_place]
        start = self._objects.last_start(object_idx, section, offset)
        offset = np.where((start >= 0) & (offset - start < TAG_LIMIT), start, offset)
        which, functions = self._objects.functions_at(object_idx, section, offset)
        by_name = np.flatnonzero(~rows.is_section)
        row = np.concatenate([by_name, by_place[which]])
        hashes = np.concatenate([rows.name_hash[by_name], self._objects.functions.name_hash[functions]])
        rank = np.searchsorted(self._hashes, hashes)
        known = np.flatnonzero(is_in(hashes, self._hashes))
        row, rank = row[known], rank[known]
        # a local symbol means one thing in each object, any other the same in all
        owner = np.where(rows.is_local[row], rows.object_idx[row], len(self._objects.objects))
        found = TakenByObjects(set(), set(), self._shared_sections)
        for key in distinct(rank << 32 | owner << 1 | rows.is_slot[row]).tolist():
            members = found.virtual if key & 1 else found.taken
            members.update(self._meant(int(self._hashes[key >> 32]), (key & 0xFFFFFFFF) >> 1))
        return found

    def _meant(self, name_hash: int, object_idx: int) -> set[Place]:
        """Return the members that a symbol can mean; `object_idx` where it is local, else the number of objects."""
        places = self._places[name_hash]
        file = self._objects.objects[object_idx].source_file if object_idx < len(self._objects.objects) else ""
        if not file:
            return places
        files_of = ((place, self._linked.members(place.vaddr).files_of(place.member)) for place in places)
        return {place for place, files in files_of if not files or file in files} or places
