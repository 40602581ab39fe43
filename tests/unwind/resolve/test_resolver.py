"""The resolver on small programs: each test is one way in which a stack tells folded functions apart."""

from __future__ import annotations

import pytest

from icf.model import (
    ALL_MEMBERS,
    ClassFlag,
    DieOffset,
    Evidence,
    FoldClass,
    Member,
    MemberFlag,
    MemberRef,
    PointerJump,
    Vaddr,
    Verdict,
    Vtable,
    VtableSlot,
)
from tests.unwind.support import FRAGMENT, MARKED, call, die, exports, fold, pc, ret, start, tail
from unwind.program.parts import CallRecord, CallSite, Jumps, ListedCode, SiteKind
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.symbolize.answer import Answer

INCOMPLETE = ClassFlag.NONE
NONE, TAKEN = MemberFlag.NONE, MemberFlag.ADDRESS_TAKEN


def resolve(program: Program, *addresses: int | None) -> tuple[Answer, ...]:
    return Resolver(program).resolve(addresses)


def shown(answers: tuple[Answer, ...]) -> list[str]:
    """`b0m0` for a named frame, `verdict:candidates` for others."""
    return [
        answer.linkage_name or ":".join([answer.verdict.value, ",".join(answer.linkage_names)]).rstrip(":")
        for answer in answers
    ]


def direct(target: int) -> CallSite:
    return CallSite(SiteKind.DIRECT, target=target)


def test_a_record_names_the_callee() -> None:
    program = Program([fold(0, 2), fold(1, 1)], [call((1, 0), (0, 1))])
    assert shown(resolve(program, pc(0), ret(1))) == ["b0m1", "b1m0"]
    inner, outer = resolve(program, pc(0), ret(1))
    assert (inner.verdict, inner.evidence, inner.linkage_names) == (Verdict.UNIQUE, "table", ())
    assert (outer.verdict, outer.evidence) == (Verdict.UNMERGED, "")


def test_a_record_of_an_unmerged_caller_holds_whatever_die_names_the_caller() -> None:
    record = CallRecord(ret(1), DieOffset(0x77777), die(0, 1), Evidence.OBJECT)
    assert resolve(Program([fold(0, 2), fold(1, 1)], [record]), pc(0), ret(1))[0].evidence == "object"


def test_a_record_without_a_caller_does_not_decide_for_a_merged_one() -> None:
    record = CallRecord(ret(1), DieOffset(0), die(0, 1))
    assert shown(resolve(Program([fold(0, 2), fold(1, 2)], [record]), pc(0), ret(1)))[0] == "ambiguous:b0m0,b0m1"


def test_without_a_caller_every_member_is_possible() -> None:
    program = Program([fold(0, 2), fold(1, 1)], [call((1, 0), (0, 1))])
    assert shown(resolve(program, pc(0))) == ["ambiguous:b0m0,b0m1"]
    assert shown(resolve(program, pc(0), None, ret(1))) == ["ambiguous:b0m0,b0m1", "unknown", "b1m0"]
    assert str(resolve(program, pc(0))[0].reason) == "its caller is not known"


def test_nested_merged_callers_are_told_apart_by_the_outermost() -> None:
    # A -> B and C -> D with A = C and B = D, the proposal's example; main calls C
    classes = [fold(0, 2), fold(1, 2), fold(2, 1)]
    records = [call((1, 0), (0, 0)), call((1, 1), (0, 1)), call((2, 0), (1, 1))]
    program = Program(classes, records)
    assert shown(resolve(program, pc(0), ret(1), ret(2))) == ["b0m1", "b1m1", "b2m0"]
    assert shown(resolve(program, pc(0), ret(1))) == ["ambiguous:b0m0,b0m1", "ambiguous:b1m0,b1m1"]
    assert str(resolve(program, pc(0), ret(1))[0].reason) == "its caller is one of several"


