"""From collected records to the bytes of the tables.

    places -> DIEs (declarations are made where there is none) -> classes, records, tail calls -> sections

Everything is sorted by address before it is written, so the same input makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np

from icf.aliases import is_cold_part
from icf.dwarf.columns import END, OFFSET
from icf.folds.members import FoldMember
from icf.model import (
    ALL_MEMBERS,
    ClassFlag,
    DieOffset,
    Evidence,
    FoldClass,
    ImageFlag,
    Member,
    MemberFlag,
    MemberRef,
    PointerJump,
    TailCall,
    Vaddr,
    Vtable,
    VtableSlot,
)
from icf.tables.dcall import DirectCalls, encode_dcall
from icf.tables.icftable import IcfTable, encode_icf
from icf.tables.vcall import VirtualCalls, encode_vcall
from icf.vtables.layout import Vtables
from linkpass.evidence.collect import Collected
from linkpass.evidence.records import Key
from linkpass.linked import Linked, Place
from linkpass.pointers.address_taken import Marks
from linkpass.pointers.virtual_calls import Virtual
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.tables.synthetic import SyntheticUnit, make_synthetic_unit
from linkpass.tables.vtable_dies import describe_vtables


@dataclass(slots=True)
class Tables:
    """The tables to write, and what they were made from."""

    icf: IcfTable
    calls: DirectCalls  # in the order in which they were written
    virtual_calls: VirtualCalls  # in the order in which they were written
    dcall_bytes: bytes
    vcall_bytes: bytes
    icf_bytes: bytes
    synthetic: SyntheticUnit

    def edits(self) -> list[SectionEdit]:
        """Return the sections to add or replace."""
        sections = (
            (".debug_dcall", self.dcall_bytes),
            (".debug_vcall", self.vcall_bytes),
            (".debug_icf", self.icf_bytes),
        )
        return [SectionEdit(name, contents) for name, contents in sections]

    @property
    def size_bytes(self) -> int:
        """Return the size of the tables in bytes."""
        return len(self.dcall_bytes) + len(self.vcall_bytes) + len(self.icf_bytes)

    def growths(self, linked: Linked) -> tuple[list[SectionGrowth], list[SectionEdit]]:
        """Return changes of .debug_info and .debug_abbrev: growth where they exist, else new sections."""
        unit = self.synthetic
        growths, edits = [], []
        for name, tail, keep_bytes in (
            (".debug_info", unit.info, unit.info_keep_bytes),
            (".debug_abbrev", unit.abbrev, unit.abbrev_keep_bytes),
        ):
            present = linked.image.debug.section(name)
            if present is None:
                if tail:
                    edits.append(SectionEdit(name, tail))
            elif linked.image.debug.contents(present)[keep_bytes:] != tail:
                growths.append(SectionGrowth(present.name, tail, keep_bytes))
        return growths, edits


def build_tables(
    linked: Linked,
    collected: Collected,
    marks: Marks,
    vtables: Vtables,
    virtual: Virtual,
    *,
    apart: bool = False,
    image_flags: ImageFlag = ImageFlag.NONE,
) -> Tables:
    """Lay out all tables of the image.

    With `apart` they are not in the file with the debug information, which a reader may not have: they have all
    names, those of .debug_str too, and all callers, which a stripped image has no symbols for.
    """
    records, reach = collected.records, collected.reach
    open_jumps = {(key, Place(target, ALL_MEMBERS)) for key, target in collected.open_jumps}
    jumps = {(key, callee) for key, (callee, _) in records.jumps.items()} | open_jumps
    listed = set(linked.folds)
    listed |= {callee.vaddr for callee, _ in records.calls.values()}
    listed.update(linked.undescribed)
    if apart:
        listed |= {caller.vaddr for _, caller in records.calls}
    listed |= {place.vaddr for (_, caller), callee in jumps for place in (caller, callee)}
    listed |= {*reach.pointers.body.tolist(), *(entry.body for entry in virtual.entries)}

    # a DIE for every function that is named
    places = {caller for _, caller in records.calls} | {Place(v, i) for v in listed for i in _indices(linked, v)}
    die = {place: _die_in_image(linked, linked.member(place)) for place in places}
    missing = sorted(place for place in places if not die[place])
    undeclared: dict[int | Place, FoldMember] = {}  # by their DIE in a split unit, which a cold part shares
    for place in missing:
        member = linked.member(place)
        known = undeclared.setdefault(member.die or place, member)
        if is_cold_part(known.name):
            undeclared[member.die or place] = member
    names = [(member.name, member.nameless) for member in undeclared.values()]
    points = list(dict.fromkeys(entry.vtable for entry in virtual.entries))
    described = describe_vtables(linked, vtables, points)
    synthetic = make_synthetic_unit(linked.image.debug, linked.debug, names, described)
    declaration = dict(zip(undeclared, synthetic.dies, strict=True))
    die.update((place, declaration[linked.member(place).die or place]) for place in missing)

    # classes
    incomplete = {target for _, target in collected.open_jumps} | (listed & (reach.wanted - reach.called))
    if collected.open_calls:
        target_of = dict(zip(reach.call_end.tolist(), reach.call_target.tolist(), strict=True))
        incomplete |= {target_of[end] for end, _ in collected.open_calls}
    vaddrs = sorted(listed)
    class_idx = {vaddr: idx for idx, vaddr in enumerate(vaddrs)}
    declared = set(missing)
    classes = [_fold_class(linked, vaddr, die, declared, marks, vaddr in incomplete) for vaddr in vaddrs]

    def ref(place: Place) -> MemberRef:
        return MemberRef(class_idx[place.vaddr], place.member)

    jump_size = dict(zip(reach.jump_end.tolist(), reach.jump_size.tolist(), strict=True))
    tail_calls = [
        TailCall(Vaddr(end - jump_size[end]), ref(caller), ref(callee))
        for end, caller, callee in _unite_callers(linked, jumps)
    ]

    die_of_vtable = dict(zip(points, synthetic.vtable_dies, strict=True))
    vtable_rows = [
        Vtable(
            Vaddr(vaddr),
            Vaddr(entries[0].group),
            tuple(VtableSlot(entry.slot, ref(Place(entry.body, entry.member))) for entry in entries),
            DieOffset(die_of_vtable[vaddr]),
        )
        for vaddr, entries in ((vaddr, list(group)) for vaddr, group in groupby(virtual.entries, lambda e: e.vtable))
    ]
    pointers = reach.pointers
    pointer_jumps = [
        PointerJump(Vaddr(jump), slot)
        for jump, slot in zip(pointers.jump.tolist(), pointers.slot.tolist(), strict=True)
    ]

    # records
    rows = sorted(
        (end, die[callee], die[caller], int(evidence)) for (end, caller), (callee, evidence) in records.calls.items()
    )
    units = linked.debug.own_units
    starts, ends = units[:, OFFSET].copy(), units[:, END].copy()
    if synthetic.info_keep_bytes < len(linked.debug.info):  # the unit of an earlier run
        starts, ends = starts[:-1], ends[:-1]
    if synthetic.info:
        starts = np.append(starts, np.uint64(synthetic.info_keep_bytes))
        ends = np.append(ends, np.uint64(synthetic.info_keep_bytes + len(synthetic.info)))
    calls = DirectCalls.of([row[:3] for row in rows])
    dcall_bytes, order = encode_dcall(calls, starts, ends)
    evidence = bytes(rows[row][3] for row in order.tolist())
    vcalls = VirtualCalls.of([row[:2] for row in virtual.calls])
    vcall_bytes, vcall_order = encode_vcall(vcalls)
    vcall_evidence = bytes(int(virtual.calls[row][2]) for row in vcall_order.tolist())
    table = IcfTable(
        classes,
        tail_calls,
        evidence,
        vcall_evidence,
        pointer_jumps=pointer_jumps,
        vtables=vtable_rows,
        image_flags=image_flags,
        code_digest=linked.image.code_digest,
    )
    icf_bytes = encode_icf(table, {} if apart else linked.finder.str_offsets)
    written = DirectCalls(calls.call_site[order], calls.callee_die[order], calls.caller_die[order])
    written_vcalls = VirtualCalls(vcalls.call_site[vcall_order], vcalls.vtable_slot[vcall_order])
    return Tables(table, written, written_vcalls, dcall_bytes, vcall_bytes, icf_bytes, synthetic)


def _unite_callers(linked: Linked, jumps: Iterable[tuple[Key, Place]]) -> Iterator[tuple[int, Place, Place]]:
    """Yield jumps as (end, caller, callee), in order; one for all members of a body if it means the same in each.

    If no evidence names the member, the callee has the index ALL_MEMBERS.
    Bodies of visitors have thousands of members that tail-call the same few functions.
    """
    callees_of: dict[int, dict[Place, set[Place]]] = {}
    for (end, caller), callee in jumps:
        callees_of.setdefault(end, {}).setdefault(caller, set()).add(callee)
    for end, by_caller in sorted(callees_of.items()):
        callers = sorted(by_caller)
        first = by_caller[callers[0]]
        count = len(linked.members(callers[0].vaddr))
        if count > 1 and len(callers) == count and all(by_caller[caller] == first for caller in callers):
            callers = [Place(callers[0].vaddr, ALL_MEMBERS)]
            by_caller = {callers[0]: first}
        for caller in callers:
            for callee in sorted(by_caller[caller]):
                yield end, caller, callee


def _die_in_image(linked: Linked, member: FoldMember) -> int:
    """Return the DIE that stands for a member; 0 if .debug_info of the image has none, as with split units."""
    return member.die if member.die < len(linked.debug.info) else 0


def _indices(linked: Linked, vaddr: int) -> range:
    return range(len(linked.members(vaddr)))


def _fold_class(
    linked: Linked, vaddr: int, die: dict[Place, int], declared: set[Place], marks: Marks, incomplete: bool
) -> FoldClass:
    fold = linked.folds.get(vaddr)
    flags = ClassFlag.NONE if incomplete else ClassFlag.CALLS_COMPLETE
    if vaddr not in linked.undescribed and (fold is None or fold.complete):
        flags |= ClassFlag.MEMBERS_COMPLETE
    if fold is not None and fold.fragment:
        flags |= ClassFlag.FRAGMENT
    if marks.are_known(vaddr):
        flags |= ClassFlag.ADDRESS_TAKEN_KNOWN
    taken, virtual = marks.taken.get(vaddr, ()), marks.virtual.get(vaddr, ())
    members = []
    for idx, member in enumerate(linked.members(vaddr)):
        place = Place(vaddr, idx)
        marked = bool(member.kept), idx in taken, idx in virtual, member.local, place in declared, member.nameless
        members.append(Member(member.name, DieOffset(die[place]), _member_flags(*marked), tuple(member.aliases)))
    return FoldClass(Vaddr(vaddr), linked.bodies.end_of(vaddr) - vaddr, tuple(members), flags)


@cache  # a class may have thousands of members, and flags are slow to put together
def _member_flags(kept: bool, taken: bool, virtual: bool, local: bool, synthetic: bool, nameless: bool) -> MemberFlag:
    flags = MemberFlag.NONE
    for flag, is_set in (
        (MemberFlag.KEPT, kept),
        (MemberFlag.ADDRESS_TAKEN, taken),
        (MemberFlag.VIRTUAL, virtual),
        (MemberFlag.LOCAL, local),
        (MemberFlag.SYNTHETIC, synthetic),
        (MemberFlag.NAMELESS, nameless),
    ):
        if is_set:
            flags |= flag
    return flags


def evidence_counts(table: IcfTable) -> dict[str, int]:
    """Return how many records each kind of evidence has."""
    return {kind.name.lower(): count for kind in Evidence if (count := table.evidence.count(kind))}
