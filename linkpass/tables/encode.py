"""From collected records to the bytes of the tables.

    places -> DIEs (declarations are made where there is none) -> classes, records, tail calls -> sections

Everything is sorted by address before it is written, so the same input makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from icf.aliases import is_cold_part
from icf.columns import U8, U64
from icf.dwarf.columns import END, OFFSET
from icf.folds.members import FoldMember
from icf.model import ALL_MEMBERS, ClassFlag, Evidence, ImageFlag
from icf.sets import distinct
from icf.tables.dcall import DirectCalls, encode_dcall
from icf.tables.icftable import IcfColumns, IcfTable, encode_icf, place_names
from icf.tables.vcall import VirtualCalls, encode_vcall
from icf.vtables.layout import Vtables
from linkpass.evidence.collect import Collected
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Key, Records
from linkpass.linked import Linked, Place
from linkpass.pointer_jumps import PointerJumps
from linkpass.pointers.address_taken import Marks
from linkpass.pointers.virtual_calls import Virtual
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.tables.rows import Rows
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
    calls = _Calls.of(records)
    callers = set(distinct(calls.caller[:, 0]).tolist())
    listed = set(linked.folds)
    listed.update(distinct(calls.callee[:, 0]).tolist())
    listed.update(linked.undescribed)
    if apart:
        listed |= callers
    listed |= {place.vaddr for (_, caller), callee in jumps for place in (caller, callee)}
    listed |= {*reach.pointers.body.tolist(), *(entry.body for entry in virtual.entries)}
    rows = Rows.of(linked, listed, callers)

    # a DIE for every function that is named
    missing = rows.without_die()
    undeclared: dict[int | Place, FoldMember] = {}  # by their DIE in a split unit, which a cold part shares
    for place, row in missing:
        member = rows.members[row]
        known = undeclared.setdefault(member.die or place, member)
        if is_cold_part(known.name):
            undeclared[member.die or place] = member
    names = [(member.name, member.nameless) for member in undeclared.values()]
    points = list(dict.fromkeys(entry.vtable for entry in virtual.entries))
    described = describe_vtables(linked, vtables, points)
    synthetic = make_synthetic_unit(linked.image.debug, linked.debug, names, described)
    declaration = dict(zip(undeclared, synthetic.dies, strict=True))
    declared = [row for _, row in missing]
    rows.die[declared] = [declaration[rows.members[row].die or place] for place, row in missing]

    incomplete = {target for _, target in collected.open_jumps} | (listed & (reach.wanted - reach.called))
    if collected.open_calls:
        target_of = dict(zip(reach.call_end.tolist(), reach.call_target.tolist(), strict=True))
        incomplete |= {target_of[end] for end, _ in collected.open_calls}
    columns = _columns(
        linked, rows, _class_flags(linked, rows, marks, incomplete), rows.flags(marks, declared),
        _tail_calls(linked, rows, reach, jumps), reach.pointers, virtual,
        dict(zip(points, synthetic.vtable_dies, strict=True)), {} if apart else linked.finder.str_offsets,
    )  # fmt: skip

    units = linked.debug.own_units
    starts, ends = units[:, OFFSET].copy(), units[:, END].copy()
    if synthetic.info_keep_bytes < len(linked.debug.info):  # the unit of an earlier run
        starts, ends = starts[:-1], ends[:-1]
    if synthetic.info:
        starts = np.append(starts, np.uint64(synthetic.info_keep_bytes))
        ends = np.append(ends, np.uint64(synthetic.info_keep_bytes + len(synthetic.info)))
    direct, evidence = calls.records(rows)
    dcall_bytes, order = encode_dcall(direct, starts, ends)
    vcalls = VirtualCalls.of([row[:2] for row in virtual.calls])
    vcall_bytes, vcall_order = encode_vcall(vcalls)
    vcall_evidence = bytes(int(virtual.calls[row][2]) for row in vcall_order.tolist())
    table = IcfTable(
        evidence=evidence[order].tobytes(),
        vcall_evidence=vcall_evidence,
        image_flags=image_flags,
        code_digest=linked.image.code_digest,
        columns=columns,
    )
    written = DirectCalls(direct.call_site[order], direct.callee_die[order], direct.caller_die[order])
    written_vcalls = VirtualCalls(vcalls.call_site[vcall_order], vcalls.vtable_slot[vcall_order])
    return Tables(table, written, written_vcalls, dcall_bytes, vcall_bytes, encode_icf(table), synthetic)


class _Calls(NamedTuple):
    """The records as columns; a place is a row of two: the address of the body, the index of the member."""

    site: U64
    caller: U64
    callee: U64
    evidence: U8

    @classmethod
    def of(cls, records: Records) -> _Calls:
        count = len(records.calls)
        callees = records.calls.values()
        return cls(
            np.fromiter((end for end, _ in records.calls), np.uint64, count),
            _places(count, (caller for _, caller in records.calls)),
            _places(count, (callee for callee, _ in callees)),
            np.fromiter((kind for _, kind in callees), np.uint8, count),
        )

    def records(self, rows: Rows) -> tuple[DirectCalls, U8]:
        """Return the records and the evidence of each, by call site, callee, caller."""
        callee, caller = rows.die[rows.of_places(self.callee)], rows.die[rows.of_places(self.caller)]
        order = np.lexsort((self.evidence, caller, callee, self.site))
        return DirectCalls(self.site[order], callee[order], caller[order]), self.evidence[order]


def _places(count: int, places: Iterable[Place]) -> U64:
    return np.fromiter(chain.from_iterable(places), np.uint64, 2 * count).reshape(-1, 2)


def _class_flags(linked: Linked, rows: Rows, marks: Marks, incomplete: set[int]) -> U8:
    found = []
    for vaddr in rows.class_vaddr.tolist():
        fold = linked.folds.get(vaddr)
        flags = 0 if vaddr in incomplete else int(ClassFlag.CALLS_COMPLETE)
        if vaddr not in linked.undescribed and (fold is None or fold.complete):
            flags |= ClassFlag.MEMBERS_COMPLETE
        if fold is not None and fold.fragment:
            flags |= ClassFlag.FRAGMENT
        if marks.are_known(vaddr):
            flags |= ClassFlag.ADDRESS_TAKEN_KNOWN
        found.append(int(flags))
    return np.array(found, np.uint8)


def _tail_calls(linked: Linked, rows: Rows, reach: Reach, jumps: Iterable[tuple[Key, Place]]) -> tuple[U64, U64, U64]:
    """Return the jump, the caller and the callee of each tail call, as the table has them (`IcfColumns`)."""
    jump_size = dict(zip(reach.jump_end.tolist(), reach.jump_size.tolist(), strict=True))
    found = sorted((end - jump_size[end], caller, callee) for end, caller, callee in _unite_callers(linked, jumps))
    callers = [0 if caller.member == ALL_MEMBERS else rows.row(caller) + 1 for _, caller, _ in found]
    callees = [rows.function(callee) for _, _, callee in found]
    jump, caller, callee = (
        np.array(column, np.uint64) for column in ([jump for jump, _, _ in found], callers, callees)
    )
    return jump, caller, callee


def _columns(
    linked: Linked,
    rows: Rows,
    class_flags: U8,
    member_flags: U8,
    tail_calls: tuple[U64, U64, U64],
    pointers: PointerJumps,
    virtual: Virtual,
    die_of_vtable: dict[int, int],
    str_offsets: Mapping[str, int],
) -> IcfColumns:
    """Return the columns of the table; names at one of `str_offsets` are those of .debug_str."""
    members = rows.members[: rows.listed_count]
    aliases = [(row, alias) for row, member in enumerate(members) for alias in member.aliases]
    name, pool = place_names([*(member.name for member in members), *(alias for _, alias in aliases)], str_offsets)
    bodies = linked.bodies
    class_end = bodies.end[np.searchsorted(bodies.start, rows.class_vaddr)]
    entries = sorted(virtual.entries)
    vtable, slot_start = np.unique(np.array([entry.vtable for entry in entries], np.uint64), return_index=True)
    return IcfColumns(
        class_vaddr=rows.class_vaddr,
        class_size=class_end - rows.class_vaddr,
        class_flags=class_flags,
        member_start=rows.member_start,
        member_die=rows.die[: rows.listed_count],
        member_name=name[: len(members)],
        member_flags=member_flags,
        alias_member=np.array([row for row, _ in aliases], np.uint64),
        alias_name=name[len(members) :],
        tail_jump=tail_calls[0],
        tail_caller=tail_calls[1],
        tail_callee=tail_calls[2],
        pointer_jump=pointers.jump,
        pointer_slot=(pointers.slot + 1).astype(np.uint64),
        vtable_vaddr=vtable,
        vtable_group=np.array([entries[at].group for at in slot_start.tolist()], np.uint64),
        vtable_die=np.array([die_of_vtable[vaddr] for vaddr in vtable.tolist()], np.uint64),
        slot_start=np.append(slot_start, len(entries)).astype(np.uint64),
        slot=np.array([entry.slot for entry in entries], np.uint64),
        slot_function=np.array([rows.function(Place(entry.body, entry.member)) for entry in entries], np.uint64),
        pool=memoryview(pool),
        debug_str=linked.debug.str_,
    )


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


def evidence_counts(table: IcfTable) -> dict[str, int]:
    """Return how many records each kind of evidence has."""
    return {kind.name.lower(): count for kind in Evidence if (count := table.evidence.count(kind))}