def test_an_inner_frame_names_its_outer_caller() -> None:
    # b2 is called through a pointer; its members call different members of b1, and only b1m1 calls into b0
    classes = [fold(0, 2), fold(1, 2), fold(2, 2), fold(3, 1)]
    records = [call((1, 1), (0, 1)), call((2, 0), (1, 0)), call((2, 1), (1, 1)), call((1, 0), (3, 0))]
    code = ListedCode({ret(3): CallSite(SiteKind.INDIRECT)}, {start(3): Jumps()})
    answers = resolve(Program(classes, records, code=code), pc(0), ret(1), ret(2), ret(3))
    assert shown(answers) == ["b0m1", "b1m1", "b2m1", "b3m0"]
    assert [answer.evidence for answer in answers] == ["table", "table", "table", ""]


def test_recursion_through_a_merged_function() -> None:
    classes = [fold(0, 3), fold(1, 1)]
    records = [call((0, 0), (0, 1)), call((0, 1), (0, 2)), call((0, 2), (0, 0)), call((1, 0), (0, 0))]
    answers = resolve(Program(classes, records), pc(0), *[ret(0)] * 7, ret(1))
    assert shown(answers) == [f"b0m{(7 - idx) % 3}" for idx in range(8)] + ["b1m0"]


def test_a_tail_call_leads_on_from_the_recorded_callee() -> None:
    classes = [fold(0, 2), fold(1, 2), fold(2, 1)]
    program = Program(
        classes,
        [call((2, 0), (1, 1))],
        [tail((1, 0), (0, 0)), tail((1, 1), (0, 1))],
        ListedCode(jumps={start(1): Jumps(((start(1) + 0x800, start(0)),))}),
    )
    assert shown(resolve(program, pc(0), ret(2))) == ["b0m1", "b2m0"]


def test_a_tail_call_of_every_member_to_any_member_leaves_all_of_them() -> None:
    classes = [fold(0, 3), fold(1, 2), fold(2, 1)]
    tails = [tail((1, ALL_MEMBERS), (0, ALL_MEMBERS)), tail((0, ALL_MEMBERS), (0, ALL_MEMBERS), 0x900)]
    program = Program(classes, [call((2, 0), (1, 1))], tails)
    assert shown(resolve(program, pc(0), ret(2))) == ["ambiguous:b0m0,b0m1,b0m2", "b2m0"]
    assert shown(resolve(program, pc(1), ret(2))) == ["b1m1", "b2m0"]


def test_tail_calls_in_a_circle_end() -> None:
    classes = [fold(0, 2), fold(1, 2), fold(2, 1)]
    tails = [tail((0, 0), (1, 0)), tail((1, 0), (0, 0)), tail((0, 0), (0, 0))]
    assert shown(resolve(Program(classes, [call((2, 0), (0, 0))], tails), pc(1), ret(2)))[0] == "b1m0"


def test_a_circle_of_one_body_gives_both_members() -> None:
    tails = [tail((0, 0), (0, 1)), tail((0, 1), (0, 0))]
    answers = resolve(Program([fold(0, 3), fold(1, 1)], [call((1, 0), (0, 0))], tails), pc(0), ret(1))
    assert shown(answers)[0] == "narrowed:b0m0,b0m1"
    assert answers[0].evidence == "table"


def test_an_outlined_part_belongs_to_the_recorded_callee() -> None:
    dies = [die(0, 0), die(0, 1)]
    classes = [fold(0, 2), fold(1, 2, FRAGMENT | ClassFlag.MEMBERS_COMPLETE, dies), fold(2, 1)]
    program = Program(classes, [call((2, 0), (0, 1)), CallRecord(ret(1), dies[1], die(0, 0))])
    assert shown(resolve(program, pc(1), ret(2))) == ["b1m1", "b2m0"]
    # and it makes calls like the function itself
    assert shown(resolve(program, pc(0), ret(1), ret(2))) == ["b0m0", "b1m1", "b2m0"]


def test_an_unrecorded_jump_leaves_all_members_of_where_it_lands() -> None:
    classes = [fold(0, 2), fold(1, 1), fold(2, 1)]
    jumps = {start(1): Jumps(((start(1) + 0x800, start(0)),))}
    program = Program(classes, [call((2, 0), (1, 0))], code=ListedCode(jumps=jumps))
    assert shown(resolve(program, pc(0), ret(2)))[0] == "ambiguous:b0m0,b0m1"


