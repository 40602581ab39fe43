"""Random small programs as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from icf.model import (
    ALL_MEMBERS,
    ANY_POINTER,
    ClassFlag,
    FoldClass,
    MemberFlag,
    MemberRef,
    PointerJump,
    TailCall,
    Vaddr,
    Vtable,
    VtableSlot,
)
from tests.unwind.support import call, exports, fold, ret, start, tail
from unwind.program.parts import CallRecord, CallSite, Jumps, ListedCode, SiteKind, SlotCall
from unwind.program.program import Program

Candidate = tuple[int, int]  # body, member


@dataclass(frozen=True)
class World:
    """A program as plain data."""

    classes: list[FoldClass]
    records: list[CallRecord]
    tails: list[TailCall]
    sites: dict[int, CallSite]
    jumps: dict[int, Jumps | None]
    vtables: list[Vtable]
    slots: dict[int, int]  # return address -> slot
    pointer_jumps: list[PointerJump] | None
    addresses: dict[int, list[int]]  # in the code, by start of body

    def program(self) -> Program:
        return Program(
            self.classes,
            self.records,
            self.tails,
            ListedCode(self.sites, self.jumps, self.addresses),
            exports=exports(*self.classes),
            slot_calls={site: SlotCall(slot) for site, slot in self.slots.items()},
            vtables=self.vtables,
            pointer_jumps=self.pointer_jumps,
        )


@st.composite
def vtables_of(draw: st.DrawFn, members: list[Candidate]) -> list[Vtable]:
    """Vtables, some of one group; functions in few slots, so that they meet."""
    functions = st.sampled_from([*members, *members, *((body, ALL_MEMBERS) for body, _ in members)])
    found = []
    for idx in range(draw(st.integers(0, 4))):
        slots = draw(st.dictionaries(st.integers(0, 2), functions, min_size=1))
        group = 0x90000 + 0x100 * (idx // 2) if draw(st.booleans()) else 0x91000 + 0x100 * idx
        listed = tuple(VtableSlot(slot, MemberRef(*who)) for slot, who in sorted(slots.items()))
        found.append(Vtable(Vaddr(group + 0x10 + 0x40 * (idx % 2)), Vaddr(group), listed))
    return found


def renamed(fold_class: FoldClass, kinds: Sequence[str]) -> FoldClass:
    """Some members are thunks or destructors, by their names."""
    members = [
        member._replace(name=kind.format(member.name)) for kind, member in zip(kinds, fold_class.members, strict=False)
    ]
    return fold_class._replace(members=tuple(members))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    body_count = draw(st.integers(2, 4))
    flags = st.sampled_from([ClassFlag.MEMBERS_COMPLETE] * 3 + [ClassFlag.NONE])
    known = st.sampled_from([ClassFlag.ADDRESS_TAKEN_KNOWN] * 3 + [ClassFlag.NONE])
    marks = st.sampled_from([MemberFlag.NONE] * 3 + [MemberFlag.ADDRESS_TAKEN, MemberFlag.VIRTUAL])
    three = st.tuples(marks, marks, marks)
    classes = [
        fold(body, draw(st.integers(1, 3)), draw(flags) | draw(known), marks=draw(three)) for body in range(body_count)
    ]
    kind = st.sampled_from(["{}"] * 4 + ["_ZThn8_{}", "_ZN1{}D1Ev"])
    classes = [renamed(one, draw(st.tuples(kind, kind, kind))) for one in classes]
    members = [(body, idx) for body in range(body_count) for idx in range(len(classes[body].members))]
    member = st.sampled_from(members)
    jump = st.sampled_from([0x800, 0x900])
    tails = draw(st.lists(st.builds(tail, member, member, jump), max_size=4))
    records = draw(st.lists(st.builds(call, member, member, st.integers(0, 1)), max_size=14))
    targets = st.sampled_from([*map(start, range(body_count)), start(99)])
    kinds = st.one_of(
        st.sampled_from(
            [CallSite(SiteKind.INDIRECT), CallSite(SiteKind.NONE), CallSite(SiteKind.IMPORT, symbol="b0m0")]
        ),
        targets.map(lambda target: CallSite(SiteKind.DIRECT, target=target)),
        targets.map(lambda target: CallSite(SiteKind.DIRECT, target=target)),
    )
    returns = [ret(body, site) for body in range(body_count) for site in range(2)]
    sites = draw(st.dictionaries(st.sampled_from(returns), kinds))
    jumps: dict[int, Jumps | None] = {}
    for body in range(body_count):
        jumps[start(body)] = None
        if draw(st.integers(0, 4)):
            ways = draw(st.lists(st.tuples(jump, targets), max_size=2))
            direct = tuple((start(body) + offset, target) for offset, target in ways)
            jumps[start(body)] = Jumps(direct, indirect=draw(st.integers(0, 5)) == 0)
    vtables = draw(vtables_of(members))
    slots = draw(st.dictionaries(st.sampled_from(returns), st.integers(0, 2)))
    leaving = st.builds(
        lambda body, slot: PointerJump(Vaddr(start(body) + 0xA00 + slot), slot),
        st.integers(0, body_count - 1),
        st.sampled_from([ANY_POINTER, 0, 1, 2]),
    )
    pointer_jumps = draw(st.none() | st.lists(leaving, max_size=2))
    holding = st.lists(st.sampled_from([0x8FFFF, *(vtable.vaddr for vtable in vtables)]), max_size=1)
    addresses = {start(body): draw(holding) for body in range(body_count)}
    return World(classes, records, tails, sites, jumps, vtables, slots, pointer_jumps, addresses)
