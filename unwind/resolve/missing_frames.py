"""The frames that are missing from a stack because their functions left by tail calls.

The call before a return address enters s, and the frame above it is in t: s has tail-called t, perhaps through others,
and its frame is gone. If the code allows only one path from s to t, the frames that would be there are known:

    called   s               s: jmp x            missing: s, x, with the addresses of their jumps
    frame    t               x: jmp t

If there are several paths, the common beginning and the common end of all of them are still certain, and nothing else
is (gdb follows the same rule, for the call sites that DWARF describes):

    s: jmp x     x: je y ; jmp z     y: jmp w     z: jmp w     w: jmp t         s, x, then unknown, w

x is certain and its jump is not, so that frame has no address. A circle, as of two functions that jump to each other,
is a path that may be taken any number of times: an answer must hold for each of them. If a function on the path may
jump to an unknown place, nothing is certain after it. A single path to t with one unknown jump does not count: not
everything that lies on a stack was called (signal handlers return to code that no function called).

A missing frame of a merged function has the candidates that some path allows.
"""

from __future__ import annotations

from typing import NamedTuple

from unwind.program.parts import SiteKind
from unwind.program.program import Body
from unwind.program.ways import bits
from unwind.resolve.tailpaths import TailPaths, Walks


class MissingFrame(NamedTuple):
    """A function that left by the tail call at `jump` (0: by one of several); `members` are those it can be."""

    body: Body
    members: int
    jump: int


class MissingFrames:
    """Finds missing frames, and remembers each answer."""

    def __init__(self) -> None:
        self._paths = TailPaths()
        self._known: dict[tuple[Body, int, Body, int], tuple[MissingFrame, ...]] = {}

    def between(
        self, return_address: int, caller: Body, callers: int, callee: Body, left: int
    ) -> tuple[MissingFrame, ...]:
        """Return the frames between the one in `callee` and its caller, innermost first.

        `callers` are the members that the caller can be, `left` those that the frame itself can be.
        """
        entered = entered_by(return_address, caller, callers, callee)
        if entered is None:
            return ()
        start, members = entered
        if start is callee:
            return ()
        key = (start, members, callee, left)
        missing = self._known.get(key)
        if missing is None:
            walks = self._paths.between(start, members, callee, left)
            missing = self._known[key] = () if walks is None else certain(walks)
        return missing


def entered_by(return_address: int, caller: Body, callers: int, callee: Body) -> tuple[Body, int] | None:
    """Return the function that the call before `return_address` enters.

    The result is its body and possible members; None: not known. Most calls enter `callee`, and are done with quickly.
    """
    program = caller.program
    site = program.code.call_site(return_address)
    if site.kind is SiteKind.DIRECT and site.target == callee.start and caller.program is callee.program:
        return callee, callee.domain  # whatever a record states: the code calls that body
    records = program.callees(return_address, caller)
    nodes: set[int] = set()
    for idx in bits(callers):
        if idx in records:
            nodes.update(node for node, _ in records[idx])
            callers &= ~(1 << idx)
    if callers:
        if site.kind is SiteKind.DIRECT:
            target = program.body_at(site.target)
            if target is None or target.start != site.target:
                return None
            nodes.update(target.nodes)
        elif site.kind is SiteKind.IMPORT:
            named = program.nodes_named(site.symbol, caller)
            if not named:
                return None
            nodes.update(named)
        else:
            return None
    bodies = {program.candidates[node][0] for node in nodes}
    if len(bodies) != 1:
        return None
    body = bodies.pop()
    return body, body.mask_of(nodes)


def certain(walks: Walks) -> tuple[MissingFrame, ...]:
    """Return the common part of all walks: frames at the caller's end and at the callee's end, innermost first."""
    first, last = _beginning(walks), _ending(walks)
    length = _shortest(walks)
    if len(first) + len(last) > length:  # they overlap: the same frames, seen from both ends
        first = first[: length - len(last)]
    frames = [MissingFrame(body, walks.members[body], jump) for body, jump in (*first, *last)]
    return tuple(reversed(frames))


def _beginning(walks: Walks) -> list[tuple[Body, int]]:
    """Return the bodies that every walk begins with, and their jumps."""
    found: dict[Body, int] = {}
    body = walks.start
    while body not in found:
        ways = [step for step in walks.steps if step.source is body]
        jumps = {step.jump for step in ways} | walks.open.get(body, frozenset())
        found[body] = jumps.pop() if len(jumps) == 1 else 0
        targets = {step.target for step in ways}
        if len(targets) != 1 or body in walks.open or walks.end in targets:
            break
        body = targets.pop()
    return list(found.items())


def _ending(walks: Walks) -> list[tuple[Body, int]]:
    """Return the bodies that every walk ends with, and their jumps."""
    if walks.open:
        return []
    found: dict[Body, int] = {}
    body = walks.end
    while True:
        ways = [step for step in walks.steps if step.target is body]
        sources = {step.source for step in ways}
        if len(sources) != 1 or (found and body is walks.start):
            break
        body = sources.pop()
        if body in found:
            break
        found[body] = ways[0].jump if len({step.jump for step in ways}) == 1 else 0
    return list(found.items())[::-1]


def _shortest(walks: Walks) -> int:
    """Return the jumps of the shortest walk, which is one at least."""
    length, reached = 1, {walks.start}
    while True:
        targets = {step.target for step in walks.steps if step.source in reached}
        if walks.end in targets or targets <= reached:
            return length
        reached |= targets
        length += 1