def test_an_indirect_jump_of_the_callee_leaves_all_members() -> None:
    classes = [fold(0, 2), fold(1, 2), fold(2, 1)]
    program = Program(classes, [call((2, 0), (1, 0))], code=ListedCode(jumps={start(1): Jumps(indirect=True)}))
    assert shown(resolve(program, pc(0), ret(2)))[0] == "ambiguous:b0m0,b0m1"


def test_a_reason_says_what_is_open() -> None:
    # main, which is not merged, calls b0m0; it ends in a jump through slot 0 of a vtable, which the body itself is in
    both = Vtable(Vaddr(0x90010), Vaddr(0x90000), (VtableSlot(0, MemberRef(0, ALL_MEMBERS)),))
    classes = [fold(0, 2, MARKED, marks=[MemberFlag.VIRTUAL] * 2), fold(1, 2), fold(2, 1)]
    code = ListedCode(jumps={start(0): Jumps(indirect=True)})
    jumps = [PointerJump(Vaddr(start(0) + 0x800), 0)]
    records = [call((2, 0), (0, 0)), call((2, 0), (1, 0), 1), call((2, 0), (1, 1), 1)]
    program = Program(classes, records, code=code, vtables=[both], pointer_jumps=jumps)
    inner = resolve(program, pc(0), ret(2))[0]
    assert (inner.verdict, str(inner.reason)) == (
        Verdict.AMBIGUOUS,
        f"what its caller calls there may jump through a pointer to the body at {start(0):#x}",
    )
    assert str(resolve(program, pc(1), ret(2, 1))[0].reason) == "its caller may call several of them there"
    anywhere = Program(classes, records, code=code)
    assert (
        str(resolve(anywhere, pc(0), ret(2))[0].reason)
        == "what its caller calls there leaves by a jump that no table lists"
    )
    ways = Program(classes, records[:1], [tail((0, 0), (0, 1))])
    assert str(resolve(ways, pc(0), ret(2))[0].reason) == "what its caller calls there may jump to several of them"


@pytest.mark.parametrize(("symbol", "verdict"), [("qsort", Verdict.AMBIGUOUS), ("free", Verdict.UNIQUE)])
def test_a_jump_to_another_module_may_come_back_unless_it_is_known_not_to(symbol: str, verdict: Verdict) -> None:
    marked = fold(1, 2, MARKED, marks=[NONE, TAKEN])
    code = ListedCode(jumps={start(1): Jumps(imports=((start(1) + 8, symbol),))})
    program = Program([marked, fold(2, 1)], [call((2, 0), (1, 0))], code=code)
    assert Resolver(program).resolve((pc(1), ret(2)))[0].verdict is verdict


def test_a_callee_that_cannot_get_there_is_a_contradiction() -> None:
    classes = [fold(0, 2), fold(1, 2), fold(2, 1), fold(3, 2), fold(4, 1)]
    records = [call((2, 0), (1, 0)), call((2, 0), (3, 1), 1), call((3, 1), (1, 1)), call((4, 0), (3, 1))]
    program = Program(classes, records, code=ListedCode(jumps={start(1): Jumps()}))
    answers = resolve(program, pc(0), ret(2), ret(3), ret(4))
    assert shown(answers) == ["contradicted:b0m0,b0m1", "b2m0", "b3m1", "b4m0"]
    assert str(answers[0].reason) == f"nothing possible at {ret(2):#x} calls a function at {pc(0):#x}"


def test_the_stack_is_resolved_on_both_sides_of_a_broken_pair() -> None:
    # frames: b0 <- b1 | b2 <- b3 <- main; b2's only call goes to b4, so the pair (b1, b2) is broken
    classes = [fold(0, 2), fold(1, 2), fold(2, 2), fold(3, 2), fold(4, 1), fold(5, 1)]
    records = [
        *(call((1, member), (0, member)) for member in range(2)),
        *(call((2, member), (4, 0)) for member in range(2)),
        *(call((3, member), (2, member)) for member in range(2)),
        call((5, 0), (3, 1)),
    ]
    program = Program(classes, records, code=ListedCode(jumps={start(4): Jumps()}))
    assert shown(resolve(program, pc(0), ret(1), ret(2), ret(3), ret(5))) == [
        "ambiguous:b0m0,b0m1",
        "contradicted:b1m0,b1m1",
        "contradicted:b2m0,b2m1",
        "b3m1",
        "b5m0",
    ]


