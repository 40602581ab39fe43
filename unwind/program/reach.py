"""Where a call can end up: the graph of tail calls over the members of merged functions.

A tail call leaves no return address, so the frame above a call site is the recorded callee or any function that it
reaches by jumps:

    along tail calls that are recorded, from a function into its outlined parts,
    and along every jump that the code has and no record explains: each member of the body it lands in;
    `ways` of the tables' jumps through pointers, which `dispatch` follows; `wild` once a jump into another
    module, one through a pointer that no table explains, or code that cannot be read, is within reach

    call f;  f: jmp g (recorded for f)  g: jmp h  h: jmp *rax        f g h, and wild

h may be unmerged and in no table; all the same it may lead back to f, or to another member of f's body, as in
interpreters. If the tables record no tail calls, jumps to the own start count as well. Functions that tail-call
each other in a circle are like any others.
"""

from __future__ import annotations

from collections.abc import Sequence

from icf.tables.pointed import meant_by_thunk
from unwind.program.program import Body, Program
from unwind.program.ways import Reach, Way, bits


class CallGraph:
    """The tail calls of programs and what they reach, also from one module to another."""

    def __init__(self) -> None:
        self._tail_calls: dict[Program, _TailCalls] = {}
        self._reach: dict[int, Reach] = {}

    def reach(self, node: int, candidates: Sequence[tuple[Body, int]]) -> Reach:
        """Return the candidates that a node of `candidates` reaches, itself included."""
        reach = self._reach.get(node)
        if reach is None:
            seen = {node}
            todo = [node]
            wild = False
            ways: set[Way] = set()
            while todo:
                node_now = todo.pop()
                step = self._of(candidates[node_now][0].program).step(node_now)
                wild |= step.wild
                ways |= step.ways
                todo.extend(step.nodes - seen)
                seen |= step.nodes
            reach = self._reach[node] = Reach(frozenset(seen), frozenset(ways), wild)
        return reach

    def imports(self, body: Body) -> dict[int, Reach]:
        """Return what is within reach of each jump of a body to an import, by its address, as far as that is known."""
        candidates = body.program.candidates
        found = {}
        for jump, nodes in self._of(body.program).imports(body).items():
            reached = [self.reach(node, candidates) for node in nodes]
            found[jump] = Reach(
                frozenset().union(*(each.nodes for each in reached)),
                frozenset().union(*(each.ways for each in reached)),
                any(each.wild for each in reached),
            )
        return found

    def _of(self, program: Program) -> _TailCalls:
        tail_calls = self._tail_calls.get(program)
        if tail_calls is None:
            tail_calls = self._tail_calls[program] = _TailCalls(program)
        return tail_calls


class _TailCalls:
    """The tail calls of one program, a jump at a time."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps: dict[int, Reach] = {}
        self._recorded = {(caller, jump) for jump, caller, _ in program.tail_calls}
        # member -> members and class nodes, by recorded tail calls and into outlined parts
        self._successors: dict[int, list[int]] = {}
        for _, caller, callee in program.tail_calls:
            self._successors.setdefault(caller, []).append(callee)
        for body in program.bodies:
            for part in body.nodes if body.is_fragment else ():
                for whole in program.parts(part):
                    self._successors.setdefault(whole, []).append(part)

    def step(self, node: int) -> Reach:
        """Return the candidates that `node` reaches by one jump."""
        step = self._steps.get(node)
        if step is None:
            step = self._steps[node] = self._jumps_from(node)
        return step

    def imports(self, body: Body) -> dict[int, list[int]]:
        """Return what each jump of a body to an import leads to, by its address, where nothing else is possible."""
        jumps = self._program.code.jumps(body.start, body.end)
        found = {}
        for jump, symbol in jumps.imports if jumps is not None else ():
            named = self._imported(symbol, body)
            if not self._may_come_back(symbol, named):
                found[jump] = [*named, *self._program.nodes_behind(symbol, body)]
        return found

    def _jumps_from(self, node: int) -> Reach:
        body, idx = self._program.candidates[node]
        nodes: set[int] = set()
        for other in self._successors.get(node, ()):
            nodes.update((other,) if other >= 0 else self._entered(node, self._program.body_of_class_node(other)))
        jumps = self._program.code.jumps(body.start, body.end)
        if jumps is None:
            return Reach(frozenset(nodes), self._program.ways_left_by(body, idx), wild=True)
        wild = jumps.indirect and not self._program.pointer_jumps_known
        followed = []  # the tables have jumps to imports among those through pointers
        for jump, symbol in jumps.imports:
            named = self._imported(symbol, body)
            nodes.update(named, self._program.nodes_behind(symbol, body))
            if self._may_come_back(symbol, named):
                wild = True
            else:
                followed.append(jump)
        ways = self._program.ways_left_by(body, idx, followed)
        for jump, target in jumps.direct:
            if (node, jump) in self._recorded:
                continue
            if body.start <= target < body.end and (target != body.start or self._program.tail_calls_known):
                continue  # a loop, as no record contradicts
            landed = self._program.body_at(target)
            if landed is None:
                wild = True
            else:
                nodes.update(self._landing(node, body, landed))
        return Reach(frozenset(nodes), ways, wild)

    def _imported(self, symbol: str, body: Body) -> list[int]:
        """Return the candidates that an import means, less the runtime's own functions that call no others."""
        nodes = self._program.nodes_named(symbol, body)
        if not self._program.comes_back(symbol):
            nodes = [node for node in nodes if self._program.candidates[node][0].program.bodies]
        return nodes

    def _may_come_back(self, symbol: str, named: list[int]) -> bool:
        """Return whether a jump to an import may lead elsewhere than to those that it is known to mean."""
        if named:
            return not self._program.is_whole
        return self._program.comes_back(symbol)

    def _landing(self, node: int, body: Body, landed: Body) -> list[int]:
        """Return the candidates of `landed` that an unrecorded jump of `node` enters."""
        if body.is_fragment or landed.is_fragment:
            own = [part for part in self._program.parts(node) if part in landed.nodes]
            if own:
                return own
        return self._entered(node, landed)

    def _entered(self, node: int, landed: Body) -> list[int]:
        """Return the candidates of `landed` that a jump without a record may reach; one for a thunk, by its name."""
        body, idx = self._program.candidates[node]
        name = body.members[idx].name if idx < len(body.members) else ""
        meant = meant_by_thunk(name, landed.fold)
        return [landed.nodes[idx] for idx in bits(meant)] if meant else list(landed.nodes)
