"""Which functions a frame can be, given the function that called it: the four cases of the proposal.

1. Direct call     "we can use the callee_die field to locate the debug information entry for the function that was
                   actually called"; without a record for the caller, the target of the instruction
2. Virtual call    by the slot that the table has for the call, and by the object's vtable pointer, where it is known
3. Indirect call   any function that a pointer may lead to
4. Tail call       each of these may have tail-called others (`reach`, `pointers`)

Any function may call a body that no table lists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import NamedTuple

from icf.model import ANY_POINTER
from unwind.callgraph.jumps import Graph
from unwind.program.parts import SiteKind, SlotCall
from unwind.program.program import Body
from unwind.second_reader.pointers import Pointers
from unwind.second_reader.reach import Functions, Jumps, Way

ANY = Way(ANY_POINTER)
_DESTRUCTOR = re.compile(r"D[0-5](?:E|B\d)|^~")  # Itanium C++ ABI, 5.1.4.3; of a function without linkage name: ~T


class Callee(NamedTuple):
    """A frame as its caller sees it."""

    body: Body
    vptr: int = 0  # the vtable pointer of its object; 0: not known
    is_entry: bool = False  # it stands at its first instruction, so nothing has changed the object

    @property
    def every(self) -> Functions:
        return frozenset(self.body.nodes)


class Pairs:
    """Callers and callees of one process."""

    def __init__(self, graph: Graph, candidates: list[tuple[Body, int]], *, hides_jumps: bool = False) -> None:
        self._candidates = candidates
        self._jumps = Jumps(graph, candidates)
        self._pointers = Pointers(graph, candidates, self._jumps, hides_jumps=hides_jumps)
        self.called = cache(self._called)

    def _called(self, return_address: int, caller: int, frame: Callee) -> Functions:
        """Return the functions that `frame` can be if `caller` made the call that returns to `return_address`."""
        if frame.body.settled or frame.body.class_idx < 0:
            return frame.every
        body, idx = self._candidates[caller]
        is_other_module = body.program is not frame.body.program
        recorded = [callee for callee, _ in body.program.callees(return_address, body).get(idx, ())]
        if recorded:
            named = self._imported(return_address, body)
            elsewhere = [function for function in named if self._candidates[function][0].program is not body.program]
            if elsewhere and not body.settled and not set(named) & set(recorded):
                return frame.every  # the symbol is that of what another member calls
            found = self._reached([*recorded, *elsewhere], frame)
            if found or not is_other_module:
                return found
        found = self._by_code(return_address, caller, frame)
        return frame.every if is_other_module and not found else found

    def called_back(self, return_address: int, caller: int, frame: Callee) -> Functions:
        """Return the functions that `frame` can be if an import calls back what `caller` has passed to it."""
        body, idx = self._candidates[caller]
        given = body.program.given(return_address, body).get(idx)
        return frame.every if given is None else self._reached([given[0]], frame)

    def called_from_outside(self, frame: Callee) -> Functions:
        """Return the functions that `frame` can be if all that is known of its caller is that it is elsewhere."""
        found = self._through([ANY], frame) or self._through([ANY], frame._replace(vptr=0))
        return found if frame.body.class_idx >= 0 and found else frame.every

    @staticmethod
    def _imported(return_address: int, body: Body) -> list[int]:
        """Return the functions, of any module, that have the symbol of a call by a name; else none."""
        site = body.program.code.call_site(return_address)
        return body.program.nodes_named(site.symbol, body) if site.kind is SiteKind.IMPORT else []

    def _by_code(self, return_address: int, caller: int, frame: Callee) -> Functions:
        """Return the functions that the instruction before `return_address` may have called."""
        body, _ = self._candidates[caller]
        site = body.program.code.call_site(return_address)
        if site.kind is SiteKind.DIRECT:
            target = body.program.body_at(site.target)
            if target is None or target.start != site.target or target is frame.body:
                return frame.every
            return self._reached(target.nodes, frame)
        if site.kind is SiteKind.IMPORT:
            named = self._imported(return_address, body)
            if not body.settled and any(self._candidates[function][0].program is body.program for function in named):
                return frame.every
            return self._reached(named, frame) or frame.every
        if site.kind is SiteKind.INDIRECT:
            virtual_call = body.program.slot_calls.get(return_address)
            if virtual_call is None:
                way = ANY
            else:
                way = Way.of(body.program, virtual_call.object, caller, virtual_call.slot)
                others = self._ways_of_others(return_address, body, virtual_call)
                if any(self._by([other], frame) for other in others):
                    return self._by([way], frame)
            return self._through([way], frame) or self._through([Way(way.slot)], frame._replace(vptr=0))
        return frame.every

    @staticmethod
    def _ways_of_others(return_address: int, body: Body, call: SlotCall) -> set[Way]:
        """Return the ways of a virtual call in all functions of a body for which there is no record."""
        recorded = body.program.callees(return_address, body)
        callers = (function for idx, function in enumerate(body.nodes) if idx not in recorded)
        return {Way.of(body.program, call.object, caller, call.slot) for caller in callers}

    def _reached(self, callees: Iterable[int], frame: Callee) -> Functions:
        """Return the functions of the frame's body in which a call of one of `callees` ends up."""
        reaches = [self._jumps.reach(callee) for callee in callees]
        found = frame.every & frozenset[int]().union(*(reach.functions for reach in reaches))
        if any(reach.anywhere for reach in reaches):
            return found | self._through([ANY], frame) if found else frame.every
        ways = frozenset[Way]().union(*(reach.ways for reach in reaches))
        if found:
            return found | self._by(ways, frame)
        return self._through(ways, frame) or self._through([Way(way.slot) for way in ways], frame._replace(vptr=0))

    def _through(self, ways: Collection[Way], frame: Callee) -> Functions:
        """Return the functions of the frame's body in which a call by one of `ways` ends up.

        If there are none, an object is of another type than it is declared to have.
        """
        return self._by(ways, frame) or self._by([Way(way.slot) for way in ways], frame)

    def _by(self, ways: Iterable[Way], frame: Callee) -> Functions:
        found = self._pointers.called(ways, frame.body, frame.vptr)
        if frame.vptr and not frame.is_entry:  # a destructor that runs has moved the pointer to the vtable of a base
            found |= set(filter(self._is_destructor, self._pointers.called(ways, frame.body)))
        return frozenset(found)

    def _is_destructor(self, function: int) -> bool:
        body, idx = self._candidates[function]
        members = body.members[idx : idx + 1]
        return any(_DESTRUCTOR.search(name) for member in members for name in (member.name, *member.aliases))