def test_a_direct_call_without_a_record_leaves_all_members() -> None:
    code = ListedCode({ret(1): direct(start(0))})
    answers = resolve(Program([fold(0, 2), fold(1, 1)], code=code), pc(0), ret(1))
    assert shown(answers)[0] == "ambiguous:b0m0,b0m1"
    assert str(answers[0].reason) == f"no record of the direct call before {ret(1):#x}"


def test_a_direct_call_elsewhere_is_followed_through_recorded_tail_calls() -> None:
    classes = [fold(0, 3), fold(1, 2), fold(2, 1)]
    jump = (start(1) + 0x800, start(0))
    tails = [tail((1, 0), (0, 0)), tail((1, 1), (0, 1))]
    code = ListedCode({ret(2): direct(start(1))}, {start(1): Jumps((jump,)), start(0): Jumps()})
    answers = resolve(Program(classes, tail_calls=tails, code=code), pc(0), ret(2))
    assert shown(answers)[0] == "narrowed:b0m0,b0m1"
    assert answers[0].evidence == "decoded"
    unsure = Program(classes, tail_calls=tails[:1], code=code)
    assert shown(resolve(unsure, pc(0), ret(2)))[0] == "ambiguous:b0m0,b0m1,b0m2"
    elsewhere = Program(classes, code=ListedCode({ret(2): direct(start(1))}, {start(1): Jumps()}))
    assert shown(resolve(elsewhere, pc(0), ret(2)))[0] == "contradicted:b0m0,b0m1,b0m2"


def test_an_indirect_call_leaves_all_members() -> None:
    code = ListedCode({ret(1): CallSite(SiteKind.INDIRECT)})
    answers = resolve(Program([fold(0, 2), fold(1, 1)], code=code), pc(0), ret(1))
    assert (shown(answers)[0], str(answers[0].reason)) == (
        "ambiguous:b0m0,b0m1",
        f"indirect call before {ret(1):#x}",
    )


def test_an_indirect_call_leads_to_marked_members_only() -> None:
    code = ListedCode({ret(1): CallSite(SiteKind.INDIRECT)})
    for mark in (TAKEN, MemberFlag.VIRTUAL):
        classes = [fold(0, 3, MARKED, marks=[NONE, mark, NONE]), fold(1, 1)]
        answers = resolve(Program(classes, code=code), pc(0), ret(1))
        assert shown(answers)[0] == "b0m1"
        assert answers[0].evidence == "decoded"
    classes = [fold(0, 3, MARKED, marks=[NONE, TAKEN, TAKEN]), fold(1, 1)]
    answers = resolve(Program(classes, code=code), pc(0), ret(1))
    assert shown(answers)[0] == "narrowed:b0m1,b0m2"
    assert (answers[0].evidence, str(answers[0].reason)) == ("decoded", f"indirect call before {ret(1):#x}")
    unmarked = Program([fold(0, 2, MARKED), fold(1, 1)], code=code)
    assert shown(resolve(unmarked, pc(0), ret(1)))[0] == "contradicted:b0m0,b0m1"


def test_a_frame_outside_of_the_image_has_called_through_a_pointer() -> None:
    classes = [fold(0, 3, MARKED, marks=[NONE, TAKEN, NONE]), fold(1, 3), fold(2, 2, MARKED), fold(3, 1)]
    program = Program(classes)
    answers = resolve(program, pc(3), ret(0), None, ret(3))
    assert shown(answers) == ["b3m0", "b0m1", "unknown", "b3m0"]
    assert answers[1].evidence == "decoded"
    assert shown(resolve(program, pc(3), ret(1), None))[1] == "ambiguous:b1m0,b1m1,b1m2"  # nothing known of its marks
    assert shown(resolve(program, pc(3), ret(2), None))[1] == "ambiguous:b2m0,b2m1"  # it may be no call at all
    assert shown(resolve(program, pc(0), None))[0] == "ambiguous:b0m0,b0m1,b0m2"  # its caller may be lost
    assert shown(resolve(program, pc(3), ret(0)))[1] == "ambiguous:b0m0,b0m1,b0m2"  # the stack may be cut off
    # what it called decides with it
    records = [call((0, 1), (2, 1)), call((0, 2), (2, 0))]
    assert shown(resolve(Program(classes, records), pc(2), ret(0), None)) == ["b2m1", "b0m1", "unknown"]


