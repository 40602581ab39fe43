"""Between two frames: which members of the callee's body may have been called by which of the caller's.

A relation belongs to a return address and the body that the frame above it lies in. Its groups split the
caller's candidates by what they allow. The first rule that applies to a candidate decides:

1. It has a record at the return address: the recorded callee, and the functions that it reaches by jumps, through slots
   and pointers, too; if it may leave on a path that no table lists, also the members that a pointer may lead to,
   or all of the body if nothing else is in it. The result may be empty.
2. The instruction there is a direct call: all members of the body if it is the target, else the members that the code
   lets the functions at its target reach.
3. It is a call through a PLT stub or a GOT slot: the member that the symbol names, in whichever module defines it, if
   the body is within its reach; else an unknown module answers the call, and no member is excluded. A merged caller
   has the symbol of the member that the linker kept: gold and mold fold callers of functions that they have folded. So
   a symbol of the caller's own module says nothing of a member without a record, or with one of another function.
4. It is a call by a slot, or an indirect call without a known slot: the functions in which that can end, see
   `unwind.program.dispatch`. The vtable pointer of the callee's frame, where it is known, leaves fewer.
5. It is not a call at all (a signal frame, a bad unwind), or unreadable: nothing is known.

A frame in an unknown module, too, can only have had a pointer, or a name that is exported: rule 4. An innermost
frame is exempt, as a profiler may have missed its caller.

If no candidate is compatible with the vtable pointer, the pointer is ignored: it was not this object's.

If frames may be missing between the two, what is possible then is allowed, too (`unwind.resolve.lost_frames`).

A call by a name may be bound to any definition of it, also where a record names the one that the linker saw. Caller and
callee may lie in different modules; if nothing leads from the one to the other, no member is excluded: the loader
itself runs in the place of a function that it binds on its first call.

A body with a single candidate allows everything: its name is certain with any caller. (A stack without a
frame, as frame pointers drop it in leaf functions, then yields no wrong name around the gap.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from icf.model import Evidence
from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.program.reach import CallGraph
from unwind.program.ways import ANY_WAY, Way, bits
from unwind.resolve import reasons
from unwind.resolve.callee import Callee
from unwind.resolve.lost_frames import LostFrames
from unwind.samples.recording import Losses
from unwind.symbolize.reasons import Reason

_FEW_GROUPS = 8  # so few are looked through
_CALLER_LIMIT = 256  # members of a caller for each of which lost frames are looked for
_KEPT_WAYS = 1 << 14
FOREIGN = 1  # the only candidate of a frame outside of the image


class Group(NamedTuple):
    """Caller candidates that allow the same of the callee's, and the evidence for that (None: none).

    `why` is the reason why several of the callee's stay open.
    """

    callers: int
    allowed: int
    evidence: Evidence | None
    why: Reason | None = None


class Left(NamedTuple):
    """What some callers leave of a frame.

    `restricts`: one of these callers allows nothing. `evidence` is the weakest on which a pair rests, `why` the reason
    why one of the callers leaves several callees; None if none does.
    """

    allowed: int
    restricts: bool
    evidence: Evidence | None
    why: Reason | None


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """The pairs allowed at one return address; each caller is in one group at most. Equal ones are one object.

    A body of thousands of members, each with a callee of its own, has as many groups, and mostly one of the members is
    left: then its group is looked up.
    """

    groups: tuple[Group, ...]
    _of_caller: dict[int, Group] = field(default_factory=dict, repr=False)  # by place + 1; if needed
    _left: dict[int, Left] = field(default_factory=dict, repr=False)  # by callers

    def _of(self, callers: int) -> Sequence[Group]:
        """Return the groups of some callers."""
        if len(self.groups) <= _FEW_GROUPS or callers & (callers - 1):
            return [group for group in self.groups if group.callers & callers]
        if not self._of_caller:
            self._of_caller.update((idx + 1, group) for group in self.groups for idx in bits(group.callers))
        group = self._of_caller.get(callers.bit_length())
        return () if group is None else (group,)

    def forward(self, callers: int) -> int:
        """Return the callees that one of `callers` allows."""
        callees = 0
        for group in self._of(callers):
            callees |= group.allowed
        return callees

    def left_by(self, callers: int) -> Left:
        """Return what `callers` leave of the frame; made once for each set of them."""
        left = self._left.get(callers)
        if left is None:
            allowed = self.forward(callers)
            restricts = self.backward(callers, allowed) != callers
            left = self._left[callers] = Left(
                allowed, restricts, self.evidence(callers, allowed), self.why_open(callers)
            )
        return left

    def backward(self, callers: int, callees: int) -> int:
        """Return the `callers` that allow one of `callees`."""
        kept = 0
        for group in self._of(callers):
            if group.allowed & callees:
                kept |= group.callers & callers
        return kept

    def why_open(self, callers: int) -> Reason | None:
        """Return why one of `callers` leaves several callees; None if none does."""
        for group in reversed(self._of(callers)):
            if group.allowed & (group.allowed - 1):
                return group.why
        return None

    def evidence(self, callers: int, callees: int) -> Evidence | None:
        """Return the weakest evidence on which a pair of the two sets rests."""
        weakest: Evidence | None = None
        for group in self._of(callers):
            if group.allowed & callees and group.evidence is not None:
                weakest = group.evidence if weakest is None else max(weakest, group.evidence)
        return weakest


class _Limit(NamedTuple):
    """The candidates that a caller candidate allows: as in `Group`."""

    allowed: int
    evidence: Evidence | None
    why: Reason | None = None


class Relations:
    """The relations of frames in all modules of a process, each computed once; addresses are link-time ones."""

    def __init__(self) -> None:
        self._graph = CallGraph()
        self.lost_frames = LostFrames(self._graph)
        self._known: dict[tuple[int, int, Callee, Losses, bool], Relation] = {}
        self._made: dict[tuple[Group, ...], Relation] = {}
        self._ways: dict[tuple[int, int, int], dict[Way, int]] = {}  # of calls, by place and callers
        self._by_way: dict[tuple[Callee, Way], int] = {}

    def between(
        self,
        return_address: int,
        caller: Body,
        callee: Callee,
        losses: Losses = Losses.NONE,
        *,
        only_lost: bool = False,
    ) -> Relation:
        """Return the relation of a frame, `callee`, to the frame in `caller` that it returns to.

        `losses`: frames that may be missing between the two. `only_lost`: one or more are.
        """
        key = (caller.first_node, return_address, callee, losses, only_lost)
        relation = self._known.get(key)
        if relation is None:
            direct = () if only_lost else self._relate(return_address, caller, callee)
            relation = self._of_groups(self._with_losses(direct, return_address, caller, callee, losses))
            self._known[key] = relation
        return relation

    def _with_losses(
        self, direct: tuple[Group, ...], return_address: int, caller: Body, callee: Callee, losses: Losses
    ) -> tuple[Group, ...]:
        """Return groups that also allow what lost frames do."""
        if losses is Losses.NONE:
            return direct
        groups: dict[_Limit, int] = {}
        callers = bits(caller.domain)
        if len(callers) > _CALLER_LIMIT:
            return (Group(caller.domain, callee.body.domain, None, reasons.LOST_CALLER),)
        for idx in callers:
            limit = next(
                (_Limit(group.allowed, group.evidence, group.why) for group in direct if group.callers >> idx & 1),
                _Limit(0, None),
            )
            lost = self.lost_frames.members(return_address, caller, idx, callee, losses)
            if lost & ~limit.allowed:
                evidence = None if lost == callee.body.domain else Evidence.DECODED
                limit = _Limit(limit.allowed | lost, evidence, reasons.LOST_CALLER)
            groups[limit] = groups.get(limit, 0) | 1 << idx
        return tuple(Group(mask, *limit) for limit, mask in groups.items())

    def called_back(self, return_address: int, caller: Body, frame: Callee) -> Relation:
        """Return the relation of a frame to the one that passed its function to the import that it called.

        `unwind.resolve.callbacks` decides whether it is such a frame.
        """
        groups: dict[_Limit, int] = {}
        unknown = caller.domain
        for idx, (callee, evidence) in caller.program.given(return_address, caller).items():
            limit = self._within_reach([callee], frame, evidence)
            groups[limit] = groups.get(limit, 0) | 1 << idx
            unknown &= ~(1 << idx)
        if unknown:
            limit = _Limit(frame.body.domain, None, reasons.open_site(SiteKind.INDIRECT, return_address))
            groups[limit] = groups.get(limit, 0) | unknown
        return self._of_groups(tuple(Group(mask, *limit) for limit, mask in groups.items()))

    def of_one(self, group: Group) -> Relation:
        """Return the relation that has one group."""
        return self._of_groups((group,))

    def from_outside(self, frame: Callee) -> Relation | None:
        """Return the relation of a frame to one in an unknown module, which can only have had a pointer."""
        callee = frame.body
        allowed = frame.by_ways((ANY_WAY,)) or callee.program.by_ways(callee)
        if allowed in (0, callee.domain):
            return None
        return self._of_groups((Group(FOREIGN, allowed, Evidence.DECODED, reasons.FROM_OUTSIDE),))

    def _of_groups(self, groups: tuple[Group, ...]) -> Relation:
        relation = self._made.get(groups)
        if relation is None:
            relation = self._made[groups] = Relation(groups)
        return relation

    def _relate(self, return_address: int, caller: Body, callee: Callee) -> tuple[Group, ...]:
        groups: dict[_Limit, int] = {}
        unrecorded = caller.domain
        crosses = caller.program is not callee.body.program  # from one module to another
        recorded = caller.program.callees(return_address, caller)
        named = self._imported(return_address, caller) if recorded else []
        for idx, callees in recorded.items():
            limit = self._from_record(callees, named, return_address, caller, callee)
            if crosses and not limit.allowed:
                continue
            groups[limit] = groups.get(limit, 0) | 1 << idx
            unrecorded &= ~(1 << idx)
        for limit, callers in self._from_code(return_address, caller, unrecorded, callee) if unrecorded else ():
            if crosses and not limit.allowed:
                limit = _Limit(callee.body.domain, None, limit.why)
            groups[limit] = groups.get(limit, 0) | callers
        return tuple(Group(callers, *limit) for limit, callers in groups.items())

    @staticmethod
    def _imported(return_address: int, caller: Body) -> list[int]:
        """Return the functions, of any module, that have the symbol of the call, if it is one by a name."""
        site = caller.program.code.call_site(return_address)
        return caller.program.nodes_named(site.symbol, caller) if site.kind is SiteKind.IMPORT else []

    def _from_record(
        self, callees: list[tuple[int, Evidence]], named: list[int], return_address: int, caller: Body, frame: Callee
    ) -> _Limit:
        """Return what a record allows; the loader may have bound a call by a name in another module."""
        recorded, program = [node for node, _ in callees], caller.program
        bound = [node for node in named if program.candidates[node][0].program is not program]
        if bound and not caller.settled and not set(named) & set(recorded):
            return _Limit(frame.body.domain, None, reasons.open_site(SiteKind.IMPORT, return_address + program.bias))
        return self._within_reach([*bound, *recorded], frame, max(evidence for _, evidence in callees))

    def _from_code(
        self, return_address: int, caller: Body, callers: int, frame: Callee
    ) -> Iterable[tuple[_Limit, int]]:
        """Yield what the instruction allows, and to which of `callers`."""
        program = caller.program
        site = program.code.call_site(return_address)
        if site.kind is SiteKind.INDIRECT:
            ways = self._ways_of_call(return_address, caller, callers)
            found = [self._along(way, frame) for way in ways]
            # a caller whose objects cannot be those of the frame did not make the call, if another one may have
            if not any(found):
                found = [self._through(way, frame) for way in ways]
            evidence, why = self._of_pointer_call(return_address, program)
            who: dict[int, int] = {}  # the callers by what they allow
            for allowed, some in zip(found, ways.values(), strict=True):
                who[allowed] = who.get(allowed, 0) | some
            for allowed, some in who.items():
                yield _Limit(allowed, None if allowed == frame.body.domain else evidence, why), some
        else:
            yield self._by_name(return_address, caller, frame), callers

    def _ways_of_call(self, return_address: int, caller: Body, callers: int) -> dict[Way, int]:
        key = return_address, caller.first_node, callers
        ways = self._ways.get(key)
        if ways is None:
            if len(self._ways) >= _KEPT_WAYS:
                self._ways.clear()
            ways = self._ways[key] = caller.program.ways_of_call(return_address, caller, callers)
        return ways

    def _along(self, way: Way, frame: Callee) -> int:
        """Return the members that a call through a pointer allows if the object is of the type that it should be."""
        allowed = self._by_way.get((frame, way))
        if allowed is None:
            if len(self._by_way) >= _KEPT_WAYS:
                self._by_way.clear()
            allowed = self._by_way[frame, way] = frame.by_ways((way,), keeps_types=True)
        return allowed

    @staticmethod
    def _through(way: Way, frame: Callee) -> int:
        """Return the members that a call through a pointer allows if the object may be of another type."""
        return frame.by_ways((way,)) or frame.body.program.by_ways(frame.body, (way.untyped,))

    @staticmethod
    def _of_pointer_call(return_address: int, program: Program) -> tuple[Evidence, Reason]:
        """Return the evidence for a call through a pointer, and why it leaves several callees."""
        place = return_address + program.bias
        call = program.slot_calls.get(return_address)
        if call is None:
            return Evidence.DECODED, reasons.open_site(SiteKind.INDIRECT, place)
        return call.evidence, reasons.slot_call(call.slot, place)

    def _by_name(self, return_address: int, caller: Body, frame: Callee) -> _Limit:
        """Return what a call of an address or an import allows."""
        body, program = frame.body, caller.program
        site = program.code.call_site(return_address)
        place = return_address + program.bias
        anything = _Limit(body.domain, None, reasons.open_site(site.kind, place))
        if site.kind is SiteKind.DIRECT:
            target = program.body_at(site.target)
            if target is body or target is None or target.start != site.target:
                return anything  # a target that is not an entry may come from bytes that only look like a call
            limit = self._within_reach(target.nodes, frame, Evidence.DECODED)
            return anything if limit.evidence is None else limit
        if site.kind is SiteKind.IMPORT:
            named = program.nodes_named(site.symbol, caller)
            if not caller.settled and any(program.candidates[node][0].program is program for node in named):
                return anything
            limit = self._within_reach(named, frame, Evidence.DECODED)
            return limit if limit.allowed and limit.evidence is not None else anything
        return anything

    def _within_reach(self, nodes: Collection[int], frame: Callee, evidence: Evidence) -> _Limit:
        """Return the members of the frame's body that one of `nodes` reaches, and the evidence for that."""
        body = frame.body
        allowed, wild = 0, False
        ways: set[Way] = set()
        for node in nodes:
            reach = self._graph.reach(node, body.program.candidates)
            allowed |= body.mask_of(reach.nodes)
            ways |= reach.ways
            wild |= reach.wild
        left_by = {ANY_WAY} if wild else ways
        pointed = frame.by_ways(left_by, keeps_types=allowed != 0) if left_by or body.class_idx < 0 else 0
        if left_by and not allowed | pointed:
            pointed = body.program.by_ways(body, {way.untyped for way in left_by})
        if wild and (not allowed or allowed | pointed == body.domain):
            return _Limit(body.domain, None, reasons.JUMP_TO_ANYWHERE)
        if allowed | pointed != allowed:
            jump = reasons.JUMP_TO_ANYWHERE if wild else reasons.pointer_jump(body.start + body.program.bias)
            return _Limit(allowed | pointed, Evidence.DECODED, jump)
        is_open = allowed & (allowed - 1)
        why = reasons.SEVERAL_CALLEES if len(nodes) > 1 else reasons.SEVERAL_JUMPS
        return _Limit(allowed, evidence, why if is_open else None)
