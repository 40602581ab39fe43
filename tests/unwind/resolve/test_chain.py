"""The steps of the sweep inwards: what a frame's caller leaves of it, and which steps are one."""

from __future__ import annotations

from icf.model import MemberFlag, MemberRef, Vaddr, Verdict, Vtable, VtableSlot
from tests.unwind.support import MARKED, call, fold, pc, ret
from unwind.process.process import Process
from unwind.program.parts import CallSite, ListedCode, SiteKind, SlotCall
from unwind.program.program import Program
from unwind.resolve.chain import Chains, Step
from unwind.resolve.places import Marked, Places, Sampled
from unwind.symbolize.reasons import ReasonCode

FRAME, CALLER, OUTER = 0, 1, 2  # bodies


class Walk:
    """Steps of one program."""

    def __init__(self, program: Program) -> None:
        process = Process.of(program)
        self.chains = Chains(process, Places(process))

    def to(self, *frames: Sampled, pc: Sampled = None) -> Step:
        """The step of the innermost frame; `frames` outermost first, `pc` after them."""
        step = self.chains.root
        for frame in frames:
            step = self.chains.step(step, frame, is_pc=False)
        return step if pc is None else self.chains.step(step, pc, is_pc=True)


def nested(*, caller_count: int = 2) -> Walk:
    """OUTER calls member 0 of CALLER at its first site, 1 at its second; member i of CALLER calls member i of FRAME."""
    classes = [fold(FRAME, 2), fold(CALLER, caller_count), fold(OUTER, 1)]
    records = [call((CALLER, idx), (FRAME, idx)) for idx in (0, 1)]
    records += [call((OUTER, 0), (CALLER, idx), site=idx) for idx in (0, 1)]
    return Walk(Program(classes, records))


def test_the_caller_leaves_the_candidates_that_it_calls() -> None:
    walk = nested()
    steps = [walk.to(ret(OUTER, site), ret(CALLER), pc=pc(FRAME)) for site in (0, 1)]
    assert [step.possible for step in steps] == [0b01, 0b10]
    assert [step.answer.linkage_name for step in steps] == ["b0m0", "b0m1"]


def test_without_a_caller_all_candidates_are_possible() -> None:
    step = nested().to(pc=pc(FRAME))
    assert (step.possible, step.relation, step.answer.verdict) == (0b11, None, Verdict.AMBIGUOUS)
    assert step.answer.reason is not None and step.answer.reason.code is ReasonCode.NO_CALLER


def test_a_step_that_was_taken_once_is_the_same_again() -> None:
    walk = nested()
    assert walk.to(ret(OUTER), ret(CALLER), pc=pc(FRAME)) is walk.to(ret(OUTER), ret(CALLER), pc=pc(FRAME))


def test_it_depends_on_the_candidates_of_its_caller_and_on_nothing_further_out() -> None:
    classes = [fold(FRAME, 2), fold(CALLER, 2), fold(OUTER, 1)]
    records = [call((OUTER, 0), (CALLER, 0), site) for site in (0, 1)] + [call((CALLER, 0), (FRAME, 1))]
    walk = Walk(Program(classes, records))
    first, second = (walk.to(ret(OUTER, site), ret(CALLER)) for site in (0, 1))
    assert first is not second
    assert walk.to(ret(OUTER, 0), ret(CALLER), pc=pc(FRAME)) is not walk.to(ret(CALLER), pc=pc(FRAME))
    assert walk.chains.step(first, pc(FRAME), True).possible == walk.chains.step(second, pc(FRAME), True).possible
    assert walk.chains.step(first, pc(FRAME), True) is walk.chains.step(second, pc(FRAME), True)


def test_no_caller_changes_a_frame_of_one_function() -> None:
    walk = nested()
    assert walk.to(ret(OUTER)) is walk.to(ret(CALLER), ret(OUTER))


