"""Bodies in vtables of local classes that must have a member without a trace.

gold drops the symbols of folded local functions, and gcc does not describe thunks, nor aliases that it made. Of such a
method of a class with internal linkage, or of one that LTO made local, nothing is left but the slot that leads to its
body:

    vtable for (anonymous namespace)::Both       slot 2 of its second base   -> 0xa80
    symbols and DIEs at 0xa80                    Plain::read() const

A slot holds a method of its class, or of one of its bases. If no member of the body is one, a further member is. So it
is if that method is of another file, where a class has the same name. The vtable of a further base has an offset to
top. A method of a class whose part of the object begins elsewhere needs a thunk there: only a thunk to one explains the
slot. Without RTTI the bases are not known: a method of one is virtual, and in that slot of its own vtable, too. One
method hides another: where a thunk shares the body of a method of a base, this finds nothing. Each slot of a vtable has
a function of its own, so a body to which more slots of one vtable lead than it has functions lacks one, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from icf.aliases import kin
from icf.columns import I64, U64, Mask
from icf.dwarf.virtual import VirtualDies
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.folds.classes import FoldFinder
from icf.folds.words import may_be_type
from icf.sets import distinct, distinct_rows, is_in, rows_of_runs
from icf.tables.pointed import thunk_target
from icf.vtables.layout import Slots, Vtables, are_vtable_names
from icf.vtables.methods import is_standard, keys_of_classes, read_methods
from icf.vtables.rtti import ANYWHERE, LEVELS_MAX, Classes

ANY = 0  # file
_VTABLE = "_ZTV"
_COLD = ".cold"
_OFFSET_TO_TOP = np.uint64(16)  # it stands so many bytes before an address point
_BASES_MAX = 1 << 20  # of all classes asked about
_DIES_MAX = 1 << 8  # at one body: the classes of more are not read


def find_unseen_methods(image: Image, finder: FoldFinder, vtables: Vtables) -> frozenset[int]:
    """Return the bodies that hold a method of a local class which neither a symbol nor a DIE shows."""
    symbols = image.symbols
    is_local = (symbols.bind == STB_LOCAL) & symbols.is_defined  # what LTO makes local is hidden
    if not are_vtable_names(symbols, np.flatnonzero(is_local)).any():
        return frozenset()
    groups, slots = vtables.groups, vtables.slots
    slots = slots.rows(np.flatnonzero(is_local[groups.symbol][slots.group] & is_in(slots.target, finder.bodies.start)))
    crowded = _crowded(finder, slots)
    files = _Files(finder)
    has_class = groups.typeinfo != 0
    vaddr, group, offset = _asked(vtables, slots.rows(np.flatnonzero(has_class[slots.group])))
    lineages = _Lineages.of(vtables.classes, vtables.classes_of(group), offset)
    if lineages is None:
        return frozenset(slots.target.tolist())
    found = crowded | _lacking(finder, vaddr, groups.symbol[group], lineages, files)

    slots = slots.rows(np.flatnonzero(~has_class[slots.group]))
    vaddr, group, _ = _asked(vtables, slots)
    own = _Lineages.alone([name[len(_VTABLE) :] for name in symbols.names(groups.symbol[group].tolist())])
    lacking = sorted(_lacking(finder, vaddr, groups.symbol[group], own, files))
    if lacking:
        bases = _SlotsOfBases(finder)
        slots = slots.rows(np.flatnonzero(is_in(slots.target, np.array(lacking, np.uint64))))
        asked = zip(slots.target.tolist(), slots.slot.tolist(), strict=True)
        found |= {vaddr for vaddr, slot in asked if not bases.may_hold(vaddr, slot)}
    return frozenset(found)


def _crowded(finder: FoldFinder, slots: Slots) -> set[int]:
    """Return the bodies that have fewer functions than slots of one vtable lead to them, with their cold parts."""
    key = np.column_stack([slots.vtable.view(np.int64), slots.target.view(np.int64), slots.slot.astype(np.int64)])
    pairs, counts = np.unique(distinct_rows(key)[:, :2], axis=0, return_counts=True)
    found, names = set[int](), set[str]()
    for vaddr, count in zip(pairs[counts > 1, 1].tolist(), counts[counts > 1].tolist(), strict=True):
        here = finder.image.symbols.names(finder.bodies.symbols_at(vaddr).tolist())
        known: set[str | int] = set(map(kin, here))
        if finder.functions is not None and finder.identities is not None:
            for each in finder.identities.of(finder.functions.die[finder.bodies.dwarf_at(vaddr)].tolist()):
                known.add(kin(each.linkage) if each.linkage else each.root)
        if len(known) < count:
            found.add(vaddr)
            names.update(f"{name}{_COLD}" for name in here)
    if names:
        rows = finder.bodies.symbol_rows.tolist()
        values = zip(finder.image.symbols.names(rows), finder.bodies.symbol_value.tolist(), strict=True)
        found.update(vaddr for name, vaddr in values if name in names)
    return found


def _asked(vtables: Vtables, slots: Slots) -> tuple[U64, I64, I64]:
    """Return each body with each group that leads to it, and the offset of the part of the object with that vtable."""
    points, row = np.unique(slots.vtable, return_inverse=True)
    offset = -vtables.data.words(points - _OFFSET_TO_TOP).value.view(np.int64)[row.reshape(-1)]
    found = distinct_rows(np.column_stack([slots.target.view(np.int64), slots.group, offset]))
    return found[:, 0].view(np.uint64), found[:, 1], found[:, 2]


def _lacking(finder: FoldFinder, vaddr: U64, symbols: I64, lineages: _Lineages, files: _Files) -> set[int]:
    """Return the bodies without a method of the lineage in the same row, in the file of the vtable's symbol there."""
    file = np.array(list(map(files.of_symbol, symbols.tolist())), np.int64)
    is_open = ~_have_methods(finder, vaddr, file, lineages, files)
    rows = zip(np.flatnonzero(is_open).tolist(), vaddr[is_open].tolist(), file[is_open].tolist(), strict=True)
    owners = _Owners(finder, files)
    return {at for row, at, own in rows if not owners.may_have(at, lineages.types(row), own)}


