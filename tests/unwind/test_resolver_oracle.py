"""The resolver against brute force: every assignment of random small stacks, pair by pair.

The oracle knows the rules from plain data only: it follows jumps by plain recursion, enumerates all
assignments of a stack, and takes for each frame the members it has in one that all pairs allow. Where there
is none, it cuts the outermost pair that makes it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from hypothesis import given, settings
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
    Verdict,
    Vtable,
    VtableSlot,
)
from tests.unwind.support import BODY_BYTES, call, exports, fold, pc, ret, start, tail
from unwind.program.parts import CallRecord, CallSite, Jumps, ListedCode, SiteKind, SlotCall
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver

Candidate = tuple[int, int]  # body, member; the member after the last stands for one that is not listed
Frame = int | None
Entry = Vtable | int | str  # a vtable; or the group of one, by a thunk; or "pointer", "table", "direct", "lost"
TAKEN, VIRTUAL = MemberFlag.ADDRESS_TAKEN, MemberFlag.VIRTUAL


class Seen(NamedTuple):
    """What is known of a frame besides its address."""

    vptr: int = 0
    is_entry: bool = False


UNSEEN = Seen()


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

    def candidates(self, body: int) -> list[Candidate]:
        fold_class = self.classes[body]
        complete = fold_class.flags & ClassFlag.MEMBERS_COMPLETE
        return [(body, idx) for idx in range(len(fold_class.members) + (0 if complete else 1))]

    def recorded_tails(self, who: Candidate) -> dict[int, set[Candidate]]:
        found: dict[int, set[Candidate]] = {}
        for one in self.tails:
            if (one.caller.class_idx, one.caller.member_idx) == who:
                found.setdefault(one.jump, set()).add((one.callee.class_idx, one.callee.member_idx))
        return found

    def name(self, who: Candidate) -> str:
        members = self.classes[who[0]].members
        return members[who[1]].name if who[1] < len(members) else ""

    def meant(self, ref: MemberRef) -> list[Candidate]:
        return self.candidates(ref.class_idx) if ref.member_idx == ALL_MEMBERS else [(ref.class_idx, ref.member_idx)]

    def marked(self, who: Candidate, marks: MemberFlag) -> bool:
        """Whether marks of a candidate say so, or are not known."""
        fold_class = self.classes[who[0]]
        listed = fold_class.flags & ClassFlag.ADDRESS_TAKEN_KNOWN and who[1] < len(fold_class.members)
        return not listed or bool(fold_class.members[who[1]].flags & marks)

    def entries(self, slot: int) -> set[tuple[Candidate, Entry]]:
        """What a call or jump by a slot, or by any pointer, enters, and through which vtable."""
        everybody = [who for body in range(len(self.classes)) for who in self.candidates(body)]
        held = {who for vtable in self.vtables for each in vtable.slots for who in self.meant(each.function)}
        found: set[tuple[Candidate, Entry]] = set()
        for who in everybody:
            if self.marked(who, TAKEN):
                found.add((who, "pointer" if slot == ANY_POINTER else "table"))
            elif self.marked(who, VIRTUAL) and who not in held:
                found.add((who, "table"))
        for vtable in self.vtables:
            for each in vtable.slots:
                if slot in (each.slot, ANY_POINTER):
                    found |= {(who, vtable) for who in self.meant(each.function)}
        return found

    def ends(self, slots: set[int]) -> set[tuple[Candidate, Entry]]:
        """All that jumps by one of the slots end up in, and how it was entered there."""
        seen: set[tuple[Candidate, Entry]] = set()
        todo = set().union(*map(self.entries, slots))
        while todo:
            who, entry = state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            is_thunk = self.name(who).startswith("_ZT")
            onwards: Entry = "direct"
            if is_thunk and isinstance(entry, (Vtable, int)):
                onwards = entry.group if isinstance(entry, Vtable) else entry
            elif is_thunk and entry != "direct":
                onwards = "lost"
            todo |= {(callee, onwards) for callee in self.jumps_of_pointed(who)}
            for slot in self.left_by(who[0]):
                todo |= self.entries(slot)
        return seen

    def left_by(self, body: int) -> set[int]:
        return {one.slot for one in self.pointer_jumps or () if one.jump // BODY_BYTES - 1 == body}

    def by_slots(self, slots: set[int], body: int, seen: Seen) -> set[Candidate]:
        """The candidates of a body that calls by the slots end up in, the vtable pointer of the frame considered."""
        ends = {(who, entry) for who, entry in self.ends(slots) if who[0] == body}
        everyone = {who for who, _ in ends}
        if not seen.vptr:
            return everyone
        own = next(vtable for vtable in self.vtables if vtable.vaddr == seen.vptr)
        fitting = {who for who, entry in ends if entry in ("direct", "pointer", own, own.group)}
        fitting |= {
            who
            for who, entry in ends
            if self.name(who).startswith("_ZT") and isinstance(entry, Vtable) and entry.group == own.group
        }
        if not seen.is_entry:
            fitting |= {who for who in everyone if "D1E" in self.name(who)}
        return fitting

    def jumps_of_pointed(self, who: Candidate) -> set[Candidate]:
        """Where the jumps of a function lead that was entered by a pointer."""
        is_complete = self.classes[who[0]].flags & ClassFlag.MEMBERS_COMPLETE
        found: set[Candidate] = set()
        for one in self.tails:
            callee = (one.callee.class_idx, one.callee.member_idx)
            if is_complete and (one.caller.class_idx, one.caller.member_idx) == who:
                found.add(callee)
            elif not is_complete and one.caller.class_idx == who[0]:
                if one.caller.member_idx == who[1] or who[1] == len(self.classes[who[0]].members):
                    found |= set(self.candidates(callee[0]))
        return found

    def reach(self, who: Candidate, seen: frozenset[Candidate] = frozenset()) -> tuple[frozenset[Candidate], bool]:
        """All that `who` can get to, and whether it can get to anywhere as well."""
        seen |= {who}
        body = who[0]
        jumps = self.jumps[start(body)]
        wild = jumps is None or (jumps.indirect and self.pointer_jumps is None)
        recorded = self.recorded_tails(who)
        following = set().union(*recorded.values())
        for jump, target in jumps.direct if jumps is not None else ():
            landing = target // BODY_BYTES - 1
            if landing != body and jump not in recorded:
                if 0 <= landing < len(self.classes):
                    following |= set(self.candidates(landing))
                else:
                    wild = True
        for callee in following:
            if callee not in seen:
                further, further_wild = self.reach(callee, seen)
                seen |= further
                wild |= further_wild
        return seen, wild

    def reached(self, callees: set[Candidate], body: int, seen: Seen) -> set[Candidate]:
        """Who of the body is called when one of `callees` is."""
        everything = set(self.candidates(body))
        reached = [self.reach(callee) for callee in callees]
        nodes: set[Candidate] = set().union(*(nodes for nodes, _ in reached))
        found = everything & nodes
        if any(wild for _, wild in reached):
            return found | self.by_slots({ANY_POINTER}, body, seen) if found else everything
        slots = set().union(*(self.left_by(node[0]) for node in nodes))
        return found | self.by_slots(slots, body, seen) or self.by_slots(slots, body, UNSEEN)

    def allowed(self, return_address: int, caller: Candidate, body: int, seen: Seen) -> set[Candidate]:
        everything = set(self.candidates(body))
        if len(everything) == 1:
            return everything
        members = self.classes[caller[0]].members
        callees = set()
        for record in self.records:
            mine = caller[1] < len(members) and record.caller == members[caller[1]].die
            if record.call_site == return_address and (mine or len(self.candidates(caller[0])) == 1):
                callees |= {
                    (idx, member_idx)
                    for idx, fold_class in enumerate(self.classes)
                    for member_idx, member in enumerate(fold_class.members)
                    if member.die == record.callee
                }
        site = self.sites.get(return_address, CallSite(SiteKind.UNKNOWN))
        named = {
            (idx, member_idx)
            for idx, fold_class in enumerate(self.classes)
            for member_idx, member in enumerate(fold_class.members)
            if site.kind is SiteKind.IMPORT and member.name == site.symbol
        }
        if callees:
            return self.reached(callees, body, seen)
        if site.kind is SiteKind.DIRECT:
            target = site.target // BODY_BYTES - 1
            if target == body or not 0 <= target < len(self.classes):
                return everything
            return self.reached(set(self.candidates(target)), body, seen)
        if site.kind is SiteKind.IMPORT:
            return self.reached(named, body, seen) or everything
        if site.kind is SiteKind.INDIRECT:
            slots = {self.slots.get(return_address, ANY_POINTER)}
            return self.by_slots(slots, body, seen) or self.by_slots(slots, body, UNSEEN)
        return everything

    def from_outside(self, body: int, seen: Seen) -> set[Candidate]:
        everything = set(self.candidates(body))
        if len(everything) == 1:
            return everything
        by_pointer = self.by_slots({ANY_POINTER}, body, UNSEEN)
        return self.by_slots({ANY_POINTER}, body, seen) or by_pointer or everything

    def judged(self, frames: list[Frame]) -> list[Frame]:
        """The frames; 0 for an address that follows no call, which says nothing about its neighbours."""
        kinds = [self.sites[each].kind if each in self.sites else SiteKind.UNKNOWN for each in frames]
        return [
            0 if idx and kind is SiteKind.NONE else frame
            for idx, (frame, kind) in enumerate(zip(frames, kinds, strict=True))
        ]

    def seen(self, frames: list[Frame], vptrs: dict[int, int]) -> list[Seen]:
        """The vtable pointers that count."""
        found = []
        for idx, frame in enumerate(frames):
            body = frame // BODY_BYTES - 1 if frame else None
            own = next((vtable for vtable in self.vtables if vtable.vaddr == vptrs.get(idx)), None)
            is_entry = idx == 0 and body is not None and frame == start(body)
            if own is not None and body is not None and not is_entry:
                group = [vtable.vaddr for vtable in self.vtables if vtable.group == own.group]
                inner = {each // BODY_BYTES - 1 for each in frames[:idx] if each}
                named = any("D1E" in member.name for each in inner for member in self.classes[each].members)
                held = [where for each in inner | {body} for where in self.addresses.get(start(each), ())]
                if named or any(own.group <= where <= max(group) for where in held):
                    own = None
            found.append(Seen(own.vaddr if own is not None else 0, is_entry))
        return found

    def assignments(self, frames: list[Frame], seen: list[Seen]) -> list[set[Candidate]] | None:
        """What each frame is in at least one allowed assignment; None if there is no such assignment."""
        choices: list[list[Candidate | None]] = [
            [*self.candidates(frame // BODY_BYTES - 1)] if frame else [None] for frame in frames
        ]
        pairs = {
            (idx, callee, caller)
            for idx in range(len(frames) - 1)
            for callee in choices[idx]
            for caller in choices[idx + 1]
            if callee is None
            or frames[idx + 1] == 0
            or (caller is None and (idx == 0 or callee in self.from_outside(callee[0], seen[idx])))
            or (caller is not None and callee in self.allowed(frames[idx + 1] or 0, caller, callee[0], seen[idx]))
        }
        found: list[set[Candidate]] = [set() for _ in frames]
        possible = False
        for chosen in product(*choices):
            if all((idx, chosen[idx], chosen[idx + 1]) in pairs for idx in range(len(frames) - 1)):
                possible = True
                for idx, candidate in enumerate(chosen):
                    if candidate is not None:
                        found[idx].add(candidate)
        return found if possible else None

    def resolve(self, frames: list[Frame], seen: list[Seen]) -> tuple[list[set[Candidate]], set[int]]:
        """The candidates of each frame, and the frames of pairs that had to be cut."""
        for first in reversed(range(len(frames))):
            if self.assignments(frames[first:], seen[first:]) is None:
                inner, inner_broken = self.resolve(frames[: first + 1], seen[: first + 1])
                outer = self.assignments(frames[first + 1 :], seen[first + 1 :])
                assert outer is not None
                return inner + outer, inner_broken | {first, first + 1}
        return self.assignments(frames, seen) or [], set()


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


@settings(max_examples=600, deadline=None)
@given(st.data(), worlds())
def test_the_answer_is_what_all_assignments_give(data: st.DataObject, world: World) -> None:
    resolver = Resolver(world.program())
    bodies = st.integers(0, len(world.classes) - 1)
    frame = st.one_of(st.builds(ret, bodies, st.integers(0, 1)), st.builds(ret, bodies, st.integers(0, 1)), st.none())
    for _ in range(4):
        innermost = data.draw(st.sampled_from([pc, start]))
        frames = [innermost(data.draw(bodies)), *data.draw(st.lists(frame, max_size=5))]
        pointers = st.sampled_from([0, 0x5, *(vtable.vaddr for vtable in world.vtables)])
        vptrs = data.draw(st.dictionaries(st.integers(0, len(frames) - 1), pointers))
        judged = world.judged(frames)
        expected, broken = world.resolve(judged, world.seen(judged, vptrs))
        answers = resolver.resolve(tuple(frames), tuple(sorted(vptrs.items())))
        assert len(answers) == len(frames)
        for idx, (answer, candidates) in enumerate(zip(answers, expected, strict=True)):
            where = judged[idx]
            if not where:
                assert answer.verdict is Verdict.UNKNOWN
                continue
            fold_class = world.classes[where // BODY_BYTES - 1]
            names = [member.name for member in fold_class.members]
            listed = [names[idx] for _, idx in sorted(candidates) if idx < len(names)]
            if len(world.candidates(where // BODY_BYTES - 1)) == 1:
                assert (answer.verdict, answer.linkage_name) == (Verdict.UNMERGED, names[0])
            elif idx in broken:
                assert (answer.verdict, list(answer.candidates)) == (Verdict.CONTRADICTED, names)
            elif len(candidates) == 1 and listed:
                assert (answer.verdict, answer.linkage_name) == (Verdict.UNIQUE, listed[0])
            else:
                assert answer.verdict is (Verdict.AMBIGUOUS if listed == names else Verdict.NARROWED)
                assert list(answer.candidates) == listed


def test_the_oracle_sees_every_kind_of_answer() -> None:
    """Random worlds are no test if they hold nothing but ambiguous frames."""
    seen: set[Verdict] = set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(st.data(), worlds())
    def collect(data: st.DataObject, world: World) -> None:
        bodies = st.integers(0, len(world.classes) - 1)
        stack = [pc(data.draw(bodies)), *data.draw(st.lists(st.builds(ret, bodies, st.just(0)), max_size=4))]
        seen.update(answer.verdict for answer in Resolver(world.program()).resolve(tuple(stack)))

    collect()
    assert seen >= {Verdict.UNMERGED, Verdict.UNIQUE, Verdict.NARROWED, Verdict.AMBIGUOUS, Verdict.CONTRADICTED}
