"""The graph of control flow that leaves no frame: tail calls, outlined parts, and the slots of calls through pointers.

A node is

    a function       the number of a candidate (`unwind.program.program`): a member of a fold class, or any function
    a Body           any function of that body, if no evidence names one
    a Slot           slot k of whichever vtable a pointer leads to

and an edge, by its `kind`, is

    tail             a function jumps at `jump` to a function, to a Body, or through a pointer to a Slot: that of one of
                     the vtables in `groups`, if the type of the object is known
    part             a function goes on in its outlined part
    thunk            a thunk goes on to the function in its name; only where no other edge leaves it
    entry            a call by the Slot enters the function: that stands in `vtable`, or, where that is None, whose
                     address is taken (`taken`), or that may stand in a table which is not listed; `in_object`: that
                     may be a vtable. It enters a Body, if any of its functions may stand there

One graph holds the programs of all modules of a process: a slot is a number, and leads into each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import networkx as nx

from icf.model import ALL_MEMBERS, ANY_POINTER, STORED_POINTER, ClassFlag, MemberFlag, MemberRef
from icf.tables.pointed import thunk_target
from unwind.program.program import Body, Program

TAIL, PART, THUNK, ENTRY = "tail", "part", "thunk", "entry"


class Slot(NamedTuple):
    """A slot of vtables, by its number."""

    number: int


ANYTHING = Slot(ANY_POINTER)  # whatever a pointer may lead to
STORED = Slot(STORED_POINTER)  # whatever a pointer in memory may lead to that stands in no vtable
UNLISTED = Slot(-2)  # any slot of a table of functions that is not listed
Node: TypeAlias = int | Body | Slot
Graph: TypeAlias = "nx.MultiDiGraph[Node]"


def jump_graph(programs: Iterable[Program]) -> Graph:
    """Return the graph of these programs."""
    graph: Graph = nx.MultiDiGraph()
    for program in programs:
        _add_jumps(graph, program)
        _add_thunks(graph, program)
        _add_entries(graph, program)
    return graph


def named(program: Program, ref: MemberRef) -> list[int]:
    """Return the functions that a reference of the tables may mean."""
    body = program.bodies[ref.class_idx]
    return list(body.nodes) if ref.member_idx == ALL_MEMBERS else [body.first_node + ref.member_idx]


def groups_of(program: Program, number: int, function: int) -> frozenset[int] | None:
    """Return the groups of vtables of which one is that of object `number` in a function; None: it may be any."""
    body, idx = program.candidates[function]
    for member, type_ in program.objects[number - 1] if number else ():
        if member is None or member == (body.class_idx, idx):
            return frozenset(program.types[type_].groups)
    return None


def _add_jumps(graph: Graph, program: Program) -> None:
    for body in program.bodies:
        graph.add_nodes_from(body.nodes)
    for jump, caller, callee in program.tail_calls:
        graph.add_edge(caller, callee if callee >= 0 else program.body_of_class_node(callee), kind=TAIL, jump=jump)
    for pointer_jump in program.pointer_jumps:
        around = program.body_at(pointer_jump.jump)
        for function in around.nodes if around is not None and around.class_idx >= 0 else ():
            groups = groups_of(program, pointer_jump.object, function)
            graph.add_edge(function, Slot(pointer_jump.slot), kind=TAIL, jump=pointer_jump.jump, groups=groups)
    for body in program.bodies:
        for part in body.nodes if body.is_fragment else ():
            for whole in program.parts(part):
                graph.add_edge(whole, part, kind=PART)


def _add_thunks(graph: Graph, program: Program) -> None:
    """Add the jumps of gcc's thunks, which stay within a section, where the link pass does not look."""
    functions = [(body.first_node + idx, member) for body in program.bodies for idx, member in enumerate(body.members)]
    wanted: dict[str, list[int]] = {}
    for function, member in functions:
        name = thunk_target(member.name)
        if name and all(isinstance(to, Slot) for to in graph.successors(function)):
            wanted.setdefault(name, []).append(function)
    for function, member in functions if wanted else ():
        for name in {member.name, *member.aliases} & wanted.keys():
            graph.add_edges_from((thunk, function, {"kind": THUNK}) for thunk in wanted[name])


def _add_entries(graph: Graph, program: Program) -> None:
    listed = set()
    for vtable in program.vtables:
        for slot in vtable.slots:
            listed.update(named(program, slot.function))
            # thousands of vtables may have a body of thousands of functions: one edge each
            is_any = slot.function.member_idx == ALL_MEMBERS
            entered = program.bodies[slot.function.class_idx] if is_any else named(program, slot.function)[0]
            graph.add_edge(Slot(slot.slot), entered, kind=ENTRY, vtable=vtable, taken=False)
            graph.add_edge(ANYTHING, entered, kind=ENTRY, vtable=vtable, taken=False)
    for body in program.bodies:
        are_known = bool(body.fold.flags & ClassFlag.ADDRESS_TAKEN_KNOWN)
        for idx, function in enumerate(body.nodes):
            marks = body.members[idx].flags if idx < len(body.members) and are_known else ~MemberFlag.NONE
            is_taken = bool(marks & MemberFlag.ADDRESS_TAKEN)
            is_unplaced = bool(marks & MemberFlag.VIRTUAL) and function not in listed
            if not (is_taken or is_unplaced):
                continue
            of_library = are_known and idx < len(body.members) and is_of_std_function(body.members[idx].name)
            graph.add_edge(ANYTHING, function, kind=ENTRY, vtable=None, taken=is_taken)
            if is_taken or not of_library:
                graph.add_edge(STORED, function, kind=ENTRY, vtable=None, taken=is_taken)
            if not of_library:
                in_object = is_unplaced or not body.fold.flags & ClassFlag.VTABLES_KNOWN
                graph.add_edge(UNLISTED, function, kind=ENTRY, vtable=None, taken=False, in_object=in_object)


def is_of_std_function(name: str) -> bool:
    """Return whether the library made a function for a std::function: it stands in such an object, and in no table."""
    makers = ("_ZNSt17_Function_handlerI", "_ZNSt14_Function_base13_Base_managerI")
    return name.startswith(makers) and ("E9_M_invokeE" in name or "E10_M_managerE" in name)
