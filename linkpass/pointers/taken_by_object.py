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

from operator import itemgetter
from typing import NamedTuple

import numpy as np

from icf.aliases import REAL
from icf.columns import I64, U64, Mask
from icf.elf.image import Image
from icf.sets import connected, distinct, distinct_pairs, is_in, rows_with
from linkpass.linked import Linked
from linkpass.objects.addresses import Addresses
from linkpass.objects.functions import LinkObjects
from linkpass.objects.member_names import names_in_objects, real_names
from linkpass.objects.missing import find_missing
from linkpass.pointers.taken_by_relocation import TAG_LIMIT


class Members(NamedTuple):
    """Members of bodies, by body and index; a row each."""

    vaddr: U64
    member: I64


class TakenByObjects(NamedTuple):
    """The members that the objects name, and bodies for which the objects are not enough."""

    taken: Members
    virtual: Members
    shared_sections: set[int]  # bodies of functions that stand in one section with others


def are_complete(image: Image, objects: LinkObjects) -> bool:
    """Return whether the objects have all that the image has, as machine code."""
    if not objects.objects or any(object_file.has_lto_code for object_file in objects.objects):
        return False
    return not find_missing(image, objects.objects, objects.functions.name_hash)


def taken_by_objects(linked: Linked, objects: LinkObjects, vaddrs: U64) -> TakenByObjects:
    """Return the members that the objects name in the bodies at these addresses, which ascend."""
    return _Reader(linked, objects, vaddrs).read()


class _Reader:
    def __init__(self, linked: Linked, objects: LinkObjects, vaddrs: U64) -> None:
        self._objects = objects
        self._columns = columns = linked.columns_of(vaddrs)
        counts = np.diff(columns.start)
        self._all = Members(np.repeat(vaddrs, counts), np.arange(len(columns)) - np.repeat(columns.start[:-1], counts))
        row, name_hash = names_in_objects(columns, linked.image.symbols)
        if any(object_file.symbols.mentions(REAL.encode()) for object_file in objects.objects):
            own, real = real_names(columns)
            row, name_hash = np.concatenate([row, own]), np.concatenate([name_hash, real])
        functions = objects.functions
        section = functions.object_idx << 32 | functions.section
        beside = section[1:] == section[:-1]  # each function and the next one
        together = beside & (functions.offset[1:] == functions.offset[:-1])
        names, aliases = self._aliases(together, distinct(name_hash))
        # a name means what its aliases mean, and so on: thousands may be one function, so all of them have one set
        self._hash = distinct(np.concatenate([name_hash, names, aliases]))
        self._set = connected(len(self._hash), *(np.searchsorted(self._hash, each) for each in (names, aliases)))
        at = np.searchsorted(self._hash, name_hash)
        self._row_set, self._row = distinct_pairs(self._set[at].astype(np.uint64), row.astype(np.uint64))
        self._shared_sections = self._find_shared(section, distinct(section[1:][beside & ~together]))

    def _find_shared(self, section: I64, several: I64) -> set[int]:
        """Return the bodies of functions that share a section; `several`: sections of several functions."""
        shared = distinct(self._objects.functions.name_hash[is_in(section, several)])
        _, rows = self._rows_of(distinct(self._sets_of(shared)[1]))
        return set(self._all.vaddr[rows].tolist())

    def _sets_of(self, name_hash: U64) -> tuple[I64, I64]:
        """Return the sets of members that names can mean: of each the index of the name, and the set."""
        which, at = rows_with(self._hash, name_hash)
        return which, self._set[at]

    def _rows_of(self, sets: I64) -> tuple[I64, I64]:
        """Return the members in sets: of each the index of the set, and its row."""
        which, at = rows_with(self._row_set, sets.astype(np.uint64))
        return which, self._row[at].astype(np.int64)

    def _aliases(self, together: Mask, named: U64) -> tuple[U64, U64]:
        """Return pairs of names that connect all names of one function, where one of them is in `named`.

        `together`: functions at one place with the next one.
        """
        hashes = self._objects.functions.name_hash
        place = np.append(0, np.cumsum(~together))[: len(hashes)]
        matters = together & is_in(place[:-1], distinct(place[is_in(hashes, named)]))
        return hashes[:-1][matters], hashes[1:][matters]

    def read(self) -> TakenByObjects:
        """Return all that the objects name."""
        rows = self._objects.addresses
        matter = np.flatnonzero(rows.is_section | is_in(rows.name_hash, self._hash))
        rows = Addresses(*map(itemgetter(matter), rows))
        by_place = np.flatnonzero(rows.is_section)
        object_idx, section, offset = rows.object_idx[by_place], rows.section[by_place], rows.offset[by_place]
        start = self._objects.last_start(object_idx, section, offset)
        offset = np.where((start >= 0) & (offset - start < TAG_LIMIT), start, offset)
        which, functions = self._objects.functions_at(object_idx, section, offset)
        by_name = np.flatnonzero(~rows.is_section)
        row = np.concatenate([by_name, by_place[which]])
        hashes = np.concatenate([rows.name_hash[by_name], self._objects.functions.name_hash[functions]])
        # a local symbol means one thing in each object, any other the same in all
        owner = np.where(rows.is_local[row], rows.object_idx[row], len(self._objects.objects))
        is_slot = rows.is_slot[row]
        taken, virtual = (
            self._meant(*distinct_pairs(hashes[of], owner[of].astype(np.uint64))) for of in (~is_slot, is_slot)
        )
        return TakenByObjects(taken, virtual, self._shared_sections)

    def _meant(self, name_hash: U64, owner: U64) -> Members:
        """Return the members that symbols can mean; `owner`: the object of a local one, else the number of objects."""
        symbol, sets = self._sets_of(name_hash)
        owner = owner[symbol].astype(np.int64)
        is_local = owner < len(self._objects.objects)
        found = [self._rows_of(distinct(sets[~is_local]))[1]]
        of_object = [each.source_file for each in self._objects.objects]
        files = sorted(set(of_object))
        number = {file: at for at, file in enumerate(files)}
        of_local = np.array([number[file] for file in of_object], np.uint64)[owner[is_local]]
        of_file, file = distinct_pairs(sets[is_local].astype(np.uint64), of_local)
        which, rows = self._rows_of(of_file.astype(np.int64))
        known = self._columns.files_at(distinct(rows))
        may_be = np.ones(len(rows), np.bool_)
        for at, (number_of_file, row) in enumerate(zip(file[which].tolist(), rows.tolist(), strict=True)):
            name, own = files[number_of_file], known.get(row)
            may_be[at] = not name or not own or name in own
        may_be |= ~is_in(which, which[may_be])  # else the files are of no use
        rows = distinct(np.concatenate([*found, rows[may_be]]))
        return Members(self._all.vaddr[rows], self._all.member[rows])