class _SlotsOfBases:
    """Which bodies may be in which slots of a class whose bases are not known (-fno-rtti)."""

    def __init__(self, finder: FoldFinder) -> None:
        self._finder = finder
        self._virtual = VirtualDies(finder.identities.debug) if finder.identities is not None else None
        self._slots: dict[int, frozenset[int] | None] = {}  # by body; None: any

    def may_hold(self, vaddr: int, slot: int) -> bool:
        """Return whether a method of a base may be there: virtual, in that slot."""
        if vaddr not in self._slots:
            self._slots[vaddr] = self._slots_of(vaddr)
        slots = self._slots[vaddr]
        return slots is None or slot in slots

    def _slots_of(self, vaddr: int) -> frozenset[int] | None:
        """Return the slots that the methods at a body have, None if that is not known.

        Of two slots of a destructor the first is recorded.
        """
        finder = self._finder
        if self._virtual is None or finder.functions is None or finder.identities is None:
            return None
        dies = finder.functions.die[finder.bodies.dwarf_at(vaddr)].tolist()
        if not dies:
            names = finder.image.symbols.names(finder.bodies.symbols_at(vaddr).tolist())
            return frozenset() if any(map(thunk_target, names)) else None
        found = finder.identities.of(dies)
        after = self._virtual.slots_after(np.array([each.root for each in found], np.uint64)).tolist()
        recorded = [(slot - 1, each.name.startswith("~")) for slot, each in zip(after, found, strict=True) if slot]
        return frozenset(slot + step for slot, has_two in recorded for step in range(1 + has_two))


class _Files:
    """Numbers of source files, by their names; ANY where the name says nothing, as in the output of LTO."""

    def __init__(self, finder: FoldFinder) -> None:
        self._finder = finder
        self._identities = finder.identities
        names = self._identities.files_of_units() if self._identities is not None else []
        self._numbers = {name: number for number, name in enumerate(sorted({*names} - {""}), 1)}

    def of_symbol(self, row: int) -> int:
        """Return the file of a symbol with internal linkage."""
        symbols = self._finder.image.symbols
        is_local = symbols.bind[row] == STB_LOCAL and symbols.visibility[row] == 0
        return self._numbers.get(symbols.file_name(row), ANY) if is_local else ANY

    def of_die(self, die: int) -> int:
        """Return the file of the unit of a function with internal linkage."""
        assert self._identities is not None
        return self._numbers.get(min(self._identities.files_of([die]), default=""), ANY)


class _Lineages(NamedTuple):
    """Classes with all of their bases: the row of what was asked for, ascending, and the index of a name."""

    row: I64
    idx: I64
    names: list[str]  # mangled types
    needs_thunks: Mask  # its methods do: its part of the object begins elsewhere

    @classmethod
    def of(cls, classes: Classes, asked: I64, offset: I64) -> Self | None:
        """Return the lineages of some classes; None if they have more or longer ones than programs do.

        `offset`: of the part of an object of the class whose vtable this is, in bytes.
        """
        fresh = np.column_stack([np.arange(len(asked)), asked, np.zeros(len(asked), np.int64)])
        found = fresh
        for _ in range(LEVELS_MAX):
            row, of_class, start = fresh.T
            if len(found) + int(classes.base_counts(of_class).sum()) > _BASES_MAX:
                return None
            of, base = classes.bases_of(of_class)
            step = classes.base_offsets(of_class)
            is_known = (start[of] != ANYWHERE) & (step != ANYWHERE)
            fresh = distinct_rows(np.column_stack([row[of], base, np.where(is_known, start[of] + step, ANYWHERE)]))
            if not len(fresh):
                break
            found = np.concatenate([found, fresh])
        else:
            return None
        row, of_class, start = distinct_rows(found).T
        rows = distinct(of_class)
        needs_thunks = (start != offset[row]) & (start != ANYWHERE)
        return cls(row, np.searchsorted(rows, of_class), classes.names(rows), needs_thunks)

    @classmethod
    def alone(cls, types: list[str]) -> Self:
        """Return classes whose bases are not known."""
        names = sorted(set(types))
        idx = {name: at for at, name in enumerate(names)}
        row = np.arange(len(types))
        return cls(row, np.array([idx[name] for name in types], np.int64), names, np.zeros(len(types), np.bool_))

    def types(self, row: int) -> list[str]:
        """Return the mangled types of a class and its bases, without one whose methods need thunks."""
        own = slice(*np.searchsorted(self.row, [row, row + 1]))
        return [self.names[idx] for idx in self.idx[own][~self.needs_thunks[own]].tolist()]


