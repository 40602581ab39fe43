"""Stacks that lack frames: what a frame can be if others are missing between it and its caller."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from icf.model import ANY_POINTER, FoldClass, MemberFlag, PointerJump, Vaddr, Verdict
from tests.unwind.support import MARKED, call, fold, pc, ret, start, tail
from unwind.program.parts import CallRecord, CallSite, Jumps, ListedCode, SiteKind
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import Losses
from unwind.symbolize.answer import Answer
from unwind.symbolize.reasons import ReasonCode

FRAME, CALLER, LOST, OTHER, LAST = range(5)  # bodies; `ret` is the address after the only call of one
TAKEN, NONE = MemberFlag.ADDRESS_TAKEN, MemberFlag.NONE
INDIRECT = CallSite(SiteKind.INDIRECT)


def to(body: int) -> CallSite:
    return CallSite(SiteKind.DIRECT, target=start(body))


def program(
    calls: Iterable[CallRecord],
    sites: dict[int, CallSite],
    *,
    jumps: dict[int, Jumps] | None = None,
    frame: FoldClass | None = None,
    frameless: Iterable[int] = (),
    tails: Iterable[tuple[tuple[int, int], tuple[int, int]]] = (),
    pointer_jumps: Iterable[PointerJump] = (),
) -> Program:
    """`sites`: the call in each body; `frameless`: bodies that have no frame where they call, or at their beginning."""
    code = ListedCode(
        {ret(body): site for body, site in sites.items()},
        {start(body): each for body, each in (jumps or {}).items()},
        frameless=[*(ret(body) - 1 for body in frameless), *(pc(body) for body in (FRAME, *frameless))],
    )
    classes = [frame or fold(FRAME, 2, MARKED), *(fold(body, 1, MARKED) for body in range(1, LAST + 1))]
    recorded = [tail(*each) for each in tails]
    return Program(classes, list(calls), recorded, code=code, pointer_jumps=list(pointer_jumps))


def inner(program: Program, losses: Losses, *callers: int) -> Answer:
    """The answer for the innermost frame, in FRAME."""
    return Resolver(program, losses=losses).resolve((pc(FRAME), *map(ret, callers)))[0]


LOSSES = pytest.mark.parametrize("losses", [Losses.ANY, Losses.FRAME_POINTERS])


@LOSSES
def test_what_the_lost_function_calls_is_the_answer(losses: Losses) -> None:
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 1)), call((OTHER, 0), (FRAME, 0))]
    found = inner(program(records, {CALLER: to(LOST), LOST: to(FRAME), OTHER: to(FRAME)}), losses, CALLER)
    assert (found.verdict, found.linkage_name) == (Verdict.UNIQUE, "b0m1")


@LOSSES
def test_a_function_that_may_have_called_the_frame_without_a_loss_stays(losses: Losses) -> None:
    # CALLER calls LOST, which calls member 0 and ends with a jump to member 1: with no frame lost it would be member 1
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 0))]
    made = program(records, {CALLER: to(LOST), LOST: to(FRAME)}, tails=[((LOST, 0), (FRAME, 1))])
    assert inner(made, Losses.NONE, CALLER).linkage_name == "b0m1"
    found = inner(made, losses, CALLER)
    assert (found.verdict, found.linkage_names) == (Verdict.AMBIGUOUS, ("b0m0", "b0m1"))
    assert found.reason is not None
    assert found.reason.code is ReasonCode.LOST_CALLER


@LOSSES
def test_the_call_may_lead_to_the_lost_function_by_a_jump(losses: Losses) -> None:
    # CALLER calls OTHER, which jumps to LOST
    records = [call((CALLER, 0), (OTHER, 0)), call((LOST, 0), (FRAME, 1))]
    jumps = {OTHER: Jumps(((start(OTHER) + 1, start(LOST)),))}
    found = inner(program(records, {CALLER: to(OTHER), LOST: to(FRAME)}, jumps=jumps), losses, CALLER)
    assert found.linkage_name == "b0m1"


@LOSSES
def test_a_call_through_a_pointer_may_enter_any_function(losses: Losses) -> None:
    records = [call((LOST, 0), (FRAME, 1))]
    found = inner(program(records, {CALLER: INDIRECT, LOST: to(FRAME)}), losses, CALLER)
    assert (found.verdict, found.linkage_names) == (Verdict.AMBIGUOUS, ("b0m0", "b0m1"))


@LOSSES
def test_a_jump_through_a_pointer_may_enter_any_function(losses: Losses) -> None:
    records = [call((CALLER, 0), (OTHER, 0)), call((LOST, 0), (FRAME, 1))]
    jump = PointerJump(Vaddr(start(OTHER) + 1), ANY_POINTER)
    made = program(records, {CALLER: to(OTHER), LOST: to(FRAME)}, pointer_jumps=[jump])
    assert inner(made, losses, CALLER).verdict is Verdict.AMBIGUOUS


@LOSSES
def test_the_lost_function_may_call_through_a_pointer(losses: Losses) -> None:
    frame = fold(FRAME, 3, MARKED, marks=[NONE, TAKEN, NONE])
    made = program([call((CALLER, 0), (LOST, 0))], {CALLER: to(LOST), LOST: INDIRECT}, frame=frame)
    assert inner(made, losses, CALLER).linkage_name == "b0m1"


def test_one_lost_frame_is_not_two() -> None:
    # CALLER calls LOST, which calls member 0, and OTHER, which has no frame and calls member 1
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (OTHER, 0)), call((OTHER, 0), (FRAME, 1))]
    sites = {CALLER: to(LOST), LOST: to(OTHER), OTHER: to(FRAME)}
    found = inner(program(records, sites), Losses.ANY, CALLER)
    assert found.verdict is Verdict.CONTRADICTED
    found = inner(program(records, sites, frameless=[OTHER]), Losses.FRAME_POINTERS, CALLER)
    assert found.linkage_name == "b0m1"


def test_functions_without_a_frame_may_call_each_other() -> None:
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 0)), call((OTHER, 0), (FRAME, 1))]
    sites = {CALLER: to(LOST), LOST: to(FRAME), OTHER: to(FRAME)}
    assert inner(program(records, sites), Losses.FRAME_POINTERS, CALLER).linkage_name == "b0m0"
    found = inner(program(records, sites, frameless=[OTHER]), Losses.FRAME_POINTERS, CALLER)
    assert (found.verdict, found.linkage_names) == (Verdict.AMBIGUOUS, ("b0m0", "b0m1"))


def test_a_call_without_a_record_that_a_function_without_a_frame_makes() -> None:
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 0))]
    made = program(records, {CALLER: to(LOST), LOST: to(FRAME), OTHER: to(FRAME)}, frameless=[OTHER])
    assert inner(made, Losses.FRAME_POINTERS, CALLER).verdict is Verdict.AMBIGUOUS


def test_a_function_without_a_frame_may_call_one_that_jumps_to_the_frame() -> None:
    # OTHER calls LAST, which jumps to member 1
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 0))]
    sites = {CALLER: to(LOST), LOST: to(FRAME), OTHER: to(LAST)}
    for frameless, verdict in (((), Verdict.UNIQUE), ((OTHER,), Verdict.AMBIGUOUS)):
        made = program(records, sites, frameless=frameless, tails=[((LAST, 0), (FRAME, 1))])
        assert inner(made, Losses.FRAME_POINTERS, CALLER).verdict is verdict


def test_a_frame_pointer_that_is_there_finds_the_caller() -> None:
    # CALLER calls LOST, which calls member 0 and ends with a jump to member 1
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 0))]
    made = program(records, {CALLER: to(LOST), LOST: to(FRAME)}, tails=[((LOST, 0), (FRAME, 1))])
    resolver = Resolver(made, losses=Losses.FRAME_POINTERS)
    for address, verdict in ((pc(FRAME), Verdict.AMBIGUOUS), (pc(FRAME) + 1, Verdict.UNIQUE)):
        assert resolver.resolve((address, ret(CALLER)))[0].verdict is verdict


def test_a_pair_that_fits_with_a_frame_in_between_is_narrowed_at_most() -> None:
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 1)), call((OTHER, 0), (FRAME, 0))]
    made = program(records, {CALLER: to(LOST), LOST: to(FRAME), OTHER: to(FRAME)})
    found = inner(made, Losses.NONE, CALLER)
    assert (found.verdict, found.linkage_name, found.linkage_names) == (Verdict.NARROWED, None, ("b0m1",))
    assert found.reason is not None
    assert found.reason.code is ReasonCode.MISSING_FRAME
    assert str(found.reason) == "a frame of b2m0 is missing between it and its caller"


def test_a_pair_that_fits_without_the_caller_stays_contradicted() -> None:
    # CALLER may be an old return address that lies on the stack: LAST calls member 0
    records = [call((CALLER, 0), (LOST, 0)), call((LOST, 0), (FRAME, 1)), call((LAST, 0), (FRAME, 0))]
    made = program(records, {CALLER: to(LOST), LOST: to(FRAME), LAST: to(FRAME), OTHER: to(CALLER)})
    assert inner(made, Losses.NONE, CALLER, LAST).verdict is Verdict.CONTRADICTED
    assert inner(made, Losses.NONE, CALLER, OTHER).verdict is Verdict.NARROWED


@LOSSES
def test_no_frame_that_tail_calls_left_out_is_shown_where_others_may_be_missing(losses: Losses) -> None:
    records = [call((CALLER, 0), (LOST, 0))]
    jumps = {LOST: Jumps(((start(LOST) + 1, start(OTHER)),))}
    made = program(records, {CALLER: to(LOST)}, jumps=jumps)
    addresses = (pc(OTHER), ret(CALLER))
    assert [each.linkage_name for each in Resolver(made).resolve(addresses)[0].missing] == ["b2m0"]
    assert Resolver(made, losses=Losses.ANY).resolve(addresses)[0].missing == ()
