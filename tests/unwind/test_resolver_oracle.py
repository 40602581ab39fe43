"""The resolver against brute force: every assignment of random small stacks, pair by pair.

The oracle knows the rules from plain data only: it follows jumps by plain recursion, enumerates all
assignments of a stack, and takes for each frame the members it has in one that all pairs allow. Where there
is none, it cuts the outermost pair that makes it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from icf.model import ClassFlag, FoldClass, MemberFlag, TailCall, Verdict
from tests.unwind.support import BODY_BYTES, call, exports, fold, pc, ret, start, tail
from unwind.program import CallRecord, CallSite, Jumps, ListedCode, Program, SiteKind
from unwind.resolver import Resolver

Candidate = tuple[int, int]  # body, member; the member after the last stands for one that is not listed
Frame = int | None


@dataclass(frozen=True)
class World:
    """A program as plain data."""

    classes: list[FoldClass]
    records: list[CallRecord]
    tails: list[TailCall]
    sites: dict[int, CallSite]
    jumps: dict[int, Jumps | None]

    def program(self) -> Program:
        code = ListedCode(self.sites, self.jumps)
        return Program(self.classes, self.records, self.tails, code, exports=exports(*self.classes))

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

    def pointed_at(self) -> frozenset[Candidate]:
        """Who an indirect call leads to: those whose marks say so or are not known, and all that they jump to."""
        seen: set[Candidate] = set()
        for body, fold_class in enumerate(self.classes):
            known = fold_class.flags & ClassFlag.ADDRESS_TAKEN_KNOWN
            for who in self.candidates(body):
                listed = who[1] < len(fold_class.members)
                if not known or not listed or fold_class.members[who[1]].flags:
                    self._follow(who, seen)
        return frozenset(seen)

    def _follow(self, who: Candidate, seen: set[Candidate]) -> None:
        if who in seen:
            return
        seen.add(who)
        is_complete = self.classes[who[0]].flags & ClassFlag.MEMBERS_COMPLETE
        for one in self.tails:
            callee = (one.callee.class_idx, one.callee.member_idx)
            if is_complete and (one.caller.class_idx, one.caller.member_idx) == who:
                self._follow(callee, seen)
            elif not is_complete and one.caller.class_idx == who[0]:
                listed = one.caller.member_idx == who[1]
                unlisted = who[1] == len(self.classes[who[0]].members)
                for other in self.candidates(callee[0]) if listed or unlisted else ():
                    self._follow(other, seen)

    def reach(self, who: Candidate, seen: frozenset[Candidate] = frozenset()) -> tuple[frozenset[Candidate], bool]:
        """All that `who` can get to, and whether it can get to anywhere as well."""
        seen |= {who}
        body = who[0]
        jumps = self.jumps[start(body)]
        wild = jumps is None or jumps.indirect
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

    def reached(self, callees: set[Candidate], body: int) -> tuple[set[Candidate], bool]:
        """Who of the body is called when one of `callees` is, and whether that is sure."""
        everything = set(self.candidates(body))
        reached = [self.reach(callee) for callee in callees]
        found = everything & set().union(*(nodes for nodes, _ in reached))
        if not any(wild for _, wild in reached):
            return found, True
        return (found | self.by_pointer(body) if found else everything), False

    def allowed(self, return_address: int, caller: Candidate, body: int) -> set[Candidate]:
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
            return self.reached(callees | named, body)[0]
        if site.kind is SiteKind.DIRECT:
            target = site.target // BODY_BYTES - 1
            if target == body or not 0 <= target < len(self.classes):
                return everything
            return self.reached(set(self.candidates(target)), body)[0]
        if site.kind is SiteKind.IMPORT:
            return self.reached(named, body)[0] or everything
        if site.kind is SiteKind.INDIRECT:
            return self.by_pointer(body)
        return everything

    def by_pointer(self, body: int) -> set[Candidate]:
        everything = set(self.candidates(body))
        known_marks = self.classes[body].flags & ClassFlag.ADDRESS_TAKEN_KNOWN
        return everything & self.pointed_at() if known_marks else everything

    def from_outside(self, body: int) -> set[Candidate]:
        everything = set(self.candidates(body))
        if not self.classes[body].flags & ClassFlag.ADDRESS_TAKEN_KNOWN or len(everything) == 1:
            return everything
        return everything & self.pointed_at() or everything

    def assignments(self, frames: list[Frame]) -> list[set[Candidate]] | None:
        """What each frame is in at least one allowed assignment; None if there is no such assignment."""
        choices: list[list[Candidate | None]] = [
            [None] if frame is None else [*self.candidates(frame // BODY_BYTES - 1)] for frame in frames
        ]
        pairs = {
            (idx, callee, caller)
            for idx in range(len(frames) - 1)
            for callee in choices[idx]
            for caller in choices[idx + 1]
            if callee is None
            or (caller is None and (idx == 0 or callee in self.from_outside(callee[0])))
            or (caller is not None and callee in self.allowed(frames[idx + 1] or 0, caller, callee[0]))
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

    def resolve(self, frames: list[Frame]) -> tuple[list[set[Candidate]], set[int]]:
        """The candidates of each frame, and the frames of pairs that had to be cut."""
        for first in reversed(range(len(frames))):
            if self.assignments(frames[first:]) is None:
                inner, inner_broken = self.resolve(frames[: first + 1])
                outer = self.assignments(frames[first + 1 :])
                assert outer is not None
                return inner + outer, inner_broken | {first, first + 1}
        return self.assignments(frames) or [], set()


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
    return World(classes, records, tails, sites, jumps)


@settings(max_examples=600, deadline=None)
@given(st.data(), worlds())
def test_the_answer_is_what_all_assignments_give(data: st.DataObject, world: World) -> None:
    resolver = Resolver(world.program())
    bodies = st.integers(0, len(world.classes) - 1)
    frame = st.one_of(st.builds(ret, bodies, st.integers(0, 1)), st.builds(ret, bodies, st.integers(0, 1)), st.none())
    for _ in range(4):
        frames = [pc(data.draw(bodies)), *data.draw(st.lists(frame, max_size=5))]
        expected, broken = world.resolve(frames)
        answers = resolver.resolve(tuple(frames))
        assert len(answers) == len(frames)
        for idx, (answer, candidates) in enumerate(zip(answers, expected, strict=True)):
            where = frames[idx]
            if where is None:
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
