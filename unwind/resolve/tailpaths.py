"""All paths by which tail calls lead from one function to another, as a graph of bodies.

A jump goes to one body from each member, so bodies are the vertices, and each vertex carries the members that a walk
from the start to the end can be in there: those that are reached from the start and reach the end.

    call f          f: jmp g        recorded for member f of body 1, whose other member jumps to h
                    g: je t         body 1 {f} -> body 2 {g} -> body 3 {t}
                    g: jmp *rax     and from body 2 to any function: `open`

An outlined part of a function (`f.cold`) belongs to its function: a jump there is not a call. The code has the targets
of jumps, and `.debug_icf` the callee that a jump means in each member. The walk stops after a number of bodies, as
it may come to a program's dispatcher that reaches everything, and then there is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from icf.aliases import base_name, is_cold_part
from unwind.program.program import Body, Program
from unwind.program.ways import bits

_BODY_LIMIT = 64
_FEW = 16  # members, or pairs of them


@dataclass(frozen=True, slots=True)
class Exit:
    """A jump to the start of `target`; `pairs` are the (members that jump, members that they may mean)."""

    jump: int
    target: Body
    pairs: tuple[tuple[int, int], ...]
    _callees: dict[int, int] = field(default_factory=dict, compare=False, repr=False)  # by member that jumps
    _callers: dict[int, int] = field(default_factory=dict, compare=False, repr=False)  # by member that is meant

    def forward(self, callers: int) -> int:
        """Return the members that jumps of these may mean."""
        if self._is_long(callers):
            known = self._callees or _by_member(self.pairs, self._callees)
            return _union(known.get(idx, 0) for idx in bits(callers))
        return _union(callees for mine, callees in self.pairs if mine & callers)

    def backward(self, callees: int) -> int:
        """Return the members whose jumps may mean some of these."""
        if self._is_long(callees):
            turned = ((theirs, mine) for mine, theirs in self.pairs)
            known = self._callers or _by_member(turned, self._callers)
            return _union(known.get(idx, 0) for idx in bits(callees))
        return _union(mine for mine, theirs in self.pairs if theirs & callees)

    def _is_long(self, asked: int) -> bool:
        """Return whether it is faster to look up each member: bodies may have thousands, of which one is asked for."""
        return len(self.pairs) > _FEW >= asked.bit_count()


@dataclass(frozen=True, slots=True)
class Exits:
    """The exits of a function; `open`: the jumps that may lead to any function, 0 for those that are not known."""

    jumps: tuple[Exit, ...]
    open: frozenset[int]
    parts: frozenset[Body]  # outlined, whose exits are among these


@dataclass(frozen=True, slots=True)
class Step:
    """A jump of a walk, from one body to another."""

    source: Body
    jump: int
    target: Body


@dataclass(frozen=True, slots=True)
class Walks:
    """The walks from `start` to `end`, which differ; by body: the members there, the jumps that some walk takes."""

    start: Body
    end: Body
    members: Mapping[Body, int]
    steps: tuple[Step, ...]
    open: Mapping[Body, frozenset[int]]  # jumps to unknown targets, also of bodies that no known walk meets


class TailPaths:
    """The walks in a program, or in all modules of a process, as a body has its own program."""

    def __init__(self) -> None:
        self._exits: dict[Body, Exits] = {}
        self._reached: dict[tuple[Body, int], dict[Body, int] | None] = {}
        self._recorded: dict[Program, dict[int, list[tuple[int, int]]]] = {}

    def between(self, start: Body, members: int, end: Body, end_members: int) -> Walks | None:
        """Return the walks of one jump or more from one of `members` of `start` to one of `end`.

        None if some may be unknown.
        """
        reached = self._reach(start, members)
        if reached is None:
            return None
        ends = [body for body in reached if body is end or end in self.exits(body).parts]
        slots = {} if ends else self._through_slots(reached, end)
        if slots:  # no other path is known, so one of these jumps was taken: at the end, or before another at the end
            ends, reached = [end], {**reached, end: end_members}
        if len(ends) != 1:
            return None
        if ends[0] is not end:
            end, end_members = ends[0], ends[0].domain
        if end is start:
            return None
        ends_in = {end: end_members & reached[end]}
        reaching = self._reaching(reached, ends_in, slots)
        if not reaching.get(start, 0) & members:
            return None
        ways_out = {body: self.exits(body).open for body in reached if self.exits(body).open}
        if ways_out:  # from there control may come to the end, too
            reaching = self._reaching(reached, {**ends_in, **{body: reached[body] for body in ways_out}}, slots)
        steps = [
            Step(body, way.jump, way.target)
            for body in reaching
            for way in (*self.exits(body).jumps, *slots.get(body, ()))
            if way.target is not body and way.forward(reaching[body]) & reaching.get(way.target, 0)
        ]
        return Walks(start, end, reaching, tuple(steps), ways_out)

    def _reach(self, start: Body, members: int) -> dict[Body, int] | None:
        """Return the members that control can reach; None: too many to follow."""
        key = (start, members)
        if key in self._reached:
            return self._reached[key]
        reached = {start: members}
        todo = [start]
        while todo and len(reached) <= _BODY_LIMIT:
            body = todo.pop()
            for way in self.exits(body).jumps:
                known = reached.get(way.target, 0)
                now = known | way.forward(reached[body])
                if now != known:
                    reached[way.target] = now
                    todo.append(way.target)
        found = None if todo else reached
        self._reached[key] = found
        return found

    def _through_slots(self, reached: Mapping[Body, int], end: Body) -> dict[Body, list[Exit]]:
        """Return jumps of bodies through slots of vtables that hold functions of `end`.

        They may also lead elsewhere.
        """
        found: dict[Body, list[Exit]] = {}
        for body in reached:
            for jump, slot in body.program.slot_jumps(body) if body.program is end.program else ():
                members = end.program.dispatch.slots.in_slot_of_class(slot, end.class_idx)
                if members:
                    found.setdefault(body, []).append(Exit(jump, end, ((body.domain, members),)))
        return found

    def _reaching(
        self, reached: Mapping[Body, int], ends: Mapping[Body, int], slots: Mapping[Body, Iterable[Exit]]
    ) -> dict[Body, int]:
        """Return the `reached` from which a walk comes to one of `ends`; `slots` are further exits."""
        sources: dict[Body, list[tuple[Body, Exit]]] = {}
        for body in reached:
            for way in (*self.exits(body).jumps, *slots.get(body, ())):
                sources.setdefault(way.target, []).append((body, way))
        reaching = dict(ends)
        todo = list(ends)
        while todo:
            target = todo.pop()
            for body, way in sources.get(target, ()):
                known = reaching.get(body, 0)
                now = known | way.backward(reaching[target]) & reached[body]
                if now != known:
                    reaching[body] = now
                    todo.append(body)
        return {body: members for body, members in reaching.items() if members}

    def exits(self, body: Body) -> Exits:
        """Return the exits of a function and its outlined parts."""
        exits = self._exits.get(body)
        if exits is None:
            exits = self._exits[body] = self._find_exits(body)
        return exits

    def _find_exits(self, whole: Body) -> Exits:
        program = whole.program
        ways: list[Exit] = []
        unknown: set[int] = set()
        bodies = [whole]
        for body in bodies:  # grows as outlined parts are met
            jumps = program.code.jumps(body.start, body.end)
            if jumps is None or jumps.indirect:
                unknown.add(0)
            for jump, target in jumps.direct if jumps else ():
                landed = program.body_at(target)
                if landed in bodies and (landed is not whole or body is not whole):
                    continue  # within the function
                if landed is not None and _is_part(whole, landed):
                    bodies.append(landed)
                elif landed is None or landed.start != target:
                    unknown.add(jump)
                else:
                    ways.append(Exit(jump, landed, self._pairs(jump, body, landed, landed.domain, whole)))
            for jump, symbol in jumps.imports if jumps else ():
                named = program.nodes_named(symbol, body)
                landings = {program.candidates[node][0] for node in named}
                for landed in landings:
                    ways.append(Exit(jump, landed, self._pairs(jump, body, landed, landed.mask_of(named), whole)))
                if len(landings) != 1 and (landings or program.comes_back(symbol)):
                    unknown.add(jump)
        return Exits(tuple(ways), frozenset(unknown), frozenset(bodies[1:]))

    def _records_of(self, program: Program) -> dict[int, list[tuple[int, int]]]:
        """Return the recorded tail calls, caller and callee (or class node), by jump."""
        recorded = self._recorded.get(program)
        if recorded is None:
            recorded = self._recorded[program] = {}
            for jump, caller, callee in program.tail_calls:
                recorded.setdefault(jump, []).append((caller, callee))
        return recorded

    def _pairs(self, jump: int, body: Body, landed: Body, anyone: int, whole: Body) -> tuple[tuple[int, int], ...]:
        """Return the targets of the jump for each member of `whole`; `anyone` is used where no record exists."""
        if body is not whole:
            return ((whole.domain, anyone),)  # the members of an outlined part are not distinguished
        pairs: dict[int, int] = {}
        unrecorded = body.domain
        for caller, callee in self._records_of(body.program).get(jump, ()):
            mask = body.mask_of([caller])
            meant = body.program.nodes_of_class_node(callee) if callee < 0 else (callee,)
            pairs[mask] = pairs.get(mask, 0) | landed.mask_of(meant)
            unrecorded &= ~mask
        if unrecorded and (landed is not body or not body.program.tail_calls_known):
            pairs[unrecorded] = anyone
        callers_of: dict[int, int] = {}
        for callers, callees in pairs.items():
            callers_of[callees] = callers_of.get(callees, 0) | callers
        return tuple((callers, callees) for callees, callers in callers_of.items() if callers and callees)


def _is_part(whole: Body, part: Body) -> bool:
    """Return whether `part` is code of a function of `whole` that a compiler has outlined."""
    if part.is_fragment:
        return any(whole.mask_of(part.program.parts(node)) for node in part.nodes)
    names = {base_name(member.name) for member in whole.members}
    return any(is_cold_part(member.name) and base_name(member.name) in names for member in part.members)


def _by_member(pairs: Iterable[tuple[int, int]], found: dict[int, int]) -> dict[int, int]:
    """Fill `found` with what the pairs have for each member of their first masks."""
    for members, others in pairs:
        for idx in bits(members):
            found[idx] = found.get(idx, 0) | others
    return found


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found