def test_a_marked_function_may_jump_on() -> None:
    code = ListedCode({ret(2): CallSite(SiteKind.INDIRECT)})
    classes = [fold(0, 3, MARKED, marks=[NONE, NONE, TAKEN]), fold(1, 1, MARKED, marks=[TAKEN]), fold(2, 1, MARKED)]
    assert shown(resolve(Program(classes, code=code), pc(0), ret(2)))[0] == "b0m2"
    jumping = Program(classes, tail_calls=[tail((1, 0), (0, 0))], code=code)
    assert shown(resolve(jumping, pc(0), ret(2)))[0] == "narrowed:b0m0,b0m2"
    from_caller = Program(classes, tail_calls=[tail((2, 0), (0, 0))], code=code)  # which no pointer leads to
    assert shown(resolve(from_caller, pc(0), ret(2)))[0] == "b0m2"


def test_an_unlisted_function_may_jump_wherever_the_listed_ones_do() -> None:
    code = ListedCode({ret(2): CallSite(SiteKind.INDIRECT)})
    open_class = fold(1, 2, ClassFlag.ADDRESS_TAKEN_KNOWN)
    classes = [fold(0, 3, MARKED, marks=[NONE, NONE, TAKEN]), open_class, fold(2, 1, MARKED)]
    program = Program(classes, tail_calls=[tail((1, 0), (0, 0))], code=code)
    assert shown(resolve(program, pc(0), ret(2)))[0] == "ambiguous:b0m0,b0m1,b0m2"
    # and it can be what the pointer leads to
    program = Program(
        [fold(0, 2, ClassFlag.ADDRESS_TAKEN_KNOWN, marks=[TAKEN, NONE]), fold(1, 1)],
        code=ListedCode({ret(1): CallSite(SiteKind.INDIRECT)}),
    )
    assert shown(resolve(program, pc(0), ret(1)))[0] == "narrowed:b0m0"


def test_a_call_through_the_plt_means_the_symbol_it_names() -> None:
    code = ListedCode({ret(1): CallSite(SiteKind.IMPORT, symbol="b0m1"), ret(1, 1): CallSite(SiteKind.IMPORT)})
    program = Program([fold(0, 2), fold(1, 1)], code=code, exports=exports(fold(0, 2)))
    assert shown(resolve(program, pc(0), ret(1)))[0] == "b0m1"
    assert shown(resolve(program, pc(0), ret(1, 1)))[0] == "ambiguous:b0m0,b0m1"
    # a function of that name which is not exported is not the one that the loader binds
    assert shown(resolve(Program([fold(0, 2), fold(1, 1)], code=code), pc(0), ret(1)))[0] == "ambiguous:b0m0,b0m1"


def test_no_call_before_the_return_address_means_nothing_is_known() -> None:
    code = ListedCode({ret(1): CallSite(SiteKind.NONE)})
    assert shown(resolve(Program([fold(0, 2), fold(1, 1)], code=code), pc(0), ret(1)))[0] == "ambiguous:b0m0,b0m1"


def test_an_unlisted_function_may_be_the_one_that_is_left() -> None:
    # of the caller's members, both listed ones call b0m0; a third that no table lists may call b0m1
    records = [call((1, 0), (0, 0)), call((1, 1), (0, 0))]
    complete = Program([fold(0, 2), fold(1, 2)], records)
    assert shown(resolve(complete, pc(0), ret(1)))[0] == "b0m0"
    incomplete = Program([fold(0, 2), fold(1, 2, INCOMPLETE)], records)
    assert shown(resolve(incomplete, pc(0), ret(1)))[0] == "ambiguous:b0m0,b0m1"


