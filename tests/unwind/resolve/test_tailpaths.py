"""The graph of tail calls between two functions: which bodies, which members, which jumps are on a way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from icf.model import FoldClass, MemberFlag, MemberRef, PointerJump, TailCall, Vaddr, Vtable, VtableSlot
from tests.unwind.support import FRAGMENT, MARKED, die, exports, fold, start, tail
from unwind.program.parts import Jumps, ListedCode
from unwind.program.program import Program
from unwind.resolve.tailpaths import TailPaths, Walks

JUMP = 0x800  # as `tail` places it


def program(
    ways: Mapping[int, Sequence[int]],
    classes: Sequence[FoldClass] | None = None,
    tails: Sequence[TailCall] = (),
    open_bodies: Sequence[int] = (),
    imports: Sequence[tuple[int, str]] = (),
    **more: object,
) -> Program:
    """Bodies 0 to 5, unmerged unless given, that jump to the starts of others."""
    jumps = {
        start(body): Jumps(
            tuple((start(body) + JUMP + nth, start(to)) for nth, to in enumerate(ways.get(body, ()))),
            body in open_bodies,
            tuple((start(at) + 0x900, symbol) for at, symbol in imports if at == body),
        )
        for body in range(80)
    }
    classes = classes or [fold(body, 1) for body in range(6)]
    return Program(classes, [], tails, ListedCode(jumps=jumps), exports=exports(*classes), **more)  # type: ignore[arg-type]


def walks(one: Program, first: int, last: int, members: int = 1, ends: int | None = None) -> Walks | None:
    end = one.bodies[last]
    return TailPaths().between(one.bodies[first], members, end, end.domain if ends is None else ends)


def steps(one: Program, first: int, last: int) -> list[tuple[str, str]]:
    """The jumps on a way, by the names of the functions."""
    found = walks(one, first, last)
    assert found is not None
    return sorted((step.source.members[0].name[:2], step.target.members[0].name[:2]) for step in found.steps)


def members(one: Program, found: Walks | None) -> dict[int, int]:
    assert found is not None
    return {one.bodies.index(body): mask for body, mask in found.members.items()}


def test_all_jumps_on_a_way_and_no_others() -> None:
    assert steps(program({0: [1, 4], 1: [2], 4: [5]}), 0, 2) == [("b0", "b1"), ("b1", "b2")]


def test_several_ways_are_all_there() -> None:
    assert steps(program({0: [1, 2], 1: [3], 2: [3]}), 0, 3) == [("b0", "b1"), ("b0", "b2"), ("b1", "b3"), ("b2", "b3")]


def test_there_is_none_without_a_jump() -> None:
    one = program({0: [1]})
    assert walks(one, 0, 2) is None
    assert walks(one, 0, 0) is None


def test_a_member_that_does_not_come_to_the_end_is_left_out() -> None:
    classes = [fold(0, 1), fold(1, 3), fold(2, 2)]
    tails = [tail((0, 0), (1, idx)) for idx in (0, 1)]
    tails += [tail((1, idx), (2, idx % 2)) for idx in range(3)]
    one = program({0: [1], 1: [2]}, classes, tails)
    assert members(one, walks(one, 0, 2, ends=0b01)) == {0: 1, 1: 0b001, 2: 0b01}
    assert members(one, walks(one, 0, 2)) == {0: 1, 1: 0b011, 2: 0b11}  # 2 of body 1 is not reached


def test_a_start_of_which_no_possible_member_comes_there_has_no_way() -> None:
    tails = [tail((0, 0), (1, 0)), tail((0, 1), (1, 1))]
    one = program({0: [1]}, [fold(0, 2), fold(1, 2)], tails)
    assert walks(one, 0, 1, members=0b01, ends=0b10) is None
    assert walks(one, 0, 1, members=0b01, ends=0b01) is not None


def test_a_jump_without_a_record_may_mean_any_member() -> None:
    one = program({0: [1]}, [fold(0, 2), fold(1, 2)], [tail((0, 0), (1, 1))])
    assert members(one, walks(one, 0, 1, members=0b11, ends=0b01)) == {0: 0b10, 1: 0b01}


def test_jumps_to_where_nothing_says_are_kept_apart() -> None:
    one = program({0: [1], 1: [2]}, open_bodies=[1])
    found = walks(one, 0, 2)
    assert found is not None and dict(found.open) == {one.bodies[1]: frozenset({0})}


def test_a_way_out_to_an_unknown_place_is_open_at_its_jump() -> None:
    one = program({0: [1, 77]})
    found = walks(one, 0, 1)
    assert found is not None and dict(found.open) == {one.bodies[0]: frozenset({start(0) + JUMP + 1})}


def test_an_import_leads_to_the_function_of_its_name() -> None:
    assert steps(program({}, imports=[(0, "b3m0")]), 0, 3) == [("b0", "b3")]


def test_a_walk_to_more_bodies_than_the_limit_has_no_answer() -> None:
    classes = [fold(body, 1) for body in range(70)]
    chain = {body: [body + 1] for body in range(69)}
    assert walks(program(chain, classes), 0, 2) is None
    assert walks(program({**chain, 40: []}, classes), 0, 2) is not None


def test_a_jump_of_an_outlined_part_is_one_of_its_function() -> None:
    part = fold(1, 1, FRAGMENT, dies=[die(0, 0)])
    one = program({0: [1], 1: [2]}, [fold(0, 1), part, fold(2, 1)])
    assert steps(one, 0, 2) == [("b0", "b2")]


def test_a_frame_in_an_outlined_part_was_entered_by_its_function() -> None:
    part = fold(2, 1, FRAGMENT, dies=[die(1, 0)])
    one = program({0: [1], 1: [2]}, [fold(0, 1), fold(1, 1), part])
    found = walks(one, 0, 2)
    assert found is not None and found.end is one.bodies[1]
    assert [(step.source, step.target) for step in found.steps] == [(one.bodies[0], one.bodies[1])]


def test_a_jump_by_a_slot_leads_to_what_stands_there() -> None:
    classes = [fold(0, 1), fold(1, 3, MARKED, marks=(MemberFlag.NONE, MemberFlag.VIRTUAL, MemberFlag.VIRTUAL))]
    table = Vtable(Vaddr(0x90010), Vaddr(0x90000), (VtableSlot(2, MemberRef(1, 1)), VtableSlot(3, MemberRef(1, 2))))
    jump = PointerJump(Vaddr(start(0) + 0xA00), 2)
    one = program({}, classes, vtables=[table], pointer_jumps=[jump])
    assert members(one, walks(one, 0, 1, ends=0b010)) == {0: 1, 1: 0b010}
    assert walks(one, 0, 1, ends=0b101) is None
