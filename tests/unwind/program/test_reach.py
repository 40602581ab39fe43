"""What a call ends up in by jumps that leave no frame: each kind of jump by itself."""

from __future__ import annotations

from collections.abc import Sequence

from icf.model import ANY_POINTER, ClassFlag, FoldClass, Member, PointerJump, TailCall, Vaddr
from tests.unwind.support import BODY_BYTES, COMPLETE, FRAGMENT, die, exports, fold, start, tail
from unwind.program.parts import Jumps, ListedCode
from unwind.program.program import Program
from unwind.program.reach import CallGraph
from unwind.program.ways import ANY_WAY, Reach, Way

JUMP = 0x800  # as `tail` places it


def program(
    classes: Sequence[FoldClass],
    tails: Sequence[TailCall] = (),
    pointer_jumps: Sequence[PointerJump] | None = None,
    *,
    tail_calls_known: bool = True,
    **jumps_of: Jumps | None,
) -> Program:
    """`b0=Jumps(...)` are the jumps of body 0."""
    code = ListedCode(jumps={start(int(body[1:])): jumps for body, jumps in jumps_of.items()})
    return Program(
        classes,
        [],
        tails,
        code,
        exports=exports(*classes),
        pointer_jumps=pointer_jumps,
        tail_calls_known=tail_calls_known,
    )


def to(*targets: int, source: int = 0, indirect: bool = False) -> Jumps:
    """Jumps to the starts of bodies, the first where `tail` places one."""
    return Jumps(tuple((start(source) + JUMP + 8 * nth, start(to)) for nth, to in enumerate(targets)), indirect)


def reach(program: Program, body: int, member: int = 0) -> Reach:
    return CallGraph().reach(program.bodies[body].first_node + member, program.candidates)


def names(program: Program, body: int, member: int = 0) -> list[str]:
    found = []
    for node in sorted(reach(program, body, member).nodes):
        landed, idx = program.candidates[node]
        found.append(landed.members[idx].name)
    return found


def test_a_function_that_jumps_nowhere_reaches_itself() -> None:
    assert reach(program([fold(0, 2), fold(1, 2)]), 0) == Reach(frozenset({0}))


def test_recorded_tail_calls_are_followed_member_by_member() -> None:
    tails = [tail((0, 0), (1, 1)), tail((1, 1), (2, 0)), tail((0, 1), (1, 0))]
    assert names(program([fold(0, 2), fold(1, 2), fold(2, 2)], tails), 0) == ["b0m0", "b1m1", "b2m0"]


def test_a_circle_of_tail_calls_ends() -> None:
    assert names(program([fold(0, 2), fold(1, 2)], [tail((0, 0), (1, 0)), tail((1, 0), (0, 0))]), 0) == ["b0m0", "b1m0"]


def test_a_jump_without_a_record_enters_every_member() -> None:
    assert names(program([fold(0, 2), fold(1, 2)], b0=to(1)), 0) == ["b0m0", "b1m0", "b1m1"]


def test_a_jump_with_a_record_enters_the_recorded_member_alone() -> None:
    one = program([fold(0, 2), fold(1, 2)], [tail((0, 0), (1, 1))], b0=to(1))
    assert names(one, 0, 0) == ["b0m0", "b1m1"]
    assert names(one, 0, 1) == ["b0m1", "b1m0", "b1m1"]  # of which nothing is recorded


def test_a_jump_to_the_own_start_is_a_loop_where_tail_calls_are_known() -> None:
    assert names(program([fold(0, 2)], b0=to(0)), 0) == ["b0m0"]
    assert names(program([fold(0, 2)], tail_calls_known=False, b0=to(0)), 0) == ["b0m0", "b0m1"]


def test_a_jump_within_a_function_is_a_loop() -> None:
    inside = Jumps(((start(0) + JUMP, start(0) + 4),))
    assert reach(program([fold(0, 2)], b0=inside), 0) == Reach(frozenset({0}))


def test_a_jump_into_no_function_may_lead_anywhere() -> None:
    assert reach(program([fold(0, 2)], b0=to(7)), 0).wild


def test_code_that_cannot_be_read_may_lead_anywhere() -> None:
    assert reach(program([fold(0, 2)], b0=None), 0).wild


def test_a_jump_through_a_pointer_may_lead_anywhere_unless_the_tables_list_those() -> None:
    assert reach(program([fold(0, 2)], b0=to(indirect=True)), 0).wild
    assert not reach(program([fold(0, 2)], pointer_jumps=[], b0=to(indirect=True)), 0).wild


def test_slots_of_all_functions_on_the_way_are_joined() -> None:
    listed = [PointerJump(Vaddr(start(0) + 0x900), 3), PointerJump(Vaddr(start(1) + 0x900), ANY_POINTER)]
    one = program([fold(0, 1), fold(1, 1), fold(2, 1)], [tail((0, 0), (1, 0))], listed)
    assert reach(one, 0).ways == {Way(3), ANY_WAY}
    assert reach(one, 2).ways == frozenset()


def test_what_one_function_on_the_way_may_do_all_may() -> None:
    classes, tails = [fold(body, 1) for body in range(3)], [tail((0, 0), (1, 0)), tail((1, 0), (2, 0))]
    assert not reach(program(classes, tails), 0).wild
    assert reach(program(classes, tails, b0=None), 0).wild
    assert reach(program(classes, tails, b1=None), 0).wild
    assert reach(program(classes, tails, b2=None), 0).wild


def test_an_import_reaches_the_function_that_is_exported_by_its_name() -> None:
    one = program([fold(0, 2), fold(1, 2)], b0=Jumps(imports=((start(0) + JUMP, "b1m1"),)))
    assert [name for name in names(one, 0) if name.startswith("b1")] == ["b1m1"]


def test_an_import_that_nothing_known_defines_may_lead_anywhere() -> None:
    assert reach(program([fold(0, 2)], b0=Jumps(imports=((start(0) + JUMP, "elsewhere"),))), 0).wild


def test_an_outlined_part_belongs_to_the_function_of_its_die() -> None:
    part = fold(1, 2, FRAGMENT, dies=[die(0, 0), die(0, 1)])
    assert reach(program([fold(0, 2), part]), 0).nodes == {0, 2}
    assert reach(program([fold(0, 2), part], b0=to(1)), 0).nodes == {0, 2}  # nor does the jump there mean all members


def test_a_thunk_jumps_to_the_function_of_its_name() -> None:
    members = tuple(Member(name, die(1, idx)) for idx, name in enumerate(("_ZN1A1fEv", "_ZN1B1fEv")))
    targets = FoldClass(Vaddr(start(1)), BODY_BYTES, members, COMPLETE)
    thunk = FoldClass(Vaddr(start(0)), BODY_BYTES, (Member("_ZThn8_N1B1fEv", die(0, 0)),), ClassFlag.NONE)
    one = program([thunk, targets], b0=to(1))
    assert names(one, 0) == ["_ZThn8_N1B1fEv", "_ZN1B1fEv"]
