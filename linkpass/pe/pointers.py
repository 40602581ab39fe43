"""Where pointers and vftables of a PE image lead: marks of members, slots, calls and jumps by slots.

An indirect call ends in a function whose address is taken, or in one in a vftable. What the objects of the link refer
to (`linkpass.pe.references`) says which, to the member. That holds only if no object of the link is missing, as the
PDB lists them, and none is of another link; else the marks of no body are known, and every member counts.

    objects          references: the very member                    ADDRESS_TAKEN, or VIRTUAL with its slot
    exports, entry   other images and Windows call it               ADDRESS_TAKEN
    the image        an address that no object explains             every member of the body
    members without a linkage name, of which overloads are merged   ADDRESS_TAKEN: a reference may mean any of them

The marks of a body stay unknown if short jumps, or code in no function, lead to it; if a jump leads from it to its own
start and no object shows whether that is a loop; or if nothing refers to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from icf.code.addresses import find_mentions
from icf.code.short_jumps import find_short_jumps
from icf.model import MemberFlag
from icf.pe.image import PeImage
from icf.pe.relocations import pointer_places
from linkpass.pe.calls import ObjectCalls
from linkpass.pe.members import Function, Members
from linkpass.pe.reach import Reach
from linkpass.pe.references import References
from linkpass.pe.slots import find_slots

_WORD_BYTES = 8
_UNKNOWN_NAME = MemberFlag.NAMELESS | MemberFlag.LOCAL


@dataclass(slots=True)
class Pointers:
    """The marks, and the slots of vftables."""

    marks: dict[Function, MemberFlag] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)  # bodies to whose other members no pointer leads
    incomplete: set[int] = field(default_factory=set)  # bodies to which a direct call without a record leads
    self_jumps: list[tuple[int, Function]] = field(default_factory=list)  # which may be loops or tail calls
    slots: dict[tuple[int, int], Function] = field(default_factory=dict)  # by vftable and slot; or ALL_MEMBERS

    def mark(self, functions: Iterable[Function], flag: MemberFlag) -> None:
        for each in functions:
            self.marks[each] = self.marks.get(each, MemberFlag.NONE) | flag


def find_pointers(
    image: PeImage,
    members: Members,
    calls: ObjectCalls,
    references: References,
    reach: Reach,
    *,
    has_all_objects: bool,
) -> Pointers:
    """Return what leads to the members of the bodies of `reach`, once all objects that there are were read."""
    found = Pointers()
    recorded: dict[int, set[Function]] = {}
    for caller, branches in calls.branches.items():
        for branch in branches:
            recorded.setdefault(branch.end, set()).add(caller)
    unknown = _follow_branches(image, members, calls, reach, recorded, found)
    words = _words(image)
    slots = find_slots(image, members, references, words)
    found.slots = slots.held
    found.mark(references.taken | slots.taken, MemberFlag.ADDRESS_TAKEN)
    found.mark(slots.virtual, MemberFlag.VIRTUAL)
    _mark_entered(image, members, found)
    for row in reach.wanted:
        named = members.bodies[row].members
        overloads = (idx for idx, each in enumerate(named) if each.flags & _UNKNOWN_NAME == MemberFlag.NAMELESS)
        found.mark((Function(row, idx) for idx in overloads), MemberFlag.ADDRESS_TAKEN)
    explained = slots.places
    _mark_mentioned(image, members, reach, [word for place, word in words.items() if place not in explained], found)
    are_linked = slots.are_those_of_objects and not calls.are_of_another_link
    if words and has_all_objects and are_linked:
        referred = {each.body for each in found.marks} | {each.target for each in reach.branches}
        unknown |= {row for row in reach.wanted - referred if len(members.bodies[row].members) > 1}
        found.known = set(reach.wanted - unknown)
    return found


def _words(image: PeImage) -> dict[int, int]:
    """Return the addresses that an image holds, by place; none of one that cannot be moved, as it lists no places."""
    places = pointer_places(image).tolist()
    return {place: int.from_bytes(bytes(image.read(place, _WORD_BYTES)), "little") for place in places}


def _follow_branches(
    image: PeImage,
    members: Members,
    calls: ObjectCalls,
    reach: Reach,
    recorded: dict[int, set[Function]],
    found: Pointers,
) -> set[int]:
    """Find the branches that no object explains; return the bodies that they may enter in an unknown way."""
    unknown = set()
    found.incomplete |= reach.wanted - reach.called
    for each in reach.branches:
        callers = [] if each.source < 0 else members.of_body(each.source)
        left = [caller for caller in callers if caller not in recorded.get(each.end, ())]
        if each.source < 0:
            found.incomplete.add(each.target)
            if each.is_jump:
                unknown.add(each.target)
        elif not each.is_jump or each.source != each.target:
            if left:
                found.incomplete.add(each.target)
        elif len(callers) > 1:  # objects have a relocation for each call of a function, and none for a loop
            open_jumps = [caller for caller in left if caller not in calls.branches]
            found.self_jumps += [(each.start, caller) for caller in open_jumps]
            if open_jumps:
                unknown.add(each.target)
    targets = np.array(sorted(reach.wanted), np.int64)
    for end, vaddr in find_short_jumps(image, reach.bodies.start[targets]):
        source, target = reach.bodies.at(np.array([end - 1, vaddr], np.uint64)).tolist()
        if source != target:
            unknown.add(target)
    return unknown


def _mark_entered(image: PeImage, members: Members, found: Pointers) -> None:
    """Mark what other images and Windows call."""
    row_of = {image.base + body.start: row for row, body in enumerate(members.bodies)}
    if image.headers.entry in row_of:
        found.mark(members.of_body(row_of[image.headers.entry]), MemberFlag.ADDRESS_TAKEN)
    for exported in image.exports:
        row = row_of.get(image.base + exported.rva, -1)
        if row >= 0:
            named = {each for each in members.external(exported.name) if each.body == row}
            found.mark(named or members.of_body(row), MemberFlag.ADDRESS_TAKEN)


def _mark_mentioned(image: PeImage, members: Members, reach: Reach, words: list[int], found: Pointers) -> None:
    """Mark the members of bodies whose address is in code or among `words`, where no object says which is meant."""
    rows = sorted(reach.wanted)
    targets = reach.bodies.start[np.array(rows, np.int64)]
    row_of = dict(zip(targets.tolist(), rows, strict=True))
    in_code = find_mentions(image, targets, reach.bodies.start, reach.bodies.end).target.tolist()
    for vaddr in row_of.keys() & {*in_code, *words}:
        every = members.of_body(row_of[vaddr])
        if not any(found.marks.get(each, MemberFlag.NONE) & MemberFlag.ADDRESS_TAKEN for each in every):
            found.mark(every, MemberFlag.ADDRESS_TAKEN)