def _have_methods(finder: FoldFinder, vaddr: U64, file: I64, lineages: _Lineages, files: _Files) -> Mask:
    """Return of which bodies a symbol or a linkage name is that of a method of the lineage in the same row.

    A method with internal linkage must be of the file of the row.
    """
    bodies, idx_of_row = np.unique(vaddr, return_inverse=True)
    names = _linkage_names(finder, bodies, files)
    class_of_key, keys = keys_of_classes(lineages.names)
    found, is_of_standard, is_any = read_methods(names.text, keys)
    order = np.argsort(keys, kind="stable")
    first, last = (np.searchsorted(keys[order], found.class_key, side=side) for side in ("left", "right"))
    row, at = rows_of_runs(first, last - first)
    name = found.name[row]
    count, file_count = len(lineages.names), int(file.max(initial=ANY)) + 1
    methods = (names.body[name] * count + class_of_key[order[at]]) * file_count + names.file[name]
    idx = idx_of_row.reshape(-1)[lineages.row]
    number = (idx * count + lineages.idx) * file_count

    def has_one_of(methods: I64) -> Mask:
        return is_in(number + ANY, methods) | is_in(number + file[lineages.row], methods)

    thunks = methods[found.thunk_bytes[row] != 0]
    has = np.where(lineages.needs_thunks, has_one_of(distinct(thunks)), has_one_of(distinct(methods)))
    of_standard = np.array(list(map(is_standard, lineages.names)), np.bool_)[lineages.idx]
    has |= of_standard & is_in(idx, distinct(names.body[is_of_standard])) | is_in(idx, distinct(names.body[is_any]))
    return np.bincount(lineages.row[has], minlength=len(vaddr)) > 0


class _Names(NamedTuple):
    """Names at bodies."""

    body: I64
    file: I64
    text: list[str]


def _linkage_names(finder: FoldFinder, vaddrs: U64, files: _Files) -> _Names:
    """Return the names of all symbols and DIEs at some bodies."""
    bodies = finder.bodies
    at = np.flatnonzero(is_in(bodies.symbol_value, vaddrs))
    body = np.searchsorted(vaddrs, bodies.symbol_value[at])
    rows = bodies.symbol_rows[at].tolist()
    names, file = finder.image.symbols.names(rows), list(map(files.of_symbol, rows))
    if finder.functions is not None and finder.identities is not None:
        at = np.flatnonzero(is_in(bodies.dwarf_low, vaddrs))
        dies = finder.functions.die[bodies.dwarf_rows[at]].tolist()
        found = finder.identities.of(dies)
        body = np.append(body, np.searchsorted(vaddrs, bodies.dwarf_low[at]))
        names += [described.linkage for described in found]
        file += [ANY if each.external else files.of_die(die) for each, die in zip(found, dies, strict=True)]
    return _Names(body, np.array(file, np.int64), names)


class _Owners:
    """The classes of the methods that DIEs describe at bodies: the words of each, by the file of the method."""

    def __init__(self, finder: FoldFinder, files: _Files) -> None:
        self._finder, self._files = finder, files
        self._known: dict[int, dict[int, set[str]]] = {}  # by body

    def may_have(self, vaddr: int, types: Sequence[str], file: int) -> bool:
        """Return whether a DIE at a body may be that of a method of one of these classes, in a file."""
        by_file = self._known.get(vaddr)
        if by_file is None:
            by_file = self._known[vaddr] = self._at(vaddr)
        owners = by_file.values() if file == ANY else [by_file[each] for each in (ANY, file) if each in by_file]
        return any(may_be_type(owner, each) for owner in set[str]().union(*owners) for each in types)

    def _at(self, vaddr: int) -> dict[int, set[str]]:
        finder = self._finder
        if finder.functions is None or finder.identities is None:
            return {}
        dies = finder.functions.die[finder.bodies.dwarf_at(vaddr)[:_DIES_MAX]].tolist()
        of_files: dict[int, set[str]] = {}
        for die, owner in zip(dies, finder.identities.classes_of(dies), strict=True):
            if owner:
                of_files.setdefault(self._files.of_die(die), set()).add(owner)
        return of_files
