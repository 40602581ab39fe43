"""Which members a pointer may lead to: those whose address is taken, and those in a vtable.

An indirect call ends in such a member, or in one that it tail-calls. A mark that is missing would make the resolver
name a wrong function; a superfluous one makes an answer ambiguous. So everything in the image that holds or forms the
address of a body counts, and marks all members of the body unless evidence shows which of them is meant:

    code and data of the image ── each place with the address of a body
                                     │
                     relocations of --emit-relocs, objects of the link      which member, exactly
                     vtables with known slots                               virtual, not address-taken
                     neither                                                any member
                                     │
    .dynsym ───────── member ────────┴──> ADDRESS_TAKEN, VIRTUAL

A function that .dynsym exports is address-taken: another module may take it. So is one that the loader calls (DT_INIT,
DT_FINI). Calls and jumps do not count, nor unwind and debug information. The marks of a body are not known to be
complete (ADDRESS_TAKEN_KNOWN) if

    a short jump leads to it     from another function of its section: those are in no table (thunks of gcc do so, but
                                 the names of merged ones show the function that they jump to)
    a jump leads to its start    from itself, and nothing shows whether it is a loop or a tail call
    code outside of all functions jumps to it
    nothing refers to it         so some reference was not understood

All of them are unknown with split stacks: __morestack calls the function that called it, in its middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from icf.code.addresses import Mentions, find_mentions
from icf.code.pointers import find_pointers, is_readable
from icf.code.short_jumps import find_short_jumps
from icf.columns import U64
from icf.elf.types import DT_FINI, DT_INIT
from icf.folds.tombstoned import is_unfolded
from icf.pairs import PairIndex
from icf.sets import difference, distinct, is_in, runs
from icf.tables.pointed import thunk_target
from icf.vtables.layout import Vtables
from linkpass.evidence.collect import Collected
from linkpass.linked import Linked
from linkpass.pointers.taken_by_relocation import ANY, OF_SECTION, TakenByRelocation
from linkpass.pointers.unlisted_slots import may_be_unlisted_slots

if TYPE_CHECKING:
    from linkpass.objects.functions import LinkObjects

_GOT = (".got", ".got.plt")


@dataclass(slots=True)
class Marks:
    """The marks of each member of the bodies that matter, by the address of the body."""

    looked_at: frozenset[int]
    taken: dict[int, set[int]] = field(default_factory=dict)
    virtual: dict[int, set[int]] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)  # bodies whose marks may be too few
    unlisted: set[int] = field(default_factory=set)  # bodies in words that may be slots of a vtable without a symbol

    def are_known(self, vaddr: int) -> bool:
        """Return whether no pointer leads to an unmarked member of the body."""
        return vaddr in self.looked_at and vaddr not in self.unknown


def find_marks(linked: Linked, collected: Collected, vtables: Vtables, objects: LinkObjects | None = None) -> Marks:
    """Mark the members of all bodies from which a merged one can be reached; `objects` are all objects of the link."""
    targets = np.array(sorted(collected.reach.wanted | linked.undescribed), np.uint64)
    linked.finder.prepare(difference(targets, linked.vaddrs))
    data = find_pointers(linked.image, targets)
    if objects is not None:
        marks = _mark_by_objects(linked, vtables, targets, data, objects)
    else:
        marks = _mark_by_image(linked, vtables, targets, data)
    marks.unlisted.update(data.target[may_be_unlisted_slots(linked.image, vtables, data.place)].tolist())
    _mark_exported(linked, targets, marks)
    for tag, vaddr in linked.image.dynamic:
        if tag in (DT_INIT, DT_FINI) and vaddr in marks.looked_at:
            marks.taken.setdefault(vaddr, set()).update(range(len(linked.members(vaddr))))
    _find_unknown(linked, collected, targets, marks)
    return marks


def _mark_by_image(linked: Linked, vtables: Vtables, targets: U64, data: Mentions) -> Marks:
    """Return marks from the image's words, and the relocations that it may have."""
    image = linked.image
    relocations = TakenByRelocation(linked, vtables, targets)
    code = find_mentions(image, targets, linked.bodies.start, linked.bodies.end)
    if relocations.knows_got:
        data = _outside_of_got(linked, data)

    place, target = np.concatenate([code.place, data.place]), np.concatenate([code.target, data.target])
    unnamed = PairIndex(relocations.place, relocations.target).find(place, target) < 0
    place = np.concatenate([place[unnamed], relocations.place])
    target = np.concatenate([target[unnamed], relocations.target])
    meant = np.concatenate([np.full(int(unnamed.sum()), ANY), relocations.meant])
    is_slot = vtables.at(place) != 0
    marks = Marks(frozenset(targets.tolist()))
    # thousands of places refer to the same thousands of members
    for members_of, rows in ((marks.virtual, np.flatnonzero(is_slot)), (marks.taken, np.flatnonzero(~is_slot))):
        rows = rows[np.lexsort((meant[rows], target[rows]))]
        for vaddr, first, end in zip(*(column.tolist() for column in runs(target[rows])), strict=True):
            members_of[vaddr] = _meant(linked, vaddr, runs(meant[rows[first:end]])[0].tolist())
    return marks