def test_a_step_that_says_something_about_its_caller_is_not_plain() -> None:
    classes, record = [fold(FRAME, 2), fold(CALLER, 2), fold(OUTER, 1)], call((CALLER, 0), (FRAME, 1))
    assert Walk(Program(classes, [record])).to(ret(CALLER), pc=pc(FRAME)).plain  # the other caller has no record
    elsewhere = call((CALLER, 1), (OUTER, 0))
    assert not Walk(Program(classes, [record, elsewhere])).to(ret(CALLER), pc=pc(FRAME)).plain


def test_a_pair_that_nothing_allows_is_cut() -> None:
    walk = Walk(Program([fold(FRAME, 2), fold(CALLER, 1), fold(OUTER, 1)], [call((CALLER, 0), (OUTER, 0))]))
    step = walk.to(ret(CALLER), pc=pc(FRAME))
    assert step.broken and not step.plain and step.possible == 0b11


def test_a_frame_that_has_called_nothing_is_no_caller() -> None:
    walk = nested()
    interrupted = Marked(pc(CALLER), is_exact=True)
    assert walk.to(interrupted, pc=pc(FRAME)) is walk.to(pc=pc(FRAME))


def test_a_frame_outside_of_all_modules_called_through_a_pointer() -> None:
    marks = (MemberFlag.ADDRESS_TAKEN, MemberFlag.NONE)
    walk = Walk(Program([fold(FRAME, 2, MARKED, marks=marks), fold(CALLER, 1)], [call((FRAME, 0), (CALLER, 0))]))
    assert walk.to(None, ret(FRAME)).possible == 0b01
    assert walk.to(None, pc=pc(FRAME)).possible == 0b11  # the caller of the innermost frame may have been missed


def test_the_vtable_pointer_of_its_object_leaves_fewer_and_is_named_as_evidence() -> None:
    tables = [
        Vtable(Vaddr(vptr), Vaddr(vptr - 0x10), (VtableSlot(3, MemberRef(FRAME, idx)),))
        for idx, vptr in enumerate((0x90010, 0x91010))
    ]
    program = Program(
        [fold(FRAME, 2, MARKED, marks=(MemberFlag.VIRTUAL,) * 2), fold(CALLER, 1)],
        code=ListedCode({ret(CALLER): CallSite(SiteKind.INDIRECT)}),
        slot_calls={ret(CALLER): SlotCall(3)},
        vtables=tables,
        pointer_jumps=[],
    )
    walk = Walk(program)
    step = walk.to(ret(CALLER), pc=Marked(pc(FRAME), 0x91010))
    assert (step.possible, step.by_vptr, step.answer.evidence) == (0b10, True, "vptr")
    plain = walk.to(ret(CALLER), pc=pc(FRAME))
    assert (plain.possible, plain.by_vptr) == (0b11, False)


def test_an_address_in_no_function_is_unknown_and_no_caller() -> None:
    walk = nested()
    step = walk.to(0x77777)
    assert step.answer.verdict is Verdict.UNKNOWN and step.body is None
    assert walk.chains.step(step, pc(FRAME), True).possible == 0b11


def test_an_answer_that_frames_further_in_narrow_has_the_evidence_of_that_call() -> None:
    walk = nested()
    inner = walk.to(ret(CALLER), ret(FRAME))
    caller = inner.caller
    assert caller is not None
    answer = walk.chains.answer(caller, 0b10, 0, (inner, 0b10))
    assert (answer.linkage_name, answer.evidence) == ("b1m1", "table")


def test_a_contradiction_lists_all_functions_and_both_addresses() -> None:
    walk = Walk(Program([fold(FRAME, 2), fold(CALLER, 1), fold(OUTER, 1)], [call((CALLER, 0), (OUTER, 0))]))
    step = walk.to(ret(CALLER), pc=pc(FRAME))
    answer = walk.chains.contradiction(step, step, step.possible, None)
    assert (answer.verdict, answer.linkage_names) == (Verdict.CONTRADICTED, ("b0m0", "b0m1"))
    assert str(answer.reason) == f"nothing possible at {ret(CALLER):#x} calls a function at {pc(FRAME):#x}"
