"""Which functions have to stay apart, on tables as plain data."""

from __future__ import annotations

from collections.abc import Hashable

from icf.model import (
    ALL_MEMBERS,
    ClassFlag,
    DieOffset,
    FoldClass,
    Member,
    MemberFlag,
    MemberRef,
    TailCall,
    Vaddr,
    Vtable,
    VtableSlot,
)
from icf.tables.dcall import DirectCalls
from icf.tables.foldtable import IcfTable
from linkpass.distinct.evidence_sets import evidence_sets, lacks_evidence
from linkpass.distinct.plan import Plan, make_plan

KNOWN = ClassFlag.MEMBERS_COMPLETE | ClassFlag.CALLS_COMPLETE | ClassFlag.ADDRESS_TAKEN_KNOWN
NONE, TAKEN, VIRTUAL = MemberFlag.NONE, MemberFlag.ADDRESS_TAKEN, MemberFlag.VIRTUAL
Node = tuple[int, int]


def fold(class_idx: int, *marks: MemberFlag, flags: ClassFlag = KNOWN) -> FoldClass:
    """Members are called like c0m1; their DIEs are 0x100 * (class + 1) + member."""
    members = [Member(f"c{class_idx}m{idx}", DieOffset(die(class_idx, idx)), mark) for idx, mark in enumerate(marks)]
    return FoldClass(Vaddr(0x1000 * (class_idx + 1)), 100, tuple(members), flags)


def die(class_idx: int, idx: int) -> int:
    return 0x100 * (class_idx + 1) + idx


def plan(table: IcfTable, *calls: tuple[Node, Node], places: dict[Node, Hashable | None] | None = None) -> Plan:
    """`calls` are pairs of caller and callee; each class has one call site. Each member has a place of its own."""
    rows = [(0x1000 * (caller[0] + 1) + 8, die(*callee), die(*caller)) for caller, callee in calls]
    return make_plan(table, DirectCalls.of(rows), lambda node: (places or {}).get(node, (0, *node)))


def jump(source: Node, target: Node) -> TailCall:
    return TailCall(Vaddr(0x1000 * (source[0] + 1) + 4), MemberRef(*source), MemberRef(*target))


def test_all_but_one_where_a_pointer_leads_to_one() -> None:
    table = IcfTable([fold(0, TAKEN, NONE, VIRTUAL), fold(1, NONE, VIRTUAL), fold(2, NONE, NONE)])
    assert plan(table) == ([(0, 1), (0, 2), (1, 1)], [])


def test_bodies_that_lack_evidence_are_left_and_counted() -> None:
    for missing in (ClassFlag.CALLS_COMPLETE, ClassFlag.ADDRESS_TAKEN_KNOWN, ClassFlag.MEMBERS_COMPLETE):
        lacking = fold(0, NONE, NONE, NONE, flags=KNOWN & ~missing)
        assert plan(IcfTable([lacking])) == ([], []) and lacks_evidence(lacking)
        pointed = fold(0, NONE, TAKEN, NONE, flags=KNOWN & ~missing)
        assert len(plan(IcfTable([pointed])).apart) == 2 and not lacks_evidence(pointed)
    assert not lacks_evidence(fold(0, NONE, NONE)) and not lacks_evidence(fold(0, NONE, flags=ClassFlag.NONE))


def test_two_that_one_function_jumps_to() -> None:
    table = IcfTable(
        [fold(0, NONE, NONE, NONE), fold(1, NONE)],
        [jump((1, 0), (0, 0)), jump((1, 0), (0, 2))._replace(jump=Vaddr(0x2020))],
    )
    assert evidence_sets(table) == {0: {0b101}}
    assert plan(table).apart == [(0, 2)]
    table = IcfTable([fold(0, NONE, NONE), fold(1, NONE)], [jump((1, 0), (0, ALL_MEMBERS))])
    assert plan(table).apart == [(0, 1)]


def test_a_function_in_a_vtable_is_pointed_at() -> None:
    vtables = [Vtable(Vaddr(0x9000), Vaddr(0x9000), (VtableSlot(3, MemberRef(0, ALL_MEMBERS)),))]
    assert evidence_sets(IcfTable([fold(0, NONE, NONE), fold(1, NONE, NONE)], vtables=vtables)) == {0: {0b11}}


def test_callers_differ_by_their_callees() -> None:
    table = IcfTable([fold(0, TAKEN, TAKEN), fold(1, TAKEN, TAKEN)])
    assert plan(table, ((1, 0), (0, 0)), ((1, 1), (0, 1))).apart == [(0, 1)]
    assert plan(table, ((0, 0), (1, 0)), ((0, 1), (1, 1))).apart == [(1, 1)]


def test_members_in_one_place_stay_together() -> None:
    table = IcfTable([fold(0, TAKEN, TAKEN, TAKEN)])
    found = plan(table, places={(0, 0): "a.o", (0, 1): "a.o"})
    assert found.remaining == [((0, 0), (0, 1))] and found.apart == [(0, 2)]


def test_members_without_a_place_stay_and_the_others_leave() -> None:
    table = IcfTable([fold(0, TAKEN, TAKEN, TAKEN)])
    assert plan(table, places={(0, 1): None}) == ([(0, 0), (0, 2)], [])
    found = plan(table, places={(0, 1): None, (0, 2): None})
    assert found.apart == [(0, 0)] and found.remaining == [((0, 1), (0, 2))]


def test_only_what_is_wanted() -> None:
    table = IcfTable([fold(0, TAKEN, TAKEN, TAKEN), fold(1, TAKEN, TAKEN)])
    found = make_plan(
        table, DirectCalls.of(()), lambda node: node, lambda each: [0b101] if each is table.classes[0] else []
    )
    assert found.apart == [(0, 2)]