def _meant(linked: Linked, vaddr: int, meant: list[int]) -> set[int]:
    """Return the members of a body that are meant somewhere; ANY and OF_SECTION stand for several."""
    if ANY in meant:
        return set(range(len(linked.members(vaddr))))
    members = {member for member in meant if member >= 0}
    return members | linked.section_members(vaddr) if OF_SECTION in meant else members


def _mark_by_objects(linked: Linked, vtables: Vtables, targets: U64, data: Mentions, objects: LinkObjects) -> Marks:
    """Return marks from the relocations of all objects; the image has the rest."""
    from linkpass.pointers.taken_by_object import taken_by_objects

    found = taken_by_objects(linked, objects, targets)
    code = find_mentions(linked.image, targets, linked.bodies.start, linked.bodies.end)
    mentioned = np.concatenate([code.target, data.target])  # otherwise no section that names it has been linked
    marks = Marks(frozenset(targets.tolist()))
    for named, members_of in ((found.taken, marks.taken), (found.virtual, marks.virtual)):
        vaddr, first, end = runs(named.vaddr)
        is_mentioned = is_in(vaddr, mentioned)
        for at, low, high in zip(*(column[is_mentioned].tolist() for column in (vaddr, first, end)), strict=True):
            members_of[at] = set(named.member[low:high].tolist())
    are_named = {*marks.taken, *marks.virtual}
    tables = vtables.at(data.place).tolist()
    rows = [(target, True, False) for target in dict.fromkeys(_hidden(linked, code, found.shared_sections))]
    rows += [(target, True, False) for target in distinct(data.target[vtables.are_unplaced(data.place)]).tolist()]
    rows += [(target, target not in are_named, False) for target in dict.fromkeys(code.target.tolist())]
    rows += dict.fromkeys(
        (t, t not in are_named, table != 0) for t, table in zip(data.target.tolist(), tables, strict=True)
    )
    for target, are_all, is_slot in rows:
        members = linked.members(target)
        left = range(len(members)) if are_all else members.nameless
        (marks.virtual if is_slot else marks.taken).setdefault(target, set()).update(left)
    return marks


def _hidden(linked: Linked, code: Mentions, shared_sections: set[int]) -> Iterator[int]:
    """Yield bodies whose address is taken where an object may have no relocation, or is missing."""
    bodies = linked.bodies.starts_at(code.place)
    runtime = {body for body in distinct(bodies).tolist() if _is_runtime(linked, body)}
    for target, body in zip(code.target.tolist(), bodies.tolist(), strict=True):
        if body in (0, target) or target in shared_sections or body in runtime:
            yield target


def _is_runtime(linked: Linked, body: int) -> bool:
    """Return whether no given object has the code."""
    rows = linked.bodies.symbols_at(body)[:1].tolist()
    return body not in linked.folds and any(is_unfolded(linked.image.symbols.name(row)) for row in rows)


def _outside_of_got(linked: Linked, data: Mentions) -> Mentions:
    """Return mentions without the slots of the GOT: the code that loads them has more exact relocations."""
    keep = np.ones(len(data.place), np.bool_)
    for section in linked.image.sections:
        if section.name in _GOT:
            start = np.uint64(section.vaddr)
            keep &= (data.place < start) | (data.place >= start + np.uint64(section.size_bytes))
    return Mentions(data.place[keep], data.target[keep])


def _mark_exported(linked: Linked, targets: U64, marks: Marks) -> None:
    """Mark functions in .dynsym: any module may take their address."""
    symbols = linked.image.dynamic_symbols
    rows = np.flatnonzero(is_in(symbols.value, targets) & symbols.is_defined)
    for row, vaddr in zip(rows.tolist(), symbols.value[rows].tolist(), strict=True):
        named = linked.members_by_name(vaddr).get(symbols.name(row))
        marks.taken.setdefault(vaddr, set()).update(named or range(len(linked.members(vaddr))))


def _are_thunks(linked: Linked, source: int, target: int) -> bool:
    """Return whether all members of a merged body are thunks, each to a member of another one."""
    if source not in linked.folds or source in linked.undescribed or not linked.folds[source].complete:
        return False
    return linked.members_by_name(target).keys() >= {thunk_target(member.name) for member in linked.members(source)}


def _find_unknown(linked: Linked, collected: Collected, targets: U64, marks: Marks) -> None:
    """Mark bodies that control can enter in a way that neither marks nor tail calls describe."""
    symbols = linked.image.symbols
    has_split_stacks = symbols.mentions(b"__morestack\0") and "__morestack" in symbols.names(range(symbols.count))
    if not is_readable(linked.image) or has_split_stacks:
        marks.unknown.update(targets.tolist())
        return
    reach, records = collected.reach, collected.records
    marks.unknown |= reach.entered_from_nowhere
    marks.unknown |= linked.undescribed
    for end, target in find_short_jumps(linked.image, targets):
        start = int(linked.bodies.starts_at(np.array([end - 1], np.uint64))[0])
        if start != target and not _are_thunks(linked, start, target):
            marks.unknown.add(target)
    is_explained = records.is_known | records.is_loop
    is_own = reach.is_jump & (reach.source == reach.target) & is_in(reach.source, linked.vaddrs)
    own = np.flatnonzero(is_own[records.slots.branch] & ~is_explained)
    marks.unknown.update(reach.source[records.slots.branch[own]].tolist())
    referred = {*marks.taken, *marks.virtual, *reach.target.tolist()}
    marks.unknown.update(vaddr for vaddr in linked.folds if vaddr not in referred)
