"""Each rule by which a return address relates the members of a caller's body to those of its callee's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from icf.model import (
    ANY_POINTER,
    DieOffset,
    Evidence,
    FoldClass,
    MemberFlag,
    MemberRef,
    PointerJump,
    Vaddr,
    Vtable,
    VtableSlot,
)
from tests.unwind.support import MARKED, call, die, exports, fold, pc, ret, start, tail
from unwind.program.parts import CallRecord, CallSite, Jumps, ListedCode, ListedRecords, SiteKind, SlotCall
from unwind.program.program import Program
from unwind.resolve.callee import Callee
from unwind.resolve.reasons import NO_CALLER
from unwind.resolve.relations import FOREIGN, Group, Relation, Relations
from unwind.resolve.resolver import Resolver
from unwind.symbolize.reasons import ReasonCode

FRAME, CALLER, OTHER = 0, 1, 2  # bodies
TAKEN, NONE = MemberFlag.ADDRESS_TAKEN, MemberFlag.NONE


def code(site: CallSite | None = None, **jumps_of: Jumps) -> ListedCode:
    """The instruction before the caller's return address, and jumps by `bN`."""
    return ListedCode({ret(CALLER): site} if site else {}, {start(int(at[1:])): it for at, it in jumps_of.items()})


def related(program: Program, *, vptr: int = 0) -> Relation:
    frame = Callee(program.bodies[FRAME], vptr)
    return Relations().between(ret(CALLER), program.bodies[CALLER], frame)


def direct(body: int) -> CallSite:
    return CallSite(SiteKind.DIRECT, target=start(body))


def groups(relation: Relation) -> set[tuple[int, int, Evidence | None]]:
    return {(group.callers, group.allowed, group.evidence) for group in relation.groups}


def open_because(relation: Relation) -> ReasonCode | None:
    why = relation.why_open(0b11)
    return why.code if why else None


def test_each_recorded_caller_has_its_own_callee() -> None:
    records = [call((CALLER, 0), (FRAME, 1)), call((CALLER, 1), (FRAME, 0))]
    relation = related(Program([fold(FRAME, 2), fold(CALLER, 2)], records))
    assert groups(relation) == {(0b01, 0b10, Evidence.TABLE), (0b10, 0b01, Evidence.TABLE)}
    assert open_because(relation) is None


def test_callers_that_allow_the_same_are_one_group() -> None:
    records = [call((CALLER, 0), (FRAME, 1)), call((CALLER, 1), (FRAME, 1))]
    assert groups(related(Program([fold(FRAME, 2), fold(CALLER, 2)], records))) == {(0b11, 0b10, Evidence.TABLE)}


def test_a_recorded_callee_that_cannot_reach_the_frame_allows_nothing() -> None:
    program = Program([fold(FRAME, 2), fold(CALLER, 1), fold(OTHER, 1)], [call((CALLER, 0), (OTHER, 0))])
    assert groups(related(program)) == {(1, 0, Evidence.TABLE)}


def test_a_recorded_callee_leads_on_by_a_recorded_tail_call() -> None:
    classes = [fold(FRAME, 2), fold(CALLER, 1), fold(OTHER, 2)]
    program = Program(
        classes, [call((CALLER, 0), (OTHER, 1))], [tail((OTHER, 0), (FRAME, 0)), tail((OTHER, 1), (FRAME, 1))]
    )
    assert groups(related(program)) == {(1, 0b10, Evidence.TABLE)}


def test_several_recorded_callees_leave_several() -> None:
    records = [call((CALLER, 0), (FRAME, idx)) for idx in (0, 1)]
    relation = related(Program([fold(FRAME, 3), fold(CALLER, 1)], records))
    assert groups(relation) == {(1, 0b011, Evidence.TABLE)}
    assert open_because(relation) is ReasonCode.SEVERAL_CALLEES


def test_a_direct_call_without_a_record_allows_all_members_of_its_target() -> None:
    relation = related(Program([fold(FRAME, 2), fold(CALLER, 1)], code=code(direct(FRAME))))
    assert groups(relation) == {(1, 0b11, None)}
    assert open_because(relation) is ReasonCode.NO_RECORD


def test_a_direct_call_of_another_body_allows_what_jumps_from_there_reach() -> None:
    classes = [fold(FRAME, 2), fold(CALLER, 1), fold(OTHER, 1)]
    assert groups(related(Program(classes, [], [tail((OTHER, 0), (FRAME, 1))], code(direct(OTHER))))) == {
        (1, 0b10, Evidence.DECODED)
    }
    assert groups(related(Program(classes, code=code(direct(OTHER))))) == {(1, 0, Evidence.DECODED)}


def test_a_direct_call_into_the_middle_of_a_function_says_nothing() -> None:
    site = CallSite(SiteKind.DIRECT, target=start(OTHER) + 4)
    assert groups(related(Program([fold(FRAME, 2), fold(CALLER, 1), fold(OTHER, 1)], code=code(site)))) == {
        (1, 0b11, None)
    }


