"""Whether a function may have destroyed the object that it was called for, or made another in its place.

That is so if it passes the object on, itself or through others that it calls,

    to `operator delete`, `free`, or a constructor or destructor, as the first argument,
    by a slot in which some vtable has a deleting destructor,
    or to code that forms the address of the vtables which the object points to now: a constructor that was inlined

It does not see calls through pointers whose function is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from unwind.program.parts import SiteKind
from unwind.program.passed import Passed, Registers
from unwind.program.program import Body, Program, VtableGroup

OBJECT: Registers = frozenset({"rdi", "x0"})  # the first argument
SPECIAL = re.compile(r"C(?:[1-5][EIB]|I[12])|D[0-5](?:E|B\d)|^~")  # Itanium C++ ABI, 5.1.4.3; without linkage name: ~T
_DELETING = re.compile(r"D0(?:E|B\d)")
_FREES = re.compile(r"(?:_Zd[la]Pv.*|free|realloc|cfree)(?:@.*)?")
_BODY_LIMIT = 64
_State = tuple[Body, Registers]


class Moves:
    """The answers for one process."""

    def __init__(self, forms_address: Callable[[Body, VtableGroup], bool]) -> None:
        self._forms_address = forms_address
        self._reached: dict[Body, frozenset[Body] | None] = {}

    def may_be_moved(self, body: Body, group: VtableGroup) -> bool:
        """Return whether the function in `body` may have done so; `group` has the object's vtables."""
        if body not in self._reached:
            self._reached[body] = self._reach(body)
        reached = self._reached[body]
        return reached is None or any(self._forms_address(each, group) for each in reached if each is not body)

    def _reach(self, start: Body) -> frozenset[Body] | None:
        """Return the functions that get the object; None: one that destroys or makes it, or too many."""
        seen: set[_State] = set()
        todo = [(start, OBJECT)]
        is_frame = True  # which has not jumped out of its function: it is on the stack
        while todo:
            body, given = todo.pop()
            program = body.program
            passed = program.code.passed(body.start, body.end, given)
            if passed is None:
                return None
            for each in passed:
                if is_frame and each.is_jump:
                    continue
                called = self._called(program, body, each)
                if called is None:
                    return None
                new = {(other, each.registers) for other in called} - seen
                seen |= new
                todo += new
            is_frame = False
            if len(seen) > _BODY_LIMIT:
                return None
        return frozenset(body for body, _ in seen)

    def _called(self, program: Program, body: Body, call: Passed) -> list[Body] | None:
        """Return the functions that get the object from a call or jump; None: one that destroys or makes it."""
        is_first = bool(call.registers & OBJECT)
        target, symbol = _destination(program, body, call)
        if symbol:
            if is_first and (_FREES.fullmatch(symbol) or SPECIAL.search(symbol)):
                return None
            return (
                [] if SPECIAL.search(symbol) else [program.candidates[n][0] for n in program.nodes_named(symbol, body)]
            )
        landed = program.body_at(target) if target else None
        if landed is not None:
            names = [name for member in landed.members for name in (member.name, *member.aliases)]
            is_special = any(map(SPECIAL.search, names))
            if is_first and (is_special or any(map(_FREES.fullmatch, names))):
                return None
            return [] if is_special else [landed]  # a copy of the object is made elsewhere
        slot_call = None if call.is_jump else program.slot_calls.get(call.return_address)
        slots = [slot_call.slot] if slot_call is not None else []
        if call.is_jump:
            slots = [slot for jump, slot in program.slot_jumps(body) if jump == call.vaddr]
        if is_first and any(_deletes(program, slot) for slot in slots):
            return None
        return []


def _destination(program: Program, body: Body, call: Passed) -> tuple[int, str]:
    """Return where a direct call or jump goes, or the import that it means; twice nothing: through a pointer."""
    if not call.is_jump:
        site = program.code.call_site(call.return_address)
        return (site.target, "") if site.kind is SiteKind.DIRECT else (0, site.symbol)
    jumps = program.code.jumps(body.start, body.end)
    if jumps is None:
        return 0, ""
    return dict(jumps.direct).get(call.vaddr, 0), dict(jumps.imports).get(call.vaddr, "")


def _deletes(program: Program, slot: int) -> bool:
    """Return whether a slot holds a deleting destructor in some vtable."""
    nodes = program.in_slot(slot) if slot >= 0 else []
    bodies = ((program.candidates[node][0], program.candidates[node][1]) for node in nodes)
    return any(idx < len(body.members) and _DELETING.search(body.members[idx].name) for body, idx in bodies)
