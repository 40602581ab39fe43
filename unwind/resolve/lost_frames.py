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
from typing import NamedTuple

from unwind.program.parts import SiteKind
from unwind.program.program import Body, Program
from unwind.program.reach import CallGraph
from unwind.program.ways import ANY_WAY, Way, bits
from unwind.resolve.callee import Callee
from unwind.samples.recording import Losses

_FUNCTION_LIMIT = 1 << 12  # that a call may enter
_FRAMELESS_LIMIT = 1 << 12  # calls of a program that are made without a frame
_POINTERS = frozenset((ANY_WAY,))
Function = tuple[Body, int]  # a candidate of a body


class Ends(NamedTuple):
    """Where calls can end; `nodes` are those of merged functions, `is_open`: or in any function."""

    nodes: frozenset[int] = frozenset()
    ways: frozenset[Way] = frozenset()  # by which they go on through pointers
    is_open: bool = False


class LostFrames:
    """The answers for all modules of a process, each computed once."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph = graph
        self._functions: dict[tuple[int, int], frozenset[Function] | None] = {}  # by node and return address
        self._ends: dict[Function, Ends] = {}  # of the calls of a function
        self._frameless: dict[Program, Ends] = {}

    def members(self, return_address: int, caller: Body, caller_idx: int, frame: Callee, losses: Losses) -> int:
        """Return the members that a frame can be if frames are missing between it and its caller in the stack.

        Args:
            return_address: of the caller.
            caller: its body.
            caller_idx: the candidate that it is.
            frame: the frame.
            losses: which frames may be missing.
        """
        functions = self._functions_in(return_address, caller, caller_idx)
        if functions is None:
            return frame.body.domain
        allowed = 0
        for function in functions:
            allowed |= _allowed(self._ends_of(*function), frame)
        if losses is Losses.FRAME_POINTERS:
            allowed |= self._without_frames(frame)
        return allowed

    def fitting(self, return_address: int, caller: Body, caller_idx: int, frame: Callee) -> set[Function] | None:
        """Return the functions each of which may be the one that is missing; None: not known."""
        functions = self._functions_in(return_address, caller, caller_idx)
        if functions is None:
            return None
        return {function for function in functions if _allowed(self._ends_of(*function), frame)}

    def _functions_in(self, return_address: int, caller: Body, caller_idx: int) -> frozenset[Function] | None:
        """Return the functions that a call can end in; None: not known."""
        key = (caller.first_node + caller_idx, return_address)
        if key not in self._functions:
            entered = self._enter(return_address, caller, caller_idx)
            is_known = not entered.ways and not entered.is_open
            self._functions[key] = self._reached(entered.nodes, caller.program.candidates) if is_known else None
        return self._functions[key]

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
            entered = () if calls is None else [self._enter(each, body, idx) for each in calls]
            ends = Ends(is_open=True) if calls is None else self._union(entered, body.program.candidates)
            self._ends[body, idx] = ends
        return ends

    def _without_frames(self, frame: Callee) -> int:
        """Return the members that functions without a frame may call."""
        program = frame.body.program
        ends = self._frameless.get(program)
        if ends is None:
            ends = self._frameless[program] = self._find_frameless(program)
        return _allowed(ends, frame) | frame.by_ways(_POINTERS)

    def _find_frameless(self, program: Program) -> Ends:
        """Return where the direct calls that functions without a frame make can end."""
        entered: list[Ends] = []
        for return_address in program.code.calls_of([body.start for body in program.bodies]):
            caller = program.body_at(return_address - 1)
            if caller is None or len(entered) > _FRAMELESS_LIMIT:
                return Ends(is_open=True)
            if not program.code.calls_have_frame(caller.start, caller.end):
                entered += [self._enter(return_address, caller, idx) for idx in bits(caller.domain)]
        return self._union(entered, program.candidates)

    @staticmethod
    def _enter(return_address: int, caller: Body, caller_idx: int) -> Ends:
        """Return the functions that a call enters, merged ones and others, before they tail-call."""
        program = caller.program
        site = program.code.call_site(return_address)
        named = program.nodes_named(site.symbol, caller) if site.kind is SiteKind.IMPORT else []
        recorded = program.callees(return_address, caller).get(caller_idx)
        if recorded:
            return Ends(frozenset(node for node, _ in recorded).union(named))
        if site.kind is SiteKind.DIRECT:
            target = program.body_at(site.target)
            return Ends(is_open=True) if target is None else Ends(frozenset(target.nodes))
        if site.kind is SiteKind.INDIRECT:
            return Ends(ways=frozenset(program.ways_of_call(return_address, caller, 1 << caller_idx)))
        if site.kind is SiteKind.IMPORT:
            is_known = bool(named) or not program.comes_back(site.symbol)
            return Ends(frozenset(named), frozenset() if is_known else _POINTERS)
        return Ends(is_open=True)

    def _union(self, entered: Iterable[Ends], candidates: Sequence[Function]) -> Ends:
        """Return where calls can end that enter these functions."""
        nodes: set[int] = set()
        ways: set[Way] = set()
        is_open = False
        for each in entered:
            is_open |= each.is_open
            ways |= each.ways
            for node in each.nodes:
                reach = self._graph.reach(node, candidates)
                nodes.update(other for other in reach.nodes if not candidates[other][0].settled)
                ways |= _POINTERS if reach.wild else reach.ways
        return Ends(frozenset(nodes), frozenset(ways), is_open)


def _allowed(ends: Ends, frame: Callee) -> int:
    """Return the members of a frame's body in which calls can end."""
    if ends.is_open:
        return frame.body.domain
    return frame.body.mask_of(ends.nodes) | frame.by_ways(ends.ways)
