"""Between two frames: which members of the callee's body may have been called by which of the caller's.

A relation belongs to a return address and the body that the frame above it lies in. Its groups split the
caller's candidates by what they allow. The first rule that applies to a candidate decides:

1. It has a record at the return address: the recorded callee, and what that reaches by jumps; where an indirect
   jump is within reach, also the members that a pointer may lead to, or all of the body if nothing else is in it.
   It may be nothing.
2. The instruction there is a direct call: all members of the body if it goes there, else what the code
   lets the functions at its target reach.
3. It is a call through a PLT stub: the member that the symbol names, if this image defines it and the
   body is within its reach; else another module answers the call, and nothing is known.
4. It is an indirect call: the members that a pointer may lead to, and those that they reach by tail calls.
5. It is no call at all (a signal frame, a bad unwind), or unreadable: nothing is known.

A frame outside of the image, too, can only have had a pointer, or a name that the image exports: rule 4. That is not
held against an innermost frame, whose caller a profiler may have missed.

A body with a single candidate allows everything: whoever called it, its name is sure. (A stack that lost a
frame, as frame pointers do in leaf functions, then says nothing wrong about the frames around the gap.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from icf.model import Evidence
from unwind.callgraph import CallGraph
from unwind.program import Body, Program, SiteKind

FOREIGN = 1  # the only candidate of a frame outside of the image


@dataclass(frozen=True, slots=True)
class Group:
    """Caller candidates that allow the same of the callee's, and what that rests on (None: on nothing)."""

    callers: int
    allowed: int
    evidence: Evidence | None


@dataclass(frozen=True, slots=True)
class Relation:
    """The pairs allowed at one return address; `why` says what leaves the callees of `open_callers` open."""

    groups: tuple[Group, ...]
    why: str = ""
    open_callers: int = 0

    def forward(self, callers: int) -> int:
        """The callees that one of `callers` allows."""
        callees = 0
        for group in self.groups:
            if group.callers & callers:
                callees |= group.allowed
        return callees

    def backward(self, callers: int, callees: int) -> int:
        """Those of `callers` that allow one of `callees`."""
        kept = 0
        for group in self.groups:
            if group.allowed & callees:
                kept |= group.callers & callers
        return kept

    def evidence(self, callers: int, callees: int) -> Evidence | None:
        """The weakest evidence on which a pair of the two sets rests."""
        weakest: Evidence | None = None
        for group in self.groups:
            if group.callers & callers and group.allowed & callees and group.evidence is not None:
                weakest = group.evidence if weakest is None else max(weakest, group.evidence)
        return weakest


class Relations:
    """The relations of a program, each worked out once."""

    def __init__(self, program: Program, graph: CallGraph | None = None) -> None:
        self._program = program
        self._graph = graph or CallGraph(program)
        self._known: dict[tuple[int, int], Relation] = {}

    def between(self, return_address: int, caller: Body, callee: Body) -> Relation:
        """The relation of a frame in `callee` to the frame in `caller` that it returns to."""
        key = (return_address, callee.first_node)
        relation = self._known.get(key)
        if relation is None:
            relation = self._known[key] = self._relate(return_address, caller, callee)
        return relation

    def from_outside(self, callee: Body) -> Relation | None:
        """The relation of a frame in `callee` to one outside of the image: a pointer was what it had."""
        allowed = self._program.by_pointer(callee)
        if allowed in (0, callee.domain):
            return None
        return Relation((Group(FOREIGN, allowed, Evidence.DECODED),), "call from outside of the image", FOREIGN)

    def _relate(self, return_address: int, caller: Body, callee: Body) -> Relation:
        groups: dict[tuple[int, Evidence | None], int] = {}
        unrecorded = caller.domain
        for idx, callees in self._program.callees(return_address, caller).items():
            limit = self._from_record(callees, callee)
            groups[limit] = groups.get(limit, 0) | 1 << idx
            unrecorded &= ~(1 << idx)
        why = ""
        if unrecorded:
            limit, why = self._from_code(return_address, callee)
            groups[limit] = groups.get(limit, 0) | unrecorded
        return Relation(
            tuple(Group(callers, allowed, evidence) for (allowed, evidence), callers in groups.items()),
            why,
            unrecorded if why else 0,
        )

    def _from_record(self, callees: list[tuple[int, Evidence]], body: Body) -> tuple[int, Evidence | None]:
        nodes = [node for node, _ in callees]
        return self._within_reach(nodes, body, max(evidence for _, evidence in callees))

    def _from_code(self, return_address: int, body: Body) -> tuple[tuple[int, Evidence | None], str]:
        site = self._program.code.call_site(return_address)
        anything = (body.domain, None), f"{site.kind.value} before {return_address:#x}"
        if site.kind is SiteKind.DIRECT:
            anything = anything[0], f"no record of the {site.kind.value} before {return_address:#x}"
            target = self._program.body_at(site.target)
            if target is body or target is None or target.start != site.target:
                return anything  # what is not entered at its start may be bytes that only look like a call
            limit = self._within_reach(target.nodes, body, Evidence.DECODED)
            return anything if limit[1] is None else (limit, "")
        if site.kind is SiteKind.INDIRECT:
            allowed = self._program.by_pointer(body)
            return (allowed, None if allowed == body.domain else Evidence.DECODED), anything[1]
        if site.kind is SiteKind.IMPORT:
            named = self._program.nodes_named(site.symbol)
            limit = self._within_reach(named, body, Evidence.DECODED)
            return (limit, "") if limit[0] and limit[1] is not None else anything
        return anything

    def _within_reach(self, nodes: Iterable[int], body: Body, evidence: Evidence) -> tuple[int, Evidence | None]:
        """The members of the body that one of `nodes` reaches, and what that rests on."""
        allowed, wild = 0, False
        for node in nodes:
            reach = self._graph.reach(node)
            allowed |= body.mask_of(reach.nodes)
            wild |= reach.wild
        if not wild:
            return allowed, evidence
        pointed = self._program.by_pointer(body)
        if not allowed or allowed | pointed == body.domain:
            return body.domain, None
        return (allowed, evidence) if allowed | pointed == allowed else (allowed | pointed, Evidence.DECODED)
