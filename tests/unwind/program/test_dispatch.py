"""Calls by the slots of vtables, with and without the vtable pointer of the frame they end up in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from icf.model import (
    ALL_MEMBERS,
    ANY_POINTER,
    ClassFlag,
    Evidence,
    FoldClass,
    MemberFlag,
    MemberRef,
    PointerJump,
    TailCall,
    Vaddr,
    Verdict,
    Vtable,
    VtableSlot,
)
from tests.unwind.support import MARKED, call, fold, pc, ret, start, tail
from unwind.program.parts import CallSite, ListedCode, SiteKind, SlotCall
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.resolve.vptrs import read_vptrs

NONE, TAKEN, VIRTUAL = MemberFlag.NONE, MemberFlag.ADDRESS_TAKEN, MemberFlag.VIRTUAL
INDIRECT = CallSite(SiteKind.INDIRECT)
CIRCLE, SQUARE, VISITOR, OTHER = 0x90010, 0x90110, 0x90210, 0x90310


def vtable(vaddr: int, slots: dict[int, tuple[int, int]], group: int = 0) -> Vtable:
    listed = tuple(VtableSlot(slot, MemberRef(*function)) for slot, function in sorted(slots.items()))
    return Vtable(Vaddr(vaddr), Vaddr(group or vaddr - 0x10), listed)


def named(body: int, *names: str, marks: Sequence[MemberFlag] = ()) -> FoldClass:
    """A body whose members have these names."""
    plain = fold(body, len(names), MARKED, marks=marks or [VIRTUAL] * len(names))
    return plain._replace(members=tuple(m._replace(name=name) for m, name in zip(plain.members, names, strict=True)))


def program(
    classes: Sequence[FoldClass],
    vtables: Sequence[Vtable],
    slot: int | None = 2,
    jumps: Sequence[PointerJump] = (),
    tails: Sequence[TailCall] = (),
    code: ListedCode | None = None,
) -> Program:
    """`b1` makes an indirect call, by `slot` if that is known."""
    slot_calls = {} if slot is None else {ret(1): SlotCall(slot, Evidence.DECODED)}
    return Program(
        classes,
        (),
        tails,
        code or ListedCode({ret(1): INDIRECT}),
        slot_calls=slot_calls,
        vtables=vtables,
        pointer_jumps=jumps,
    )


def answer(one: Program, vptr: int = 0, at: int = start(0)) -> str:
    found = Resolver(one).resolve((at, ret(1)), ((0, vptr),) if vptr else ())[0]
    return found.linkage_name or f"{found.verdict.value}:{','.join(found.linkage_names)}"


SHAPES = [fold(0, 4, MARKED, marks=[VIRTUAL, VIRTUAL, VIRTUAL, NONE]), fold(1, 1)]
VTABLES = [vtable(CIRCLE, {2: (0, 0), 3: (0, 2)}), vtable(SQUARE, {2: (0, 1), 4: (0, 1)})]


def test_a_slot_leaves_the_functions_that_vtables_have_there() -> None:
    assert answer(program(SHAPES, VTABLES)) == "narrowed:b0m0,b0m1"
    assert answer(program(SHAPES, VTABLES, 3)) == "b0m2"
    assert answer(program(SHAPES, VTABLES, None)) == "narrowed:b0m0,b0m1,b0m2"


def test_the_vtable_of_the_object_names_the_function() -> None:
    one = program(SHAPES, VTABLES)
    assert (answer(one, CIRCLE), answer(one, SQUARE)) == ("b0m0", "b0m1")
    found = Resolver(one).resolve((start(0), ret(1)), ((0, CIRCLE),))[0]
    assert (found.verdict, found.evidence) == (Verdict.UNIQUE, "vptr")


def test_without_a_slot_the_vtable_leaves_its_own_functions() -> None:
    one = program(SHAPES, VTABLES, None)
    assert (answer(one, CIRCLE), answer(one, SQUARE)) == ("narrowed:b0m0,b0m2", "b0m1")


def test_a_vtable_pointer_that_fits_nothing_counts_as_none() -> None:
    one = program(SHAPES, [*VTABLES, vtable(OTHER, {7: (0, 2)})])
    assert answer(one, OTHER) == answer(one, 0x1234) == answer(one)


def test_the_reason_names_the_slot() -> None:
    found = Resolver(program(SHAPES, VTABLES)).resolve((pc(0), ret(1)))[0]
    assert str(found.reason) == f"call of slot 2 of a vtable before {ret(1):#x}"
    assert found.evidence == "decoded"


def test_a_function_whose_address_is_taken_may_be_in_a_table_of_a_c_program() -> None:
    classes = [fold(0, 3, MARKED, marks=[VIRTUAL, VIRTUAL, TAKEN]), fold(1, 1)]
    one = program(classes, [vtable(CIRCLE, {2: (0, 0)}), vtable(SQUARE, {3: (0, 1)})])
    assert answer(one) == "narrowed:b0m0,b0m2"
    assert answer(one, CIRCLE) == "b0m0"  # what its object points to is no table of a C program


def test_a_virtual_function_that_no_listed_vtable_has_may_be_in_any_slot() -> None:
    classes = [fold(0, 3, MARKED, marks=[VIRTUAL, VIRTUAL, VIRTUAL]), fold(1, 1)]
    one = program(classes, [vtable(CIRCLE, {2: (0, 0)}), vtable(SQUARE, {3: (0, 1)})])
    assert answer(one) == "narrowed:b0m0,b0m2"
    assert answer(one, CIRCLE) == "b0m0"


def test_a_slot_may_hold_any_member() -> None:
    one = program(SHAPES, [vtable(CIRCLE, {2: (0, ALL_MEMBERS)}), vtable(SQUARE, {2: (0, 1)})])
    assert answer(one, CIRCLE) == "ambiguous:b0m0,b0m1,b0m2,b0m3"
    assert answer(one, SQUARE) == "b0m1"


def test_marks_that_are_not_known_leave_all_without_the_object() -> None:
    classes = [fold(0, 3, ClassFlag.MEMBERS_COMPLETE), fold(1, 1)]
    one = program(classes, [vtable(CIRCLE, {2: (0, 0)})])
    assert (answer(one), answer(one, CIRCLE)) == ("ambiguous:b0m0,b0m1,b0m2", "b0m0")


def test_double_dispatch_goes_by_the_slot_of_the_second_object() -> None:
    # slot 2 of a shape jumps to slot 5 of the visitor, which has functions of one body in both slots
    classes = [fold(0, 2, MARKED, marks=[VIRTUAL] * 2), fold(1, 1), fold(2, 1, MARKED, marks=[VIRTUAL])]
    vtables = [vtable(CIRCLE, {2: (2, 0)}), vtable(VISITOR, {2: (0, 0), 5: (0, 1)})]
    jumps = [PointerJump(Vaddr(start(2) + 8), 5)]
    assert answer(program(classes, vtables, 2, jumps), VISITOR) == "ambiguous:b0m0,b0m1"
    assert answer(program(classes, vtables, 2), VISITOR) == "b0m0"
    assert answer(program(classes, vtables, 5, jumps), VISITOR) == "b0m1"
    apart = [vtables[0], vtable(VISITOR, {5: (0, 1)}), vtable(OTHER, {6: (0, 0)})]
    assert answer(program(classes, apart, 2, jumps)) == "b0m1"
    anywhere = [PointerJump(Vaddr(start(2) + 8), ANY_POINTER)]
    assert answer(program(classes, vtables, 2, anywhere), VISITOR) == "ambiguous:b0m0,b0m1"


def test_a_c_function_called_like_a_slot_may_jump_to_an_objects_method() -> None:
    # ops->run(self), slot 2 of a table of functions: run ends in handler->handle(), slot 5
    classes = [fold(0, 2, MARKED, marks=[VIRTUAL] * 2), fold(1, 1), fold(2, 1, MARKED, marks=[TAKEN])]
    vtables = [vtable(VISITOR, {2: (0, 0), 5: (0, 1)})]
    jumps = [PointerJump(Vaddr(start(2) + 8), 5)]
    assert answer(program(classes, vtables, 2, jumps), VISITOR) == "ambiguous:b0m0,b0m1"


def test_a_direct_jump_of_a_method_says_nothing_of_its_object() -> None:
    classes = [fold(0, 2, MARKED, marks=[VIRTUAL] * 2), fold(1, 1), fold(2, 2, MARKED, marks=[VIRTUAL, NONE])]
    vtables = [vtable(CIRCLE, {2: (2, 0)}), vtable(VISITOR, {2: (0, 0)})]
    assert answer(program(classes, vtables, 2, tails=[tail((2, 0), (0, 1))]), VISITOR) == "ambiguous:b0m0,b0m1"
    assert answer(program(classes, vtables, 2, tails=[tail((2, 1), (0, 1))]), VISITOR) == "b0m0"


def test_a_thunk_goes_on_with_the_same_object() -> None:
    # Both::f is in slot 2 of its second base's vtable by way of a thunk; so is Rival::f
    classes = [named(0, "_ZN4Both1fEv", "_ZN5Rival1fEv", "_ZN5Plain1fEv"), fold(1, 1)]
    classes.append(named(2, "_ZThn8_N4Both1fEv", "_ZThn8_N5Rival1fEv"))
    tails = [tail((2, 0), (0, 0)), tail((2, 1), (0, 1))]
    vtables = [
        vtable(0x90010, {5: (0, 0)}, 0x90000),
        vtable(0x90050, {2: (2, 0)}, 0x90000),
        vtable(0x91010, {5: (0, 1)}, 0x91000),
        vtable(0x91050, {2: (2, 1)}, 0x91000),
        vtable(0x92010, {2: (0, 2)}, 0x92000),
    ]
    one = program(classes, vtables, tails=tails)
    assert answer(one) == "ambiguous:_ZN4Both1fEv,_ZN5Rival1fEv,_ZN5Plain1fEv"
    assert answer(one, 0x90010) == "_ZN4Both1fEv"
    assert answer(one, 0x91010) == "_ZN5Rival1fEv"
    assert answer(one, 0x92010) == "_ZN5Plain1fEv"
    # the thunk itself, at its first instruction
    assert answer(one, 0x91050, start(2)) == "_ZThn8_N5Rival1fEv"


def test_a_thunk_says_by_its_name_what_it_jumps_to() -> None:
    classes = [named(0, "_ZN4Both1fEv", "_ZN5Rival1fEv"), fold(1, 1)]
    classes.append(named(2, "_ZThn8_N4Both1fEv", "_ZTv0_n24_N5Rival1fEv"))
    tails = [tail((2, ALL_MEMBERS), (0, ALL_MEMBERS))]
    vtables = [
        vtable(0x90010, {5: (0, 0)}, 0x90000),
        vtable(0x90050, {2: (2, 0)}, 0x90000),
        vtable(0x91010, {5: (0, 1)}, 0x91000),
        vtable(0x91050, {2: (2, 1)}, 0x91000),
    ]
    one = program(classes, vtables, tails=tails)
    assert (answer(one, 0x90010), answer(one, 0x91010)) == ("_ZN4Both1fEv", "_ZN5Rival1fEv")
    one = program(classes, vtables)  # the same where the jump itself is in no table
    assert (answer(one, 0x90010), answer(one, 0x91010)) == ("_ZN4Both1fEv", "_ZN5Rival1fEv")


def test_a_recorded_callee_jumps_on_by_a_slot() -> None:
    classes = [fold(0, 3, MARKED, marks=[VIRTUAL] * 3), fold(1, 1), fold(2, 1, MARKED)]
    vtables = [vtable(CIRCLE, {2: (0, 0), 3: (0, 1)}), vtable(SQUARE, {3: (0, 2)})]
    jumps = [PointerJump(Vaddr(start(2) + 8), 3)]
    one = Program(classes, [call((1, 0), (2, 0))], vtables=vtables, pointer_jumps=jumps)
    assert (answer(one), answer(one, CIRCLE), answer(one, SQUARE)) == ("narrowed:b0m1,b0m2", "b0m1", "b0m2")


def test_a_call_from_outside_of_the_image_with_an_object() -> None:
    one = program(SHAPES, VTABLES, None)
    code = (pc(1), ret(0), None)
    assert Resolver(one).resolve(code)[1].linkage_names == ("b0m0", "b0m1", "b0m2")
    assert Resolver(one).resolve(code, ((1, SQUARE),))[1].linkage_name == "b0m1"


class TestMovedPointers:
    """Once a function runs, its object's vtable pointer may move."""

    NAMES = ("_ZN4BaseD2Ev", "_ZN7DerivedD2Ev", "_ZN4Base5closeEv", "_ZN7Derived5closeEv")
    BASE, DERIVED = 0x90010, 0x91010

    def program(self, code: ListedCode | None = None, inner: str = "_Z3logv") -> Program:
        classes = [named(0, *self.NAMES), fold(1, 1, MARKED), named(2, inner, marks=[NONE])]
        vtables = [vtable(self.BASE, {0: (0, 0), 2: (0, 2)}), vtable(self.DERIVED, {0: (0, 1), 2: (0, 3)})]
        slot_calls = {ret(1): SlotCall(0), ret(1, 1): SlotCall(2)}
        code = code or ListedCode({ret(1): INDIRECT, ret(1, 1): INDIRECT})
        return Program(classes, (), code=code, slot_calls=slot_calls, vtables=vtables, pointer_jumps=())

    def answer(self, one: Program, vptr: int, *addresses: int, frame: int = 0) -> str:
        found = Resolver(one).resolve(addresses, ((frame, vptr),))[frame]
        return found.linkage_name or ",".join(found.linkage_names)

    def test_a_destructor_may_have_moved_it_to_a_base(self) -> None:
        one = self.program()
        assert self.answer(one, self.BASE, start(0), ret(1)) == "_ZN4BaseD2Ev"
        assert self.answer(one, self.BASE, pc(0), ret(1)) == "_ZN4BaseD2Ev,_ZN7DerivedD2Ev"
        assert self.answer(one, self.BASE, pc(0), ret(1, 1)) == "_ZN4Base5closeEv"

    @pytest.mark.parametrize("inner", ["_ZN7DerivedD1Ev", "_ZN4BaseC2ERKS_", "_ZN3BoxC1IiEET_", "_ZN1AD2B5cxx11Ev"])
    def test_a_destructor_or_constructor_further_in_may_have_moved_it(self, inner: str) -> None:
        both = "_ZN4Base5closeEv,_ZN7Derived5closeEv"
        assert self.answer(self.program(), self.BASE, pc(2), ret(0), ret(1, 1), frame=1) == "_ZN4Base5closeEv"
        assert self.answer(self.program(inner=inner), self.BASE, pc(2), ret(0), ret(1, 1), frame=1) == both

    @pytest.mark.parametrize("body", [0, 2])
    def test_code_with_the_address_of_the_vtable_may_have_moved_it(self, body: int) -> None:
        sites = {ret(1): INDIRECT, ret(1, 1): INDIRECT}
        one = self.program(ListedCode(sites, addresses={start(body): [self.BASE]}))
        assert self.answer(one, self.BASE, pc(2), ret(0), ret(1, 1), frame=1) == ",".join(self.NAMES[2:])
        assert self.answer(one, self.DERIVED, pc(2), ret(0), ret(1, 1), frame=1) == "_ZN7Derived5closeEv"
        assert self.answer(one, self.BASE, start(0), ret(1, 1)) == "_ZN4Base5closeEv"


def test_vtable_pointers_are_read_from_memory() -> None:
    memory = {0x7000: 0x5000 + CIRCLE, 0x7100: 0x10, 0x7200: 0x5000 + SQUARE}

    def read(address: int, size_bytes: int) -> bytes:
        if address not in memory:
            raise OSError("not mapped")
        return memory[address].to_bytes(8, "little")[:size_bytes] if address != 0x7200 else b"\0"

    this = {3: 0x7000, 0: 0x7000, 1: 0x7100, 2: 0x7200, 4: 0xDEAD}
    vptrs = read_vptrs(this, read, load_bias=0x5000)
    assert vptrs == ((0, CIRCLE), (3, CIRCLE))
    assert Resolver(program(SHAPES, VTABLES)).resolve((start(0), ret(1)), vptrs)[0].linkage_name == "b0m0"


def test_vtable_pointers_of_frames_that_are_not_there_say_nothing() -> None:
    resolver = Resolver(program(SHAPES, VTABLES))
    expected = resolver.resolve((start(0), ret(1)))
    assert resolver.resolve((start(0), ret(1)), ((7, CIRCLE), (1, CIRCLE), (-1, CIRCLE))) == expected