def test_a_call_by_a_name_allows_the_function_of_that_name() -> None:
    classes = [fold(FRAME, 2), fold(CALLER, 1)]
    site = CallSite(SiteKind.IMPORT, symbol="b0m1")
    assert groups(related(Program(classes, code=code(site), exports=exports(*classes)))) == {
        (1, 0b10, Evidence.DECODED)
    }


def test_a_call_by_a_name_that_leads_elsewhere_is_answered_by_an_unknown_module() -> None:
    classes = [fold(FRAME, 2), fold(CALLER, 1), fold(OTHER, 1)]
    for symbol in ("b2m0", "elsewhere"):
        relation = related(
            Program(classes, code=code(CallSite(SiteKind.IMPORT, symbol=symbol)), exports=exports(*classes))
        )
        assert groups(relation) == {(1, 0b11, None)}
        assert open_because(relation) is ReasonCode.IMPORT_CALL


def marked(*marks: MemberFlag) -> FoldClass:
    return fold(FRAME, len(marks), MARKED, marks=marks)


def test_an_indirect_call_allows_members_whose_address_is_taken() -> None:
    site = CallSite(SiteKind.INDIRECT)
    relation = related(Program([marked(TAKEN, NONE, TAKEN), fold(CALLER, 1)], code=code(site)))
    assert groups(relation) == {(1, 0b101, Evidence.DECODED)}
    assert open_because(relation) is ReasonCode.INDIRECT_CALL


def vtable(vaddr: int, **slots: int) -> Vtable:
    """A table of its own group with members of the frame's body, `s0=1`: member 1 is in slot 0."""
    listed = tuple(VtableSlot(int(slot[1:]), MemberRef(FRAME, idx)) for slot, idx in slots.items())
    return Vtable(Vaddr(vaddr), Vaddr(vaddr - 0x10), listed)


def virtual(*, vptr: int = 0) -> Relation:
    """The caller calls by slot 3; two tables have members there, a third has one in slot 4."""
    program = Program(
        [marked(*(MemberFlag.VIRTUAL,) * 3), fold(CALLER, 1)],
        code=code(CallSite(SiteKind.INDIRECT)),
        slot_calls={ret(CALLER): SlotCall(3)},
        vtables=[vtable(0x90010, s3=0), vtable(0x91010, s3=1), vtable(0x92010, s4=2)],
        pointer_jumps=[],
    )
    return related(program, vptr=vptr)


def test_a_call_by_a_slot_allows_what_stands_there_in_some_vtable() -> None:
    assert groups(virtual()) == {(1, 0b011, Evidence.TABLE)}
    assert open_because(virtual()) is ReasonCode.VIRTUAL_CALL


def test_the_vtable_pointer_of_the_object_leaves_what_stands_there_in_its_vtable() -> None:
    assert groups(virtual(vptr=0x91010)) == {(1, 0b010, Evidence.TABLE)}


def test_a_vtable_pointer_that_leaves_nothing_counts_as_none() -> None:
    assert groups(virtual(vptr=0x92010)) == groups(virtual())


@pytest.mark.parametrize(
    ("kind", "code_of_reason"), [(SiteKind.NONE, ReasonCode.NO_CALL), (SiteKind.UNKNOWN, ReasonCode.UNREADABLE)]
)
def test_what_is_no_call_says_nothing(kind: SiteKind, code_of_reason: ReasonCode) -> None:
    relation = related(Program([marked(TAKEN, NONE), fold(CALLER, 1)], code=code(CallSite(kind))))
    assert groups(relation) == {(1, 0b11, None)}
    assert open_because(relation) is code_of_reason


def test_a_record_of_one_caller_leaves_the_others_to_the_code() -> None:
    program = Program([fold(FRAME, 2), fold(CALLER, 2)], [call((CALLER, 1), (FRAME, 1))], code=code(direct(FRAME)))
    relation = related(program)
    assert groups(relation) == {(0b10, 0b10, Evidence.TABLE), (0b01, 0b11, None)}


def jumping(jumps: Jumps, pointer_jumps: Sequence[PointerJump] | None = None) -> Relation:
    """The recorded callee is in OTHER, which jumps so; of the frame's members the address of 0 is taken."""
    classes = [marked(TAKEN, NONE, NONE), fold(CALLER, 1), fold(OTHER, 1)]
    tails = [tail((OTHER, 0), (FRAME, 1))]
    return related(
        Program(classes, [call((CALLER, 0), (OTHER, 0))], tails, code(b2=jumps), pointer_jumps=pointer_jumps)
    )


def test_a_callee_that_may_leave_anywhere_also_leads_to_what_a_pointer_may() -> None:
    relation = jumping(Jumps(indirect=True))
    assert groups(relation) == {(1, 0b011, Evidence.DECODED)}
    assert open_because(relation) is ReasonCode.JUMP_TO_ANYWHERE


