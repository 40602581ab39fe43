"""Whether a function may have destroyed or replaced its object: each way to do so, on code given as data."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from icf.model import ClassFlag, FoldClass, Member, MemberFlag, MemberRef, Vaddr, Vtable, VtableSlot
from tests.unwind.support import BODY_BYTES, COMPLETE, MARKED, die, ret, start
from unwind.program.parts import CallSite, Jumps, ListedCode, SiteKind, SlotCall
from unwind.program.passed import Passed, Registers
from unwind.program.program import Body, Program, VtableGroup
from unwind.resolve.moved import OBJECT, Moves

ARGUMENT: Registers = frozenset({"rsi"})
GROUP = range(0x90000, 0x90100)


class Code(ListedCode):
    """Code whose calls hand on an object."""

    def __init__(
        self,
        passed: Mapping[int, tuple[Passed, ...] | None],
        sites: Mapping[int, CallSite] | None = None,
        jumps: Mapping[int, Jumps | None] | None = None,
    ) -> None:
        super().__init__(sites, jumps)
        self._passed = passed

    def passed(self, start: int, end: int, given: Registers) -> tuple[Passed, ...] | None:
        return self._passed.get(start, ())


def function(body: int, name: str, flags: ClassFlag = COMPLETE, mark: MemberFlag = MemberFlag.NONE) -> FoldClass:
    return FoldClass(Vaddr(start(body)), BODY_BYTES, (Member(name, die(body, 0), mark),), flags)


def handed(body: int, registers: Registers = OBJECT, *, is_jump: bool = False) -> Passed:
    """A call in a body, at its first return address, or a jump there, with the object in `registers`."""
    return Passed(ret(body) - 5, 0 if is_jump else ret(body), is_jump, registers)


def calls(target: int) -> CallSite:
    return CallSite(SiteKind.DIRECT, target=start(target))


def moved(program: Program, *, forms: int = -1) -> bool:
    """Whether body 0 may have moved its object; body `forms` has the address of its vtables."""

    def forms_address(body: Body, group: VtableGroup) -> bool:
        return body.start == start(forms) and group.addresses == GROUP

    return Moves(forms_address).may_be_moved(program.bodies[0], VtableGroup(program, GROUP, "_ZTV1A"))


def one_call(name: str, registers: Registers = OBJECT) -> Program:
    """Body 0 calls body 1, a function of that name, with the object in `registers`."""
    return Program(
        [function(0, "f"), function(1, name)], code=Code({start(0): (handed(0, registers),)}, {ret(0): calls(1)})
    )


def test_a_function_that_hands_its_object_to_nothing_keeps_it() -> None:
    assert not moved(Program([function(0, "f")], code=Code({})))


def test_code_that_cannot_be_followed_may_do_anything() -> None:
    assert moved(Program([function(0, "f")], code=Code({start(0): None})))


@pytest.mark.parametrize("name", ["_ZdlPv", "_ZdaPvm", "free", "realloc", "_ZN1AC2Ev", "_ZN1AD0Ev", "_ZN1AD2Ev", "~A"])
def test_who_frees_constructs_or_destroys_its_first_argument_moves_it(name: str) -> None:
    assert moved(one_call(name))
    assert not moved(one_call(name, ARGUMENT))


def test_another_function_does_not() -> None:
    assert not moved(one_call("_ZN1A1fEv"))


def test_what_it_hands_the_object_to_may() -> None:
    code = Code({start(0): (handed(0),), start(1): (handed(1),)}, {ret(0): calls(1), ret(1): calls(2)})
    assert moved(Program([function(0, "f"), function(1, "g"), function(2, "free")], code=code))
    assert not moved(Program([function(0, "f"), function(1, "g"), function(2, "h")], code=code))


def test_code_with_the_address_of_the_vtables_has_a_constructor_inlined() -> None:
    assert moved(one_call("g"), forms=1)
    assert not moved(one_call("g"), forms=0)  # in itself that is seen elsewhere: the frame is on the stack


def test_an_import_counts_by_its_name() -> None:
    for symbol, is_moved in (("free@GLIBC_2.2.5", True), ("puts", False)):
        site = CallSite(SiteKind.IMPORT, symbol=symbol)
        assert moved(Program([function(0, "f")], code=Code({start(0): (handed(0),)}, {ret(0): site}))) is is_moved


@pytest.mark.parametrize(("name", "is_moved"), [("_ZN1AD0Ev", True), ("_ZN1AD1Ev", False), ("_ZN1A1fEv", False)])
def test_a_call_by_a_slot_moves_it_where_some_vtable_has_a_deleting_destructor(name: str, is_moved: bool) -> None:
    table = Vtable(Vaddr(0x91010), Vaddr(0x91000), (VtableSlot(2, MemberRef(1, 0)),))
    program = Program(
        [function(0, "f"), function(1, name, MARKED, MemberFlag.VIRTUAL)],
        code=Code({start(0): (handed(0),)}, {ret(0): CallSite(SiteKind.INDIRECT)}),
        slot_calls={ret(0): SlotCall(2)},
        vtables=[table],
        pointer_jumps=[],
    )
    assert moved(program) is is_moved


def test_a_jump_out_of_the_frame_itself_was_not_taken() -> None:
    jumps = {start(body): Jumps(((ret(body) - 5, start(body + 1)),)) for body in (0, 1)}
    classes = [function(0, "f"), function(1, "g"), function(2, "free")]
    assert not moved(
        Program(classes[:1] + [function(1, "free")], code=Code({start(0): (handed(0, is_jump=True),)}, {}, jumps))
    )
    code = Code({start(0): (handed(0),), start(1): (handed(1, is_jump=True),)}, {ret(0): calls(1)}, jumps)
    classes = [function(0, "f"), function(1, "g"), function(2, "free")]
    assert moved(Program(classes, code=code))  # but one of a function that it called was


def test_an_object_that_is_handed_to_more_functions_than_the_limit_may_be_moved() -> None:
    for count, is_moved in ((60, False), (70, True)):
        classes = [function(body, f"f{body}") for body in range(count + 1)]
        passed = {start(body): (handed(body),) for body in range(count)}
        sites = {ret(body): calls(body + 1) for body in range(count)}
        assert moved(Program(classes, code=Code(passed, sites))) is is_moved
