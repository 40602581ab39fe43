"""What is merged in an image, and what keeps frames of a merged body open."""

from __future__ import annotations

from collections.abc import Sequence

from icf.model import ALL_MEMBERS, ClassFlag, FoldClass, MemberFlag, MemberRef, TailCall
from tests.unwind.support import COMPLETE, MARKED, call, fold, start, tail
from unwind.program.parts import CallRecord
from unwind.program.program import Program
from unwind.report.data import Doubt
from unwind.report.merged import facts_of, merged_bodies

NONE, KEPT, TAKEN = MemberFlag.NONE, MemberFlag.KEPT, MemberFlag.ADDRESS_TAKEN
CALLS = MARKED | ClassFlag.CALLS_COMPLETE


def doubts(
    classes: Sequence[FoldClass], calls: Sequence[CallRecord] = (), tails: Sequence[TailCall] = ()
) -> list[list[Doubt]]:
    return [list(body.doubts) for body in merged_bodies(Program(classes, calls, tails))]


def test_what_merging_saves() -> None:
    program = Program([fold(0, 3, CALLS, marks=[NONE, KEPT, TAKEN]), fold(1, 1), fold(2, 2, COMPLETE)])
    first, second = merged_bodies(program)
    assert [(each.name, each.is_kept, each.is_pointed_at) for each in first.functions] == [
        ("b0m0", False, False),
        ("b0m1", True, False),
        ("b0m2", False, True),
    ]
    assert (first.address, first.size_bytes, first.saved_bytes) == (start(0), 0x1000, 0x2000)
    assert second.functions[0].is_kept  # not known: the first one
    image = facts_of("shop", b"\xab", program, [first, second])
    assert (image.bodies, image.functions, image.saved_bytes) == (2, 5, 0x3000)
    assert (image.open_bodies, image.open_functions, image.build_id) == (1, 2, "ab")


def test_a_body_whose_calls_are_all_recorded_has_no_doubt() -> None:
    assert doubts([fold(0, 2, CALLS)]) == [[]]
    assert doubts([fold(0, 2, CALLS, marks=[TAKEN, NONE])]) == [[]]  # one function there is for a pointer to lead to


def test_doubts_of_a_body_alone() -> None:
    assert doubts([fold(0, 2, CALLS & ~ClassFlag.MEMBERS_COMPLETE)]) == [[Doubt.UNNAMED]]
    assert doubts([fold(0, 2, MARKED)]) == [[Doubt.UNRECORDED]]
    assert doubts([fold(0, 2, CALLS, marks=[TAKEN, TAKEN])]) == [[Doubt.POINTERS]]


def test_doubts_spread_to_what_merged_callers_call() -> None:
    open_, clear = fold(0, 2, CALLS, marks=[TAKEN, TAKEN]), fold(0, 2, CALLS)
    differently = [call((0, 0), (1, 0)), call((0, 1), (1, 1))]
    alike = [call((0, 0), (1, 1)), call((0, 1), (1, 1))]
    callee, last = fold(1, 2, CALLS), fold(2, 2, CALLS)
    assert doubts([open_, callee], differently) == [[Doubt.POINTERS], [Doubt.CALLERS]]
    assert doubts([open_, callee], alike) == [[Doubt.POINTERS], []]
    assert doubts([clear, callee], differently) == [[], []]
    further = [*differently, call((1, 0), (2, 0), 1), call((1, 1), (2, 1), 1)]
    assert doubts([open_, callee, last], further) == [[Doubt.POINTERS], [Doubt.CALLERS], [Doubt.CALLERS]]


def test_doubts_spread_by_tail_calls() -> None:
    open_, callee = fold(0, 2, CALLS, marks=[TAKEN, TAKEN]), fold(1, 2, CALLS, marks=[NONE, NONE])
    # what pointers lead to tail-calls both, so pointers lead to both
    assert doubts([open_, callee], (), [tail((0, 0), (1, 0)), tail((0, 1), (1, 1))]) == [
        [Doubt.POINTERS],
        [Doubt.POINTERS, Doubt.CALLERS],
    ]
    unrecorded = fold(0, 2, MARKED)
    assert doubts([unrecorded, callee], (), [tail((0, 0), (1, 0)), tail((0, 1), (1, 1))])[1] == [Doubt.CALLERS]
    anyone = TailCall(tail((0, 0), (1, 0)).jump, MemberRef(0, 0), MemberRef(1, ALL_MEMBERS))
    assert doubts([unrecorded, callee], (), [anyone])[1] == [Doubt.CALLERS]


def test_a_circle_of_callers_ends() -> None:
    open_, callee = fold(0, 2, MARKED), fold(1, 2, CALLS)
    calls = [call((0, 0), (1, 0)), call((0, 1), (1, 1)), call((1, 0), (0, 0)), call((1, 1), (0, 1))]
    assert doubts([open_, callee], calls) == [[Doubt.UNRECORDED, Doubt.CALLERS], [Doubt.CALLERS]]


def test_a_body_without_tables_is_listed_where_samples_lie_in_it() -> None:
    program = Program([fold(0, 2, CALLS)])
    other = Program([fold(3, 2)])
    unlisted = other._add(fold(4, 2))  # as its symbols show it
    assert [body.address for body in merged_bodies(program)] == [start(0)]
    assert [body.address for body in merged_bodies(other, [unlisted])] == [start(3), start(4)]