def test_a_listed_jump_through_a_pointer_does_so_too() -> None:
    relation = jumping(Jumps(indirect=True), [PointerJump(Vaddr(start(OTHER) + 0x900), ANY_POINTER)])
    assert groups(relation) == {(1, 0b011, Evidence.DECODED)}
    assert open_because(relation) is ReasonCode.POINTER_JUMP


def test_where_all_jumps_through_pointers_are_listed_another_is_none() -> None:
    assert groups(jumping(Jumps(indirect=True), [])) == {(1, 0b010, Evidence.TABLE)}


def test_a_frame_in_no_known_module_had_a_pointer() -> None:
    program = Program([marked(TAKEN, NONE)])
    relation = Relations().from_outside(Callee(program.bodies[FRAME]))
    assert relation is not None
    assert groups(relation) == {(FOREIGN, 0b01, Evidence.DECODED)}
    assert Relations().from_outside(Callee(Program([fold(FRAME, 2)]).bodies[FRAME])) is None  # any member may be it


def test_a_callee_that_no_class_lists_leaves_the_call_to_the_code() -> None:
    record = CallRecord(ret(CALLER), call((CALLER, 0), (FRAME, 0)).caller, call((9, 0), (9, 0)).callee)
    program = Program([fold(FRAME, 2), fold(CALLER, 1)], [record], code=code(direct(FRAME)))
    assert groups(related(program)) == {(1, 0b11, None)}


RELATION = Relation((Group(0b001, 0b01, Evidence.TABLE), Group(0b010, 0b10, Evidence.DECODED), Group(0b100, 0, None)))


def test_forward_joins_what_the_callers_allow() -> None:
    assert [RELATION.forward(callers) for callers in (0b001, 0b010, 0b011, 0b100)] == [0b01, 0b10, 0b11, 0]


def test_backward_keeps_callers_that_allow_a_callee() -> None:
    assert [RELATION.backward(0b111, callees) for callees in (0b01, 0b10, 0b11)] == [0b001, 0b010, 0b011]
    assert RELATION.backward(0b110, 0b01) == 0


def test_the_evidence_of_sets_is_the_weakest_of_a_pair() -> None:
    assert RELATION.evidence(0b011, 0b11) is Evidence.DECODED
    assert Relation(RELATION.groups[::-1]).evidence(0b011, 0b11) is Evidence.DECODED
    assert RELATION.evidence(0b011, 0b01) is Evidence.TABLE
    assert RELATION.evidence(0b100, 0b11) is None


def test_of_many_groups_one_caller_has_what_all_groups_say() -> None:
    choose = random.Random(4)
    evidence = (None, Evidence.DWARF, Evidence.RELOCATION)
    groups = tuple(Group(1 << idx, choose.getrandbits(30), choose.choice(evidence), NO_CALLER) for idx in range(60))
    relation = Relation(groups[:50])
    for _ in range(300):
        callers, callees = choose.choice((1 << choose.randrange(60), choose.getrandbits(60))), choose.getrandbits(3)
        met = [group for group in relation.groups if group.callers & callers]
        forward = backward = 0
        for group in met:
            forward |= group.allowed
            backward |= group.callers if group.allowed & callees else 0
        assert (relation.forward(callers), relation.backward(callers, callees)) == (forward, backward)
        stated = [each.evidence for each in met if each.allowed & callees and each.evidence is not None]
        assert relation.evidence(callers, callees) == (max(stated) if stated else None)
        assert relation.why_open(callers) == (NO_CALLER if any(each.allowed.bit_count() > 1 for each in met) else None)


def test_the_records_of_a_call_are_read_once_for_all_members_of_its_body() -> None:
    count = 600
    first, second = DieOffset(100_000), DieOffset(200_000)
    classes = [
        fold(0, count, dies=range(first, first + count)),
        fold(1, count, dies=range(second, second + count)),
        fold(2, 1),
    ]
    inner = [CallRecord(ret(1), DieOffset(second + idx), DieOffset(first + idx)) for idx in range(count)]
    outer = [CallRecord(start(2) + 1 + idx, die(2, 0), DieOffset(second + idx)) for idx in range(count)]
    records = CountedRecords([*inner, *outer])
    resolver = Resolver(Program(classes, records))
    for idx in range(count):
        steps = resolver.steps((pc(0), ret(1), start(2) + 1 + idx))
        assert steps[0].answer.linkage_name == f"b0m{idx}"
    assert records.asked[ret(1)] < 5


class CountedRecords(ListedRecords):
    def __init__(self, records: Iterable[CallRecord]) -> None:
        super().__init__(records)
        self.asked: Counter[int] = Counter()

    def at(self, return_address: int) -> Sequence[CallRecord]:
        self.asked[return_address] += 1
        return super().at(return_address)
