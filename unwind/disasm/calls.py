"""The functions that calls, jumps and addresses mean: the members of a merged body that this very instruction is about.

    call 0x8c0          the body at 0x8c0 is shared by List<Order>::add and List<Payment>::add

A record names the one that each caller calls (`.debug_dcall`, tail calls in `.debug_icf`). If the caller is
merged, too, the same instruction means something else in each of its members, and a member without a record may call
any. A jump between a function and its outlined part stays in that function. A pointer means a function whose
address is taken, as far as the marks are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from icf.model import Evidence
from icf.tables.pointed import marked
from unwind.disasm.notes import Function, Meaning, VirtualCall
from unwind.program.program import Body, Program
from unwind.program.ways import bits

_Nodes = tuple[int, ...]
_Said = tuple[_Nodes, Evidence | None]  # candidates, and what that rests on


class Calls:
    """The functions of one program as its instructions mean them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names_in_slot: dict[int, tuple[str, ...]] = {}
        self._all_of: dict[Body, _Said] = {}  # bodies may have thousands of members, and as many calls

    def call(self, return_address: int, target: int, caller: Body | None) -> Function | None:
        """Return the call before `return_address` that leads to `target`; None: no function is there."""
        callee = self._program.body_at(target)
        if callee is None:
            return None
        said: dict[int, _Said] = {}
        if caller is not None and callee.start == target:
            for idx, records in self._program.callees(return_address, caller).items():
                nodes = tuple(dict.fromkeys(node for node, _ in records if node in callee.nodes))
                if nodes:
                    said[idx] = nodes, max(evidence for _, evidence in records)
        return self._function(target, callee, caller, said)

    def jump(self, vaddr: int, target: int, caller: Body | None) -> Function | None:
        """Return the jump at `vaddr` that leads to `target`."""
        callee = self._program.body_at(target)
        if callee is None:
            return None
        said: dict[int, _Said] = {}
        recorded = self._tail_calls.get(vaddr, {}) if callee.start == target else {}
        has_parts = caller is not None and (caller.is_fragment or callee.is_fragment)
        for idx, node in enumerate(caller.nodes if caller is not None and (recorded or has_parts) else ()):
            nodes = recorded.get(node, ())
            if not nodes and has_parts:
                nodes = tuple(self._program.parts(node))
            nodes = tuple(each for each in nodes if each in callee.nodes)
            if nodes:
                said[idx] = nodes, None
        return self._function(target, callee, caller, said)

    def has_tail_call(self, vaddr: int, caller: Body) -> bool:
        """Return whether the jump at `vaddr` is known to be a call."""
        return any(node in caller.nodes for node in self._tail_calls.get(vaddr, ()))

    def address(self, vaddr: int, *, by_marks: bool = True) -> Function | None:
        """Return a pointer to `vaddr`.

        `by_marks`: to a function whose address is taken, and that is not only called by name.
        """
        body = self._program.body_at(vaddr)
        if body is None:
            return None
        mask = marked(body.fold) & body.domain if by_marks else body.domain
        nodes = tuple(body.first_node + idx for idx in bits(mask)) or tuple(body.nodes)
        return Function(vaddr, vaddr - body.start, len(body.members), (self._meaning(nodes, (), None),))

    def virtual_call(self, return_address: int) -> VirtualCall | None:
        """Return the call before `return_address`, if it is one by a slot of a vtable."""
        call = self._program.slot_calls.get(return_address)
        return None if call is None else VirtualCall(call.slot, self._in_slot(call.slot), call.evidence)

    def virtual_jump(self, vaddr: int) -> VirtualCall | None:
        """Return the same of a jump."""
        slot = self._program.dispatch.slots.slot_of_jump(vaddr)
        return None if slot is None else VirtualCall(slot, self._in_slot(slot))

    def _in_slot(self, slot: int) -> tuple[str, ...]:
        names = self._names_in_slot.get(slot)
        if names is None:
            found = (self._program.candidates[node] for node in self._program.in_slot(slot))
            listed = ((body, idx) for body, idx in found if not body.settled and idx < len(body.members))
            names = self._names_in_slot[slot] = tuple(body.members[idx].name for body, idx in listed)
        return names

    def _function(self, target: int, callee: Body, caller: Body | None, said: Mapping[int, _Said]) -> Function:
        """Return the members of `callee` that a branch to `target` means, by those of `caller` as far as records
        exist.
        """
        open_end = self._all_of.get(callee)
        if open_end is None:
            open_end = self._all_of[callee] = tuple(callee.nodes), None
        callers_of: dict[_Said, list[int]] = {}
        for idx in range(caller.domain.bit_length() if caller is not None else 1):
            callers_of.setdefault(open_end if callee.settled else said.get(idx, open_end), []).append(idx)
        meanings = []
        for (nodes, evidence), callers in callers_of.items():
            member_count = len(caller.members) if caller is not None and len(callers_of) > 1 else 0
            listed = tuple(idx for idx in callers if idx < member_count)
            if listed or len(callers_of) == 1:
                meanings.append(self._meaning(nodes, listed, evidence))
        return Function(target, target - callee.start, len(callee.members), tuple(meanings))

    def _meaning(self, nodes: Iterable[int], callers: tuple[int, ...], evidence: Evidence | None) -> Meaning:
        callees = [self._program.candidates[node] for node in nodes]
        names = tuple(body.members[idx].name for body, idx in callees if idx < len(body.members))
        return Meaning(names, callers, len(names) < len(callees), evidence)

    @cached_property
    def _tail_calls(self) -> dict[int, dict[int, _Nodes]]:
        """Address of a jump -> its function -> the functions it may lead to."""
        found: dict[int, dict[int, _Nodes]] = {}
        for jump, caller, callee in self._program.tail_calls:
            nodes = tuple(self._program.nodes_of_class_node(callee)) if callee < 0 else (callee,)
            of_jump = found.setdefault(jump, {})
            of_jump[caller] = (*of_jump.get(caller, ()), *nodes)
        return found
