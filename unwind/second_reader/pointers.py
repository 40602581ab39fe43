"""Which functions a call through a pointer ends up in, and which of them the vtable pointer of an object leaves.

The call enters the pointer's target; that may tail-call others, directly or through a pointer again. The proposal:
"Given the vtable address, which can be obtained from the this pointer in the callee, [...] the function being called
can be determined." So each function is kept with how it was entered, and a vtable pointer at hand leaves

    through a vtable     the functions that this very vtable has there
    by a thunk           of any vtable of its group, as a thunk goes on with the same object
    by a plain pointer   each: there is no object
    by another jump      each: the jump may be one with any object
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from icf.model import ANY_POINTER, Vtable
from unwind.callgraph.jumps import STORED, UNLISTED, Graph, Slot, named
from unwind.program.program import Body, Program
from unwind.second_reader.reach import Jumps, Way


class By(NamedTuple):
    """How a function was entered."""

    way: str  # vtable, thunk, pointer, jump; unknown: with an unknown object
    vtable: Vtable | None = None  # that the object points to, or that the thunk stands in


POINTER, JUMP, UNKNOWN = By("pointer"), By("jump"), By("unknown")
State = tuple[int, By]


class Pointers:
    """Calls through pointers, in all modules of a process."""

    def __init__(
        self, graph: Graph, candidates: list[tuple[Body, int]], jumps: Jumps, *, hides_jumps: bool = False
    ) -> None:
        self._hides_jumps = hides_jumps
        self._graph, self._candidates, self._jumps = graph, candidates, jumps
        self._tried: dict[frozenset[Way], set[Way]] = {}  # in the end, by the ways of the call
        self._ends = cache(self._find_ends)
        self._entries = cache(self._find_entries)

    def called(self, ways: Iterable[Way], body: Body, vptr: int = 0) -> set[int]:
        """Return the functions of `body` that a call by one of `ways` ends up in."""
        nodes = body.nodes
        ends = {state for state in self._ends(frozenset(ways), vptr != 0) if state[0] in nodes}
        if not vptr:
            return {function for function, _ in ends}
        own = next((vtable for vtable in body.program.vtables if vtable.vaddr == vptr), None)
        if own is None:
            entered = {function for function, by in ends if by in (POINTER, JUMP)}
            return entered | {each for each in self._of_other_module(frozenset(ways), body, vptr) if each in nodes}
        return {function for function, by in ends if self._fits(function, by, own)}

    def _of_other_module(self, ways: frozenset[Way], body: Body, vptr: int) -> set[int]:
        """Return the functions entered through a vtable of another module, which has functions of this one."""
        tried = self._tried[ways]
        slots = {slot for slot, groups, program in tried if groups is None or program is not body.program}
        found = set()
        for vtable in body.program.borrowed_vtables(vptr):
            for each in vtable.slots:
                functions = named(body.program, each.function) if {each.slot, ANY_POINTER} & slots else []
                thunks = set(filter(self._is_thunk, functions))
                found |= thunks if vtable.vaddr != vptr else set(functions)
                while thunks:
                    landed = self._jumps.pointed(thunks.pop()) - found
                    found |= landed
                    thunks |= set(filter(self._is_thunk, landed))
        return found

    def _fits(self, function: int, by: By, own: Vtable) -> bool:
        """Return whether a function that was entered so has an object with the vtable `own`."""
        if by.vtable is None:
            return by in (POINTER, JUMP)
        is_same_object = by.vtable.group == own.group
        return by.vtable == own if by.way == "vtable" and not self._is_thunk(function) else is_same_object

    def _find_ends(self, ways: frozenset[Way], by_names: bool) -> frozenset[State]:
        """Return all ends; if `by_names`, jumps to imports lead to what the names mean, not through any pointer."""
        seen: set[State] = set()
        tried = self._with_hidden(ways) if by_names else set(ways)
        todo = [state for way in tried for state in self._entries(way)]
        while todo:
            state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            function, by = state
            todo += [(callee, self._onwards(function, by)) for callee in self._jumps.pointed(function)]
            more = self._jumps.ways_left_by(function, but_imports=by_names) - tried
            for reach in self._jumps.imported(function) if by_names else ():
                seen |= {(each, JUMP) for each in reach.functions}
                more |= ({Way(ANY_POINTER)} if reach.anywhere else reach.ways) - tried
            more = self._with_hidden(more) - tried if by_names else more
            tried |= more
            todo += [entry for way in more for entry in self._entries(way)]
        if by_names:
            self._tried[ways] = tried
        return frozenset(seen)

    def _find_entries(self, way: Way) -> frozenset[State]:
        """Return the functions that a call through a slot enters; through any slot, also those of unlisted tables."""
        slot, groups, program = way
        nodes = [Slot(slot), UNLISTED] if 0 <= slot < STORED.number else [Slot(slot)]
        found = set()
        for node in nodes:
            for _, entered, edge in self._graph.out_edges(node, data=True) if node in self._graph else ():
                assert not isinstance(entered, Slot)
                for function in entered.nodes if isinstance(entered, Body) else (entered,):
                    if groups is not None and self._is_bound(slot, program, function):
                        found.add((function, UNKNOWN))
                        continue
                    if groups is not None:  # all vtables of its type are in this program
                        is_of_type = edge["vtable"].group in groups if edge["vtable"] else edge.get("in_object", False)
                        if not is_of_type or self._candidates[function][0].program is not program:
                            continue
                    by = By("vtable", edge["vtable"]) if edge["vtable"] else POINTER if edge["taken"] else UNKNOWN
                    found.add((function, by))
        return frozenset(found)

    def _with_hidden(self, ways: Iterable[Way]) -> set[Way]:
        """Return ways, and any other, if methods that are entered so jump where no table shows it."""
        is_open = self._hides_jumps and any(way.groups is None for way in ways)
        return {*ways, Way(ANY_POINTER)} if is_open else set(ways)

    def _is_bound(self, slot: int, program: Program | None, function: int) -> bool:
        """Return whether the loader may bind a name in a slot of a vtable of `program` to another module's function."""
        body, _ = self._candidates[function]
        if program is None or body.program is program:
            return False
        for symbol in program.bound_slots.names_in(slot):
            nodes, is_certain = body.program.nodes_exported(symbol)
            if function in nodes or not is_certain:
                return True
        return False

    def _onwards(self, function: int, by: By) -> By:
        """Return how a function is entered by a jump of one that was entered `by`."""
        if not self._is_thunk(function) or by == JUMP:
            return JUMP
        return By("thunk", by.vtable) if by.vtable else UNKNOWN

    def _is_thunk(self, function: int) -> bool:
        body, idx = self._candidates[function]
        return idx < len(body.members) and body.members[idx].name.startswith(("_ZTh", "_ZTv", "_ZTc"))
