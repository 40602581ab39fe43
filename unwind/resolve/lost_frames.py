"""What a frame can be if others are missing between it and the caller that the stack shows.

    C    in the stack    its call enters L, or what L reaches by tail calls
    L    missing         its calls enter others, or what they reach by tail calls
    B    in the stack    and these are in the body of B

`Losses.ANY`: one frame may be missing, of any function. `Losses.FRAME_POINTERS`: any number. A walk along frame
pointers goes from B, which has no frame yet, to the caller of the first function that has one where it calls:

    C    in the stack    the frame pointer of L leads here
    L    missing         has a frame where it calls
    M    missing         has none there; none, one or several functions
    B    in the stack    has none

What calls B is L, which the call in C enters, or M, of which nothing is known. But the calls of functions without a
frame are few in a program that was built with frame pointers, and all that they mean is possible.

If the call of C may enter a function that is not known, through a pointer or in another module, nothing is excluded. A
part of a function that only an exception leads to (`f.cold`) is found by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.program.reach import CallGraph
from unwind.program.ways import ANY_WAY, Way, bits
from unwind.resolve.callee import Callee
from unwind.samples.recording import Losses

_FUNCTION_LIMIT = 1 << 12  # that a call may enter
_FEW = 16  # nodes that each call has for itself
_FRAMELESS_LIMIT = 1 << 12  # calls of a program that are made without a frame
_POINTERS = frozenset((ANY_WAY,))
Function = tuple[Body, int]  # a candidate of a body


class Ends(NamedTuple):
    """Where calls can end, in nodes of merged functions; `is_open`: or in any function."""

    nodes: frozenset[int] = frozenset()
    ways: frozenset[Way] = frozenset()  # by which they go on through pointers
    is_open: bool = False
    shared: frozenset[frozenset[int]] = frozenset()  # and in these nodes: large sets, each of many calls


class LostFrames:
    """The answers for all modules of a process, each computed once."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph = graph
        # of calls that enter the same functions: what they can end in, and where the calls of that can end
        self._functions: dict[Ends, frozenset[Function] | None] = {}
        self._beyond: dict[Ends, Sequence[Ends] | None] = {}
        self._ends: dict[Function, Ends] = {}  # of the calls of a function
        self._last: dict[Ends, Ends] = {}  # of calls that enter the same functions: where they can end
        self._entered: dict[Body, Ends] = {}  # of direct calls without a record
        self._frameless: dict[Program, Ends] = {}
        self._masks: dict[tuple[frozenset[int], Body], int] = {}

    def members(self, return_address: int, caller: Body, caller_idx: int, frame: Callee, losses: Losses) -> int:
        """Return the members that a frame can be if frames are missing between it and its caller in the stack.

        Args:
            return_address: of the caller.
            caller: its body.
            caller_idx: the candidate that it is.
            frame: the frame.
            losses: which frames may be missing.
        """
        beyond = self._beyond_of(self._enter(return_address, caller, caller_idx), caller.program.candidates)
        if beyond is None:
            return frame.body.domain
        allowed = 0
        for ends in beyond:
            allowed |= self._allowed(ends, frame)
        if losses is Losses.FRAME_POINTERS:
            allowed |= self._without_frames(frame)
        return allowed

    def fitting(self, return_address: int, caller: Body, caller_idx: int, frame: Callee) -> set[Function] | None:
        """Return the functions each of which may be the one that is missing, two at most; None: not known."""
        functions = self._functions_in(self._enter(return_address, caller, caller_idx), caller.program.candidates)
        if functions is None:
            return None
        return set(islice((each for each in functions if self._allowed(self._ends_of(*each), frame)), 2))

    def _beyond_of(self, entered: Ends, candidates: Sequence[Function]) -> Sequence[Ends] | None:
        """Return where the calls of the functions that a call can end in can end; None: not known."""
        if entered not in self._beyond:
            functions = self._functions_in(entered, candidates)
            ends = [self._ends_of(*function) for function in functions or ()]
            # whether an object can be of its declared type is a question for each function alone
            ways = [Ends(ways=each) for each in {each.ways for each in ends}]
            self._beyond[entered] = None if functions is None else [_union(ends)._replace(ways=frozenset()), *ways]
        return self._beyond[entered]

    def _functions_in(self, entered: Ends, candidates: Sequence[Function]) -> frozenset[Function] | None:
        """Return the functions that a call can end in; None: not known."""
        if entered not in self._functions:
            is_known = not entered.ways and not entered.is_open
            self._functions[entered] = self._reached(entered.nodes, candidates) if is_known else None
        return self._functions[entered]

    def _reached(self, nodes: Iterable[int], candidates: Sequence[Function]) -> frozenset[Function] | None:
        """Return the functions that are reached by tail calls, and their outlined parts; None: not known."""
        found: set[int] = set()
        todo = list(nodes)
        while todo and len(found) < _FUNCTION_LIMIT:
            node = todo.pop()
            if node in found:
                continue
            reach = self._graph.reach(node, candidates)
            if reach.ways or reach.wild:
                return None
            found.add(node)
            todo += reach.nodes - found
            body, idx = candidates[node]
            todo += body.program.cold_parts(body, idx)
        return None if todo else frozenset(candidates[node] for node in found)

    def _ends_of(self, body: Body, idx: int) -> Ends:
        """Return where the calls of a function can end."""
        ends = self._ends.get((body, idx))
        if ends is None:
            calls = body.program.code.calls(body.start, body.end)
            entered = [Ends(is_open=True)] if calls is None else [self._enter(each, body, idx) for each in calls]
            ends = self._ends[body, idx] = self._ends_of_calls(entered, body.program.candidates)
        return ends

    def _without_frames(self, frame: Callee) -> int:
        """Return the members that functions without a frame may call."""
        program = frame.body.program
        ends = self._frameless.get(program)
        if ends is None:
            ends = self._frameless[program] = self._find_frameless(program)
        return self._allowed(ends, frame) | frame.by_ways(_POINTERS)

    def _allowed(self, ends: Ends, frame: Callee) -> int:
        """Return the members of a frame's body in which calls can end."""
        if ends.is_open:
            return frame.body.domain
        allowed = self._mask(ends.nodes, frame.body) | frame.by_ways(ends.ways)
        for nodes in ends.shared:
            allowed |= self._mask(nodes, frame.body)
        return allowed

    def _mask(self, nodes: frozenset[int], body: Body) -> int:
        """Return the candidates of a body among `nodes`."""
        mask = self._masks.get((nodes, body))
        if mask is None:
            own = nodes if len(nodes) < len(body.nodes) else nodes.intersection(body.nodes)
            mask = self._masks[nodes, body] = body.mask_of(own)
        return mask

    def _find_frameless(self, program: Program) -> Ends:
        """Return where the direct calls that functions without a frame make can end."""
        entered: list[Ends] = []
        for return_address in program.code.calls_of([body.start for body in program.bodies]):
            caller = program.body_at(return_address - 1)
            if caller is None or len(entered) > _FRAMELESS_LIMIT:
                return Ends(is_open=True)
            if not program.code.calls_have_frame(caller.start, caller.end):
                entered += [self._enter(return_address, caller, idx) for idx in bits(caller.domain)]
        return self._ends_of_calls(entered, program.candidates)

    def _enter(self, return_address: int, caller: Body, caller_idx: int) -> Ends:
        """Return the functions that a call enters, merged ones and others, before they tail-call."""
        program = caller.program
        site = program.code.call_site(return_address)
        named = program.nodes_named(site.symbol, caller) if site.kind is SiteKind.IMPORT else []
        recorded = program.callees(return_address, caller).get(caller_idx)
        if recorded:
            return Ends(frozenset(node for node, _ in recorded).union(named))
        if site.kind is SiteKind.DIRECT:
            target = program.body_at(site.target)
            if target is None:
                return Ends(is_open=True)
            if target not in self._entered:
                self._entered[target] = Ends(frozenset(target.nodes))
            return self._entered[target]
        if site.kind is SiteKind.INDIRECT:
            return Ends(ways=frozenset(program.ways_of_call(return_address, caller, 1 << caller_idx)))
        if site.kind is SiteKind.IMPORT:
            is_known = bool(named) or not program.comes_back(site.symbol)
            return Ends(frozenset(named), frozenset() if is_known else _POINTERS)
        return Ends(is_open=True)

    def _ends_of_calls(self, entered: Iterable[Ends], candidates: Sequence[Function]) -> Ends:
        """Return where calls can end that enter these functions."""
        return _union([self._ends_of_call(each, candidates) for each in set(entered)])

    def _ends_of_call(self, entered: Ends, candidates: Sequence[Function]) -> Ends:
        """Return where a call can end that enters these functions."""
        ends = self._last.get(entered)
        if ends is None:
            nodes: set[int] = set()
            ways = set(entered.ways)
            for node in entered.nodes:
                reach = self._graph.reach(node, candidates)
                nodes.update(other for other in reach.nodes if not candidates[other][0].settled)
                ways |= _POINTERS if reach.wild else reach.ways
            ends = Ends(frozenset(nodes), frozenset(ways), entered.is_open)
            if len(nodes) > _FEW:
                ends = ends._replace(nodes=frozenset(), shared=frozenset((ends.nodes,)))
            self._last[entered] = ends
        return ends


def _union(ends: Sequence[Ends]) -> Ends:
    return Ends(
        frozenset[int]().union(*(each.nodes for each in ends)),
        frozenset[Way]().union(*(each.ways for each in ends)),
        any(each.is_open for each in ends),
        frozenset[frozenset[int]]().union(*(each.shared for each in ends)),
    )
