"""What is merged in an image: which functions share a body, what that saves, and what keeps a frame of it open.

A doubt is what the tables leave open whatever the profile. Where a body has none, any stack that reaches from the frame
to a caller that is not merged tells its functions apart. Doubts spread from the bodies of callers to those that they
call:

    a, b share a body, a pointer leads to both        a calls x, b calls y; x and y share a body
    POINTERS                                          CALLERS, as a frame of the first may be open
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from icf.demangle import demangle
from icf.model import ClassFlag, Member, MemberFlag
from unwind.program.program import Body, Program
from unwind.report.data import Doubt, Image, MergedBody, MergedFunction
from unwind.symcache.reader.symcache import SymCache


def merged_bodies(program: Program, sampled: Iterable[Body] = (), image_idx: int = 0) -> list[MergedBody]:
    """Return the merged bodies of a program, by address: all that its tables list, of others the `sampled` ones."""
    listed = [body for body in program.bodies if len(body.members) > 1]
    others = {body.start: body for body in sampled if body.class_idx < 0}
    bodies = sorted([*listed, *others.values()], key=lambda body: body.start)
    doubts = _doubts(program, bodies)
    return [_merged(program, body, image_idx, tuple(doubts.get(body, ()))) for body in bodies]


def facts_of(path: str, build_id: bytes, program: Program, bodies: Sequence[MergedBody]) -> Image:
    """Return how much of an image is merged; `bodies` are its merged ones."""
    in_doubt = [body for body in bodies if body.doubts]
    return Image(
        path,
        build_id.hex(),
        bool(program.bodies),
        bool(bodies) or (isinstance(program.lines, SymCache) and program.lines.shares_bodies()),
        len(bodies),
        sum(len(body.functions) for body in bodies),
        sum(body.saved_bytes for body in bodies),
        len(in_doubt),
        sum(len(body.functions) for body in in_doubt),
    )


def kept_idx(members: Sequence[Member]) -> int:
    """Return the member whose symbol the linker kept; the first, where that is not known."""
    return next((idx for idx, member in enumerate(members) if member.flags & MemberFlag.KEPT), 0)


def _merged(program: Program, body: Body, image_idx: int, doubts: tuple[Doubt, ...]) -> MergedBody:
    kept, pointed_at = kept_idx(body.members), program.by_ways(body)
    functions = tuple(
        MergedFunction(
            demangle(member.name),
            "" if member.flags & MemberFlag.NAMELESS else member.name,
            idx == kept,
            bool(pointed_at >> idx & 1),
        )
        for idx, member in enumerate(body.members)
    )
    return MergedBody(image_idx, body.start, body.fold.size_bytes, functions, doubts)


def _doubts(program: Program, bodies: Sequence[Body]) -> dict[Body, list[Doubt]]:
    doubts: dict[Body, list[Doubt]] = {}
    for body in bodies:
        flags = body.fold.flags
        own = {
            Doubt.UNNAMED: not flags & ClassFlag.MEMBERS_COMPLETE,
            Doubt.UNRECORDED: not flags & ClassFlag.CALLS_COMPLETE,
            Doubt.POINTERS: program.by_ways(body).bit_count() > 1,
        }
        if any(own.values()):
            doubts[body] = [doubt for doubt, holds in own.items() if holds]
    jumps = _jumps(program)
    todo = list(doubts)
    while todo:
        for called in _called_differently(program, todo.pop(), jumps):
            if called not in doubts:
                todo.append(called)
            known = doubts.setdefault(called, [])
            if Doubt.CALLERS not in known:
                known.append(Doubt.CALLERS)
    return doubts


_Jumps = dict[int, list[tuple[int, int]]]  # a function -> address of a jump, and the function it leads to or its class


def _jumps(program: Program) -> _Jumps:
    found: _Jumps = {}
    for jump, caller, callee in program.tail_calls:
        found.setdefault(caller, []).append((jump, callee))
    return found


def _called_differently(program: Program, body: Body, jumps: _Jumps) -> Iterator[Body]:
    """Yield the bodies of which functions that share `body` call different members at one place."""
    for return_address in program.call_sites(body):
        by_member = program.callees(return_address, body).values()
        yield from _several(program, {callee for callees in by_member for callee, _ in callees})
    at: dict[int, set[int]] = {}
    for function in body.nodes:
        for jump, callee in jumps.get(function, ()):
            if callee < 0:
                yield program.body_of_class_node(callee)
            else:
                at.setdefault(jump, set()).add(callee)
    for callees in at.values():
        yield from _several(program, callees)


def _several(program: Program, callees: set[int]) -> Iterator[Body]:
    seen: set[Body] = set()
    for callee in callees:
        body = program.candidates[callee][0]
        if body in seen:
            yield body
        seen.add(body)
