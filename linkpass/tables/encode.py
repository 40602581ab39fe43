"""From collected records to the bytes of the tables.

    places -> DIEs (declarations are made where there is none) -> classes, records, tail calls -> sections

Everything is sorted by address before it is written, so the same input makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from icf.aliases import is_cold_part
from icf.columns import I64, U8, U64
from icf.dwarf.columns import END, OFFSET
from icf.folds.member import NOWHERE
from icf.model import ALL_MEMBERS, ClassFlag, Evidence, ImageFlag
from icf.sets import distinct, runs
from icf.tables.dcall import DirectCalls, encode_dcall
from icf.tables.icftable import IcfColumns, IcfTable
from icf.tables.icfwriter import encode_icf, place_names
from icf.tables.vcall import VirtualCalls, encode_vcall
from icf.vtables.layout import Vtables
from linkpass.evidence.callbacks import ANY_CALLER, Callback
from linkpass.evidence.collect import Collected
from linkpass.linked import Linked, Place
from linkpass.pointer_jumps import PointerJumps
from linkpass.pointers.address_taken import Marks
from linkpass.pointers.object_types import ObjectTypes
from linkpass.pointers.typed_members import TypedMembers
from linkpass.pointers.virtual_calls import Virtual
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.tables.named_calls import TailCalls, call_slots, direct_calls, jump_slots, tail_calls
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
            elif linked.image.debug.streamed(present)[keep_bytes:] != tail:
                growths.append(SectionGrowth(present.name, tail, keep_bytes))
        return growths, edits


def build_tables(
    linked: Linked,
    collected: Collected,
    marks: Marks,
    vtables: Vtables,
    virtual: Virtual,
    objects: ObjectTypes,
    *,
    apart: bool = False,
    image_flags: ImageFlag = ImageFlag.NONE,
) -> Tables:
    """Lay out all tables of the image.

    With `apart` they are not in the file with the debug information, which a reader may not have: they have all
    names, those of .debug_str too, and all callers, which a stripped image has no symbols for.
    """
    records, reach = collected.records, collected.reach
    calls, jumps = (records.slots.branch[slots] for slots in (call_slots(collected), jump_slots(collected)))
    callers = set(distinct(reach.source[calls]).tolist())
    listed = set(linked.folds)
    listed.update(linked.undescribed)
    if apart:
        listed |= callers
    for column in (reach.target[calls], reach.source[jumps], reach.target[jumps]):
        listed.update(distinct(column).tolist())
    listed |= {*reach.pointers.body.tolist(), *distinct(virtual.slots.body).tolist()}
    listed.update(call.target for call in collected.callbacks)
    rows = Rows.of(linked, listed, callers)

    # a DIE for every function that is named
    places, declared = rows.without_die()
    dies = rows.members.die[declared].tolist()
    keys = [die or place for die, place in zip(dies, places, strict=True)]  # a cold part shares the DIE of a split unit
    undeclared: dict[int | Place, tuple[str, bool]] = {}
    named = zip(rows.members.names_at(declared), rows.members.is_nameless[declared].tolist(), strict=True)
    for key, name in zip(keys, named, strict=True):
        if is_cold_part(undeclared.setdefault(key, name)[0]):
            undeclared[key] = name
    points = distinct(virtual.slots.vtable)
    described = describe_vtables(linked, vtables, points)
    synthetic = make_synthetic_unit(linked.image.debug, linked.debug, list(undeclared.values()), described)
    declaration = dict(zip(undeclared, synthetic.dies, strict=True))
    rows.die[declared] = [declaration[key] for key in keys]

    incomplete = listed & (reach.wanted - reach.called)
    for still_open in (collected.open_calls, collected.open_jumps):
        incomplete.update(distinct(reach.target[records.slots.branch[still_open]]).tolist())
    columns = _columns(
        linked, rows, _class_flags(linked, rows, marks, incomplete), rows.flags(marks, declared),
        tail_calls(collected, rows), reach.pointers, virtual, objects,
        np.array(synthetic.vtable_dies, np.uint64), apart=apart,
    )  # fmt: skip

    units = linked.debug.own_units
    starts, ends = units[:, OFFSET].copy(), units[:, END].copy()
    if synthetic.info_keep_bytes < len(linked.debug.info):  # the unit of an earlier run
        starts, ends = starts[:-1], ends[:-1]
    if synthetic.info:
        starts = np.append(starts, np.uint64(synthetic.info_keep_bytes))
        ends = np.append(ends, np.uint64(synthetic.info_keep_bytes + len(synthetic.info)))
    direct, evidence = direct_calls(collected, rows)
    dcall_bytes, order = encode_dcall(direct, starts, ends)
    vcalls = VirtualCalls.of([row[:2] for row in virtual.calls])
    vcall_bytes, vcall_order = encode_vcall(vcalls)
    vcall_evidence = bytes(int(virtual.calls[row][2]) for row in vcall_order.tolist())
    columns = columns._replace(vcall_object=objects.of_call.astype(np.uint64)[vcall_order])
    columns = _with_callbacks(columns, collected.callbacks, rows)
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
            if vaddr not in marks.unlisted:
                flags |= ClassFlag.VTABLES_KNOWN
        found.append(int(flags))
    return np.array(found, np.uint8)


def _columns(
    linked: Linked,
    rows: Rows,
    class_flags: U8,
    member_flags: U8,
    tails: TailCalls,
    pointers: PointerJumps,
    virtual: Virtual,
    objects: ObjectTypes,
    vtable_die: U64,
    *,
    apart: bool,
) -> IcfColumns:
    """Return the columns of the table; `apart` from .debug_str, it has all names itself."""
    aliases = [(row, alias) for row, alias in rows.members.aliases if row < rows.listed_count]

    def names_of(at: I64) -> list[str]:
        """Return names of listed members, after which come the aliases."""
        is_alias = at >= rows.listed_count
        return [*rows.members.names_at(at[~is_alias]), *(aliases[row][1] for row in (at[is_alias] - rows.listed_count))]

    in_debug_str = np.full(rows.listed_count + len(aliases), NOWHERE)
    if not apart:
        _find_in_debug_str(linked, rows, names_of, in_debug_str)
    name, pool = place_names(names_of, in_debug_str)
    bodies = linked.bodies
    class_end = bodies.end[np.searchsorted(bodies.start, rows.class_vaddr)]
    slots = virtual.slots
    groups = {group: row for row, group in enumerate(distinct(slots.group).tolist())}
    typed = objects.objects
    vtable, slot_start, _ = runs(slots.vtable)
    return IcfColumns(
        class_vaddr=rows.class_vaddr,
        class_size=class_end - rows.class_vaddr,
        class_flags=class_flags,
        member_start=rows.member_start,
        member_die=rows.die[: rows.listed_count],
        member_name=name[: rows.listed_count],
        member_flags=member_flags,
        alias_member=np.array([row for row, _ in aliases], np.uint64),
        alias_name=name[rows.listed_count :],
        tail_jump=tails.jump,
        tail_caller=tails.caller,
        tail_callee=tails.callee,
        pointer_jump=pointers.jump,
        pointer_slot=(pointers.slot + 1).astype(np.uint64),
        vtable_vaddr=vtable,
        vtable_group=slots.group[slot_start],
        vtable_die=vtable_die,
        slot_start=np.append(slot_start, len(slots.slot)).astype(np.uint64),
        slot=slots.slot.astype(np.uint64),
        slot_function=rows.functions(slots.body, slots.member),
        pool=memoryview(pool),
        debug_str=linked.debug.str_,
        pointer_object=objects.of_jump.astype(np.uint64),
        type_start=np.cumsum([0, *map(len, objects.types)], dtype=np.uint64),
        type_group=np.array([groups[group] for each in objects.types for group in each], np.uint64),
        object_start=np.searchsorted(typed.object, np.arange(objects.object_count + 1)).astype(np.uint64),
        object_member=_typed_rows(rows, typed),
        object_type=typed.type.astype(np.uint64),
        vcall_object=np.empty(0, np.uint64),
    )


def _find_in_debug_str(linked: Linked, rows: Rows, names_of: Callable[[I64], list[str]], found: I64) -> None:
    """Set where names are in .debug_str, those of listed members first; NOWHERE where that is not known."""
    found[: rows.listed_count] = rows.members.str_offset[: rows.listed_count]
    if linked.finder.identities is not None:
        known = linked.finder.identities.str_offsets
        left = np.flatnonzero(found == NOWHERE)
        found[left] = [known.get(name, NOWHERE) for name in names_of(left)]


def _with_callbacks(columns: IcfColumns, callbacks: Sequence[Callback], rows: Rows) -> IcfColumns:
    """Return the columns with those of what callers pass to imports that call it back."""
    if not callbacks:
        return columns
    call_end, source, caller, target, callee, evidence = zip(*callbacks, strict=True)
    is_one = np.array(caller) != ANY_CALLER
    callers = np.zeros(len(callbacks), np.uint64)
    members = np.array(caller, np.int64)[is_one]
    callers[is_one] = rows.of_members(np.array(source, np.uint64)[is_one], members).astype(np.uint64) + np.uint64(1)
    return columns._replace(
        callback_site=np.array(call_end, np.uint64),
        callback_caller=callers,
        callback_callee=rows.of_members(np.array(target, np.uint64), np.array(callee, np.int64)).astype(np.uint64),
        callback_evidence=np.array(evidence, np.uint8),
    )


def _typed_rows(rows: Rows, typed: TypedMembers) -> U64:
    """Return the rows of members plus one; 0 for every member, whose body the tables may not list."""
    found = np.zeros(len(typed.member), np.uint64)
    is_one = typed.member != ALL_MEMBERS
    members = rows.of_members(typed.body[is_one], typed.member[is_one])
    found[is_one] = members.astype(np.uint64) + np.uint64(1)
    return found


def evidence_counts(table: IcfTable) -> dict[str, int]:
    """Return how many records each kind of evidence has."""
    return {kind.name.lower(): count for kind in Evidence if (count := table.evidence.count(kind))}
