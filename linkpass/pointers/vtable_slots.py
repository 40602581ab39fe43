"""Which member is in each slot of each vtable; ALL_MEMBERS if no evidence shows it.

A slot that holds the address of a merged body holds one of its members. The evidence for it is, best first,

    relocation   of --emit-relocs, or with a symbol of .dynsym: in the very word
    objects      of the link: the relocations of the vtable of that name
    the class    the final overrider, by RTTI (`linkpass.pointers.final_overrider`)

A linker that folds data may have folded the vtable, too; the relocations then describe only one of the folded vtables,
so no member is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.elf.types import SHT_RELA, STT_SECTION
from icf.linkers import KeptSymbols
from icf.model import ALL_MEMBERS
from icf.sets import is_in
from icf.vtables.layout import Slots, Vtables
from icf.vtables.linkage import are_external_slots
from linkpass.linked import Linked
from linkpass.pointers.final_overrider import Asked, FinalOverriders

if TYPE_CHECKING:
    from linkpass.pointers.slots_by_object import SlotsByObject


class VtableSlots(NamedTuple):
    """Slots that hold the address of a body of the image, a row each, by (vtable, slot)."""

    vtable: U64  # its address point
    group: U64  # address of the symbol that holds it
    slot: U32
    body: U64
    member: I64  # its index, or ALL_MEMBERS

    def only(self, is_kept: Mask) -> VtableSlots:
        """Return some of them."""
        return VtableSlots(*(column[is_kept] for column in self))  # type: ignore[arg-type]  # each as it was


def find_slots(linked: Linked, vtables: Vtables, by_object: SlotsByObject | None = None) -> VtableSlots:
    """Return the slots of all vtables.

    `by_object` are the slots in the objects of the link, as far as they are at hand.
    """
    found = vtables.slots
    found = found.rows(np.flatnonzero(is_in(found.target, linked.bodies.start)))
    is_merged = is_in(found.target, linked.vaddrs)
    members = np.where(is_merged | _may_hold_others(linked, vtables, found), ALL_MEMBERS, 0)
    if is_merged.any():
        merged = found.rows(np.flatnonzero(is_merged))
        members[is_merged] = _name(linked, vtables, merged, by_object)
    return VtableSlots(found.vtable, vtables.groups.start[found.group], found.slot, found.target, members)


def _may_hold_others(linked: Linked, vtables: Vtables, slots: Slots) -> Mask:
    """Return which slots may hold functions that their bodies are not known to have.

    Where only local functions leave no trace, none is in a vtable of a class with external linkage.
    """
    is_open = is_in(slots.target, np.array(sorted(linked.undescribed), np.uint64))
    if linked.image.linker.kept_symbols in (KeptSymbols.ALL, KeptSymbols.GLOBAL) and is_open.any():
        is_open &= ~are_external_slots(linked.image, vtables, slots.place)
    return is_open


def _name(linked: Linked, vtables: Vtables, slots: Slots, by_object: SlotsByObject | None) -> I64:
    """Return the members in slots that hold merged bodies."""
    meant = _by_relocation(linked, slots, _files(linked, vtables)) | _by_dynamic_symbol(linked, slots)
    if by_object is not None:
        meant |= _by_object(linked, vtables, slots, by_object, meant)
    named = np.full(len(slots.slot), ALL_MEMBERS, np.int64)
    is_open = np.ones(len(named), np.bool_)
    is_open[[row for row, members in meant.items() if len(members) <= 1]] = False
    one = [row for row, members in meant.items() if len(members) == 1]
    named[one] = [next(iter(meant[row])) for row in one]
    is_one = vtables.are_one(vtables.groups.start)[slots.group]
    named[~is_one] = ALL_MEMBERS
    rows = np.flatnonzero(is_open & is_one)
    if len(rows):
        among = {at: meant[row] for at, row in enumerate(rows.tolist()) if row in meant}
        group = slots.group[rows]
        classes, symbols = vtables.classes_of(group), vtables.groups.symbol[group]
        asked = Asked(classes, slots.slot[rows], slots.target[rows], symbols, among)
        overriders = FinalOverriders(linked, vtables.classes, knows_aliases=by_object is not None)
        named[rows] = overriders.members_in(asked)
    return named


def _by_object(
    linked: Linked, vtables: Vtables, slots: Slots, by_object: SlotsByObject, meant: dict[int, frozenset[int]]
) -> dict[int, frozenset[int]]:
    """Return the members that the objects may put into the slots, by row; those that relocations leave open."""
    found: dict[int, frozenset[int]] = {}
    offset = slots.place - vtables.groups.start[slots.group]
    columns = zip(slots.group.tolist(), offset.tolist(), slots.target.tolist(), strict=True)
    for row, (group, at, vaddr) in enumerate(columns):
        among = meant.get(row)
        if among is None or len(among) > 1:
            by_objects = by_object.members_in(linked, group, at, vaddr)
            if by_objects is not None:
                found[row] = by_objects if among is None else among & by_objects
    return found


def _files(linked: Linked, vtables: Vtables) -> list[frozenset[str]]:
    """Return the source file of each group with local linkage; none where it is not known."""
    names = map(linked.image.symbols.file_name, vtables.groups.symbol.tolist())
    return [frozenset({name} - {""}) for name in names]


def _by_relocation(linked: Linked, slots: Slots, files: list[frozenset[str]]) -> dict[int, frozenset[int]]:
    """Return the members that the linker's relocation of the word (--emit-relocs) can mean, by row."""
    image = linked.image
    found: dict[int, frozenset[int]] = {}
    order = np.argsort(slots.place, kind="stable")
    places = slots.place[order]
    for section in image.sections:
        if section.type != SHT_RELA or section.is_alloc or not 0 < section.info < len(image.sections):
            continue
        relocations = image.relocations(section) if image.sections[section.info].is_alloc else None
        if relocations is None or not relocations.count or relocations.symbols is not image.symbols:
            continue
        at = np.minimum(np.searchsorted(places, relocations.offset), len(places) - 1)
        hits = np.flatnonzero(places[at] == relocations.offset)
        for hit, row in zip(hits.tolist(), order[at[hits]].tolist(), strict=True):
            vaddr, symbol = int(slots.target[row]), int(relocations.symbol[hit])
            place = linked.place_of_symbol(symbol)
            if place is not None:
                meant = frozenset({place.member}) if place.vaddr == vaddr else frozenset()
            elif symbol and image.symbols.type[symbol] == STT_SECTION:
                meant = linked.section_members(vaddr, files[int(slots.group[row])])
            else:
                continue
            if meant:
                found[row] = meant
    return found


def _by_dynamic_symbol(linked: Linked, slots: Slots) -> dict[int, frozenset[int]]:
    """Return the members that the loader's relocation of the word names, by row."""
    found: dict[int, frozenset[int]] = {}
    for row in np.flatnonzero(slots.symbol).tolist():
        name = linked.image.dynamic_symbols.name(int(slots.symbol[row]))
        if named := linked.members_by_name(int(slots.target[row])).get(name):
            found[row] = frozenset(named)
    return found