def test_elimination_alone_does_not_name_a_member_of_an_incomplete_class() -> None:
    records = [call((1, 0), (3, 0)), call((1, 1), (0, 0))]  # b1m0 calls elsewhere, so b1m1 is left
    code = ListedCode(jumps={start(3): Jumps()})
    for flags, expected in ((ClassFlag.MEMBERS_COMPLETE, "b1m1"), (INCOMPLETE, "narrowed:b1m1")):
        program = Program([fold(0, 2), fold(1, 2, flags), fold(2, 1), fold(3, 1)], records, code=code)
        answers = resolve(program, pc(0), ret(1), ret(2))
        assert shown(answers)[1] == expected
    assert str(answers[1].reason) == "functions that nothing names may share the body at 0x2000"


def test_clones_of_a_function_are_that_function() -> None:
    for names, expected in (
        (("_ZN1aC1Ev", "_ZN1aC2Ev.constprop.0"), "_ZN1aC1Ev"),
        (("_Z1fv.isra.0", "_Z1fv.constprop.0"), "_Z1fv"),
        (("_Z1fv", "_Z1gv.constprop.0"), "ambiguous:_Z1fv,_Z1gv.constprop.0"),
        (("_ZN1aD0Ev", "_ZN1aD1Ev"), "ambiguous:_ZN1aD0Ev,_ZN1aD1Ev"),
    ):
        members = tuple(Member(name, die(0, idx)) for idx, name in enumerate(names))
        merged = fold(0, 2)._replace(members=members)
        assert shown(resolve(Program([merged, fold(1, 1)]), pc(0), ret(1)))[0] == expected


def test_a_positive_record_names_a_member_of_an_incomplete_class() -> None:
    program = Program([fold(0, 2, INCOMPLETE), fold(1, 1)], [call((1, 0), (0, 1))])
    assert shown(resolve(program, pc(0), ret(1)))[0] == "b0m1"


def test_the_weakest_evidence_of_several_callers_is_named() -> None:
    records = [
        CallRecord(ret(1), die(1, 0), die(0, 0), Evidence.RELOCATION),
        CallRecord(ret(1), die(1, 1), die(0, 0), Evidence.ALIGNED),
    ]
    assert resolve(Program([fold(0, 2), fold(1, 2)], records), pc(0), ret(1))[0].evidence == "aligned"


def test_frames_outside_and_in_no_function_are_unknown() -> None:
    answers = resolve(Program([fold(0, 1)]), None, 0x999999, 0)
    assert shown(answers) == ["unknown"] * 3
    assert [answer.address for answer in answers] == [None, 0x999999, 0]
    assert [str(answer.reason) for answer in answers[:2]] == ["outside of the image", "in no function of the image"]
    assert resolve(Program()) == ()


def test_a_return_address_after_the_last_instruction_belongs_to_the_caller() -> None:
    program = Program([fold(0, 1), fold(1, 1)])
    assert shown(resolve(program, pc(0), start(1))) == ["b0m0", "b0m0"]
    assert shown(resolve(program, start(1), start(2))) == ["b1m0", "b1m0"]


def test_a_function_interrupted_at_its_first_instruction_is_looked_up_there() -> None:
    code = ListedCode({start(1): CallSite(SiteKind.NONE)})
    assert shown(resolve(Program([fold(0, 1), fold(1, 1)], code=code), pc(0), start(1))) == ["b0m0", "b1m0"]


def test_functions_of_one_name_have_that_name_though_which_one_is_open() -> None:
    pair = fold(0, 2)
    for flags, verdict in ((pair.flags, Verdict.UNIQUE), (INCOMPLETE, Verdict.AMBIGUOUS)):
        twins = FoldClass(pair.vaddr, pair.size_bytes, (pair.members[0], pair.members[0]), flags)
        (answer,) = resolve(Program([twins]), pc(0))
        assert (answer.verdict, answer.member_idx) == (verdict, -1)
        assert (answer.linkage_name or answer.linkage_names) in ("b0m0", ("b0m0",))


def test_answers_are_remembered_and_bounded() -> None:
    program = Program([fold(0, 2), fold(1, 1)], [call((1, 0), (0, 1))])
    resolver = Resolver(program, step_limit=2, address_limit=8)
    first = resolver.resolve((pc(0), ret(1)))
    assert resolver.resolve((pc(0), ret(1))) is first
    resolver.resolve((pc(0), ret(1), None, None))
    again = resolver.resolve((pc(0), ret(1)))
    assert shown(again) == shown(first)
    assert shown(resolver.resolve((None,))) == ["unknown"]
