"""Which functions a call ends up in: the one it enters, and all functions that tail calls reach from it.

"The point of call may have led to an intermediate procedure that made a tail call to reach the current callee." A tail
call leaves no return address, so every function on the path may be the one in the frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from icf.tables.pointed import thunk_target
from unwind.callgraph.jumps import PART, TAIL, THUNK, Graph, Node, Slot, groups_of
from unwind.program.program import Body, Program

Functions = frozenset[int]


class Way(NamedTuple):
    """A slot of the vtables in some groups of a program; None: of any."""

    slot: int
    groups: frozenset[int] | None = None
    program: Program | None = None

    @classmethod
    def of(cls, program: Program, number: int, function: int, slot: int) -> Way:
        """Return the way that a function takes by a slot of its object `number`."""
        groups = groups_of(program, number, function)
        return cls(slot) if groups is None else cls(slot, groups, program)


class Reach(NamedTuple):
    """The functions that a call ends up in, and the ways in which it leaves them."""

    functions: Functions
    ways: frozenset[Way]  # it may also go on in these ways
    anywhere: bool  # it may also go on in ways that no table lists


class Jumps:
    """The jumps of functions: those of the graph, and those that only the code shows."""

    def __init__(self, graph: Graph, candidates: list[tuple[Body, int]]) -> None:
        self._graph, self._candidates = graph, candidates
        self.reach = cache(self._reach)
        self._step = cache(self._find_step)

    def _reach(self, function: int) -> Reach:
        """Return the functions in which a call of `function` ends up."""
        found, ways, anywhere = {function}, set[Way](), False
        todo = [function]
        while todo:
            step = self._step(todo.pop())
            todo += step.functions - found
            found |= step.functions
            ways |= step.ways
            anywhere |= step.anywhere
        return Reach(frozenset(found), frozenset(ways), anywhere)

    def pointed(self, function: int) -> set[int]:
        """Return where a function jumps, by the tables alone, that was entered through a pointer.

        A function that no table lists makes the jumps of those that share its body, and each of its jumps may lead to
        any
        function of the target body. The same holds for those.
        """
        body, idx = self._candidates[function]
        is_complete = body.domain == body.listed
        found = {to for to, kind, _ in self._edges(function) if kind in (PART, THUNK) and isinstance(to, int)}
        siblings = body.nodes[: len(body.members)] if idx == len(body.members) else [function]
        for sibling in siblings:
            for to, kind, _ in self._edges(sibling):
                if kind != TAIL or isinstance(to, Slot):
                    continue
                if isinstance(to, Body):
                    found |= self.entered(function, to)
                elif is_complete:
                    found.add(to)
                else:
                    found |= self.entered(function, self._candidates[to][0])
        return found

    def ways_left_by(self, function: int, *, but_imports: bool = False) -> set[Way]:
        """Return the ways by which, after the tables, a function tail-calls; maybe those of `imported` left out."""
        left_out = self._imports(function) if but_imports else {}
        return {way for way, jump in self._pointer_jumps(function) if jump not in left_out}

    def imported(self, function: int) -> list[Reach]:
        """Return what the jumps of a function to imports reach, in a process of which all modules are known."""
        return [self.reach(callee) for callees in self._imports(function).values() for callee in callees]

    def _imports(self, function: int) -> dict[int, set[int]]:
        """Return what the jumps of a function to imports mean, by their addresses, where that is all they can."""
        body, _ = self._candidates[function]
        program, found = body.program, dict[int, set[int]]()
        jumps = program.code.jumps(body.start, body.end) if program.is_whole and self._pointer_jumps(function) else None
        for jump, symbol in jumps.imports if jumps is not None else ():
            means = program.nodes_named(symbol, body)
            if not program.comes_back(symbol):
                means = [node for node in means if self._candidates[node][0].program.bodies]
            if means or not program.comes_back(symbol):
                found[jump] = {*means, *program.nodes_behind(symbol, body)}
        return found

    def entered(self, function: int, body: Body) -> set[int]:
        """Return the functions of `body` that a jump of `function` may mean: one if that is its thunk, else each."""
        source, idx = self._candidates[function]
        wanted = thunk_target(source.members[idx].name) if idx < len(source.members) else ""
        meant = {
            body.first_node + idx
            for idx, member in enumerate(body.members)
            if wanted and wanted in (member.name, *member.aliases)
        }
        return meant or set(body.nodes)

    def _pointer_jumps(self, function: int) -> set[tuple[Way, int]]:
        """Return the ways by which a function tail-calls, each with its jump."""
        program = self._candidates[function][0].program
        return {
            (Way(to.number) if groups is None else Way(to.number, groups, program), jump)
            for to, edges in (self._graph.adj[function].items() if function in self._graph else ())
            if isinstance(to, Slot)
            for edge in edges.values()
            for jump, groups in [(edge["jump"], edge["groups"])]
        }

    def _edges(self, function: int) -> Iterator[tuple[Node, str, int]]:
        """Yield where a function jumps in the graph: the node, the kind of the edge, the address of the jump."""
        for to, edges in self._graph.adj[function].items() if function in self._graph else ():
            for edge in edges.values():
                yield to, edge["kind"], edge.get("jump", 0)

    def _find_step(self, function: int) -> Reach:
        """Return the functions that a function reaches by one jump."""
        body, _ = self._candidates[function]
        program = body.program
        found: set[int] = set()
        recorded: set[int] = set()
        pointer_jumps = self._pointer_jumps(function)
        for to, kind, jump in self._edges(function):
            if isinstance(to, Slot):
                continue
            if kind == TAIL:
                recorded.add(jump)
            if kind in (TAIL, PART):
                found |= self.entered(function, to) if isinstance(to, Body) else {to}
        jumps = program.code.jumps(body.start, body.end)
        if jumps is None:
            return Reach(frozenset(found), frozenset(way for way, _ in pointer_jumps), anywhere=True)
        anywhere = jumps.indirect and not program.pointer_jumps_known
        for jump, target in jumps.direct:
            landed = program.body_at(target)
            is_loop = body.start <= target < body.end and (target != body.start or program.tail_calls_known)
            if jump in recorded or is_loop:
                continue
            if landed is None:
                anywhere = True
            else:
                found |= self._landing(function, landed)
        for jump, symbol in jumps.imports:
            means = program.nodes_named(symbol, body)
            if not program.comes_back(symbol):  # the runtime's own functions call no others
                means = [node for node in means if self._candidates[node][0].program.bodies]
            found.update(means, program.nodes_behind(symbol, body))
            if not program.is_whole if means else program.comes_back(symbol):
                anywhere = True
            else:
                pointer_jumps = {each for each in pointer_jumps if each[1] != jump}
        return Reach(frozenset(found), frozenset(way for way, _ in pointer_jumps), anywhere)

    def _landing(self, function: int, landed: Body) -> set[int]:
        """Return the functions that a jump enters without a record: a part of a function jumps back into that."""
        body, _ = self._candidates[function]
        own = set(body.program.parts(function)) & set(landed.nodes)
        return own if own and (body.is_fragment or landed.is_fragment) else self.entered(function, landed)
