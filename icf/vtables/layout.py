"""The vtables of an image: groups, address points, slots.

    _ZTV1C                 [vcall and vbase offsets]   _ZTV: of a class   _ZTC: of a base that is under construction
                           offset to top               0 in the first vtable of a group, and in no other
                           typeinfo of C               the same in all vtables of the group
      address point ->     slot 0                      the first word of an object points here
                           slot 1 ...
                           [offsets]                   the vtable of another base of C
                           offset to top, typeinfo of C
      address point ->     slot 0 ...

A *group* is what one symbol covers. Its first pointer is its typeinfo, and so is each word that holds the same.

Without RTTI (-fno-rtti) that word is 0, and an address point is found by the zeros before the first function. In
a second vtable the last word that is not 0 is the offset to top. In the first one that is 0, too, as offsets of bases
and empty slots may be: then there are several candidates, and each counts as a vtable. All slots of the true one are
right, and no object points to the others.

A slot holds a function of this image, an import, or 0. Vtables of the relative ABI hold no addresses, so they have no
slots here. A group whose words fit none of this has no recorded slots (`Groups.is_placed`).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.elf.image import Image
from icf.elf.symbols import Symbols
from icf.elf.types import STT_OBJECT
from icf.sets import is_in
from icf.vtables.rtti import Classes
from icf.vtables.words import CODE, DATA, IMPORT, NUMBER, LoadedData, Words

_PREFIXES = (b"_ZTV", b"_ZTC")
_WORD_BYTES = 8
_FIRST_SLOT = 16
_TYPEINFO = "_ZTI"
_CANDIDATES_MAX = 8  # address points of one vtable without RTTI


class Groups(NamedTuple):
    """Groups of vtables, ascending by address."""

    start: U64
    end: U64
    symbol: I64  # a row of the symbol table
    is_alone: Mask  # no other object begins there: a linker that folds data folds vtables, too
    typeinfo: U64  # its address, or the row of an import in .dynsym; 0 without RTTI
    imports_typeinfo: Mask
    is_placed: Mask  # the address points of all its slots are known


class Slots(NamedTuple):
    """Slots that hold the address of code of the image, or that the loader fills, by (vtable, slot)."""

    vtable: U64  # address point
    group: I64  # row of `Groups`
    slot: U32
    place: U64  # the word itself
    target: U64
    symbol: U32  # row in .dynsym that its relocation names, 0 for none

    def rows(self, at: I64) -> Slots:
        """Return some of them."""
        return Slots(*(column[at] for column in self))  # type: ignore[arg-type]  # each as it was


class Vtables:
    """All vtables of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.data = LoadedData(image)
        symbols = image.symbols
        rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined & (symbols.size_bytes > 0))
        self._objects = np.sort(symbols.value[rows])
        rows = rows[are_vtable_names(symbols, rows)]
        rows = rows[np.lexsort((rows, symbols.value[rows]))]
        self._start, first = np.unique(symbols.value[rows], return_index=True)
        self._symbol = rows[first]
        ends = symbols.value[rows] + symbols.size_bytes[rows]
        self._end = np.maximum.reduceat(ends, first) if len(first) else ends

    def __len__(self) -> int:
        return len(self._start)

    @property
    def groups(self) -> Groups:
        """The groups, and whether their slots are known."""
        return self._laid_out[0]

    @property
    def slots(self) -> Slots:
        """Return all slots with code of this image."""
        return self._laid_out[1]

    def at(self, places: U64) -> U64:
        """Return the start of the group in which each word is a slot; 0 for none, and where slots are not known."""
        start, is_placed = self._around(places)
        return np.where(is_placed, start, np.uint64(0))

    def are_unplaced(self, places: U64) -> Mask:
        """Return which words are in a group whose slots are not known."""
        start, is_placed = self._around(places)
        return np.asarray((start != 0) & ~is_placed)

    def _around(self, places: U64) -> tuple[U64, Mask]:
        """Return the group that each word is in, 0 for none, and whether its slots are known."""
        if not len(self):
            return np.zeros(len(places), np.uint64), np.zeros(len(places), np.bool_)
        row = np.searchsorted(self._start, places, side="right").astype(np.int64) - 1
        inside, row = row >= 0, np.maximum(row, 0)
        start = self._start[row]
        inside &= (places >= start + np.uint64(_FIRST_SLOT)) & (places < self._end[row])
        inside &= (places - start) % np.uint64(_WORD_BYTES) == 0
        return np.where(inside, start, np.uint64(0)), inside & self.groups.is_placed[row]

    def are_one(self, starts: U64) -> Mask:
        """Return which of the groups that begin there are those of one class; False where none begins.

        One symbol is there, and it has a typeinfo, so that equal functions do not make it equal to another group. gold
        folds no data.
        """
        is_one = self.groups.is_alone & ((self.groups.typeinfo != 0) | (not self._image.linker.may_fold_data))
        return is_in(starts, self._start[is_one])

    @property
    def bound(self) -> Slots:
        """The slots that the loader fills by name: `symbol` says which, `target` nothing.

        Groups with such a word that is in no slot are left out.
        """
        return self._laid_out[2]

    @cached_property
    def _laid_out(self) -> tuple[Groups, Slots, Slots]:
        words, group = self._words()
        count = len(self)
        is_pointer = words.kind != NUMBER
        pointers = np.flatnonzero(is_pointer)
        with_pointers, first = np.unique(group[pointers], return_index=True)
        first = pointers[first]
        has_rtti = words.kind[first] == DATA
        for at in np.flatnonzero(words.kind[first] == IMPORT).tolist():
            has_rtti[at] = self._image.dynamic_symbols.name(int(words.value[first[at]])).startswith(_TYPEINFO)
        typeinfo_row = np.full(count, -1, np.int64)
        typeinfo_row[with_pointers[has_rtti]] = first[has_rtti]

        # with RTTI: each word that is the typeinfo, after an offset to top
        own = typeinfo_row[group]
        is_typeinfo = (own >= 0) & (words.value == words.value[own]) & (words.kind == words.kind[own])
        is_typeinfo[1:] &= ~is_pointer[:-1] & (group[1:] == group[:-1])
        is_typeinfo[:1] = False
        is_typeinfo[:-1] &= group[1:] == group[:-1]  # else no slot follows
        is_typeinfo[-1:] = False
        points = [np.flatnonzero(is_typeinfo) + 1]
        others: list[tuple[int, int]] = []  # further candidates, and the one they stand for
        # without
        edges = np.searchsorted(group, np.arange(count + 1))
        for idx in with_pointers[~has_rtti].tolist():
            part = slice(int(edges[idx]), int(edges[idx + 1]))
            for *before, last in _points_without_rtti(words.kind[part].tolist(), words.value[part].tolist()):
                points.append(edges[idx : idx + 1] + last)
                others += [(int(edges[idx]) + at, int(edges[idx]) + last) for at in before]
        point = np.sort(np.concatenate(points))

        slots, is_unplaced = _slots(words, group, point, others, words.kind == CODE)
        is_placed = self._is_sound.copy()
        is_placed[group[is_unplaced]] = False
        is_bound = (words.symbol != 0) & ((words.kind == CODE) | (words.kind == IMPORT))
        is_bound &= (own < 0) | (words.value != words.value[own]) | (words.kind != words.kind[own])
        bound, is_unplaced = _slots(words, group, point, others, is_bound)
        has_bound = is_placed.copy()
        has_bound[group[is_unplaced]] = False
        row = np.maximum(typeinfo_row, 0)
        knows = typeinfo_row >= 0
        first_object, last_object = (np.searchsorted(self._objects, self._start + np.uint64(step)) for step in (0, 1))
        groups = Groups(
            self._start,
            self._end,
            self._symbol,
            last_object - first_object == 1,
            np.where(knows, words.value[row], np.uint64(0)) if len(words.place) else np.zeros(count, np.uint64),
            knows & (words.kind[row] == IMPORT) if len(words.place) else knows,
            is_placed,
        )
        return (
            groups,
            slots.rows(np.flatnonzero(is_placed[slots.group])),
            bound.rows(np.flatnonzero(has_bound[bound.group])),
        )

    @cached_property
    def classes(self) -> Classes:
        """The classes that have a vtable, and their bases."""
        has_typeinfo = self.groups.typeinfo != 0
        typeinfos, are_imports = self.groups.typeinfo[has_typeinfo], self.groups.imports_typeinfo[has_typeinfo]
        return Classes(self._image, self.data, typeinfos, are_imports)

    def classes_of(self, groups: I64) -> I64:
        """Return the rows in `classes` of some rows of `groups`."""
        return self.classes.rows(self.groups.typeinfo[groups], self.groups.imports_typeinfo[groups])

    @cached_property
    def _is_sound(self) -> Mask:
        """Which groups lie alone, in words; all of them together are no larger than the file."""
        is_sound = (self._end > self._start) & (self._start % np.uint64(_WORD_BYTES) == 0)
        is_apart = self._end[:-1] <= self._start[1:]
        is_sound[:-1] &= is_apart
        is_sound[1:] &= is_apart
        limit = len(self._image.data)
        size_bytes = np.where(is_sound, np.minimum(self._end - self._start, np.uint64(limit + 1)), np.uint64(0))
        return np.asarray(is_sound & (np.cumsum(size_bytes) <= limit))

    def _words(self) -> tuple[Words, I64]:
        """Return the words of all groups, and the group of each."""
        counts = np.where(self._is_sound, (self._end - self._start) // np.uint64(_WORD_BYTES), np.uint64(0))
        group = np.repeat(np.arange(len(self)), counts.astype(np.int64))
        first = np.cumsum(counts) - counts
        index = np.arange(len(group), dtype=np.uint64) - first[group]
        return self.data.words(self._start[group] + index * np.uint64(_WORD_BYTES)), group


def _slots(words: Words, group: I64, point: I64, others: list[tuple[int, int]], is_wanted: Mask) -> tuple[Slots, I64]:
    """Return the slots with a wanted word after the address points, which are rows of `words`; and such words before
    any.
    """
    wanted = np.flatnonzero(is_wanted)
    if not len(point):
        point_of, is_behind = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    else:
        before = np.searchsorted(point, wanted, side="right") - 1
        point_of = point[np.maximum(before, 0)]
        is_behind = (before >= 0) & (group[point_of] == group[wanted])
    rows, at = wanted[is_behind], point_of[is_behind]
    same = [rows[slice(*np.searchsorted(at, [last, last + 1]))] for _, last in others]
    at = np.concatenate([at, *(np.full(len(own), first) for own, (first, _) in zip(same, others, strict=True))])
    rows = np.concatenate([rows, *same])
    order = np.lexsort((rows, at))
    rows, at = rows[order], at[order]
    slots = Slots(
        words.place[at], group[rows], (rows - at).astype(np.uint32), words.place[rows], words.value[rows],
        words.symbol[rows],
    )  # fmt: skip
    return slots, wanted[~is_behind]


def _points_without_rtti(kinds: list[int], values: list[int]) -> list[list[int]]:
    """Return the address points of a group without RTTI, each as its candidates; none if its words do not fit."""
    points: list[list[int]] = []
    last = -1  # the last word that is a pointer, or not 0
    for at, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        if kind == DATA:
            return []
        if kind == NUMBER:
            last = at if value else last
            continue
        if last < 0 or kinds[last] == NUMBER:  # else it follows other slots, of which some may be empty
            if points:  # `last` is the offset to top
                found = [last + 2] if last + 1 < at else []
            else:
                found = list(range(last + 3, at + 1))
            if not 0 < len(found) <= _CANDIDATES_MAX:
                return []
            points.append(found)
        last = at
    return points


def are_vtable_names(symbols: Symbols, rows: I64) -> Mask:
    """Return whether each of these symbols has the name of a vtable."""
    return symbols.begin_with(_PREFIXES, rows)
