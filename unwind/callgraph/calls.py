"""The calls of an image as a graph with names, whose nodes and attributes are text and numbers.

node            id          kind        attributes
member          0x1d20:0    member      name, linkage_name, address, body, kept, address_taken, virtual
other function  0x1e00:0    function    the same
fold class      0x1d20      class       address, size_bytes, members, members_complete, calls_complete
slot            slot 3      slot        of any vtable; or "any pointer", "stored pointer", "unlisted table"

edge            kind        attributes
call            direct      call_site, evidence
tail call       tail        jump; to a fold class if no evidence names the member that is called
virtual call    virtual     call_site, evidence; to the slot
slot            entry       vtable; to each function there, or to a fold class if no evidence names the one. Without
                            vtable: its address is taken, or it may be there
outlined part   part        and `thunk`: to the function in a thunk's name
fold class      member      to each member
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import networkx as nx

from icf.debugfiles.opening import open_with_debug
from icf.debugfiles.stripped import tables_hint
from icf.demangle import demangle
from icf.elf.image import Image
from icf.errors import IcfError
from icf.model import ClassFlag, MemberFlag
from icf.tables.load import load_tables
from unwind.callgraph.jumps import ANYTHING, ENTRY, STORED, UNLISTED, Node, Slot, jump_graph
from unwind.program.from_image import load_program
from unwind.program.program import Body, Program

CallGraph: TypeAlias = "nx.MultiDiGraph[str]"
_SLOTS = {ANYTHING: "any pointer", STORED: "stored pointer", UNLISTED: "unlisted table"}


def graph(path: str, *, debug_file: str | None = None, debug_roots: Sequence[str] = ()) -> CallGraph:
    """Return the call graph over the merged functions of an image, as a networkx graph.

    `unwind.callgraph.questions` has functions that answer questions about it.

    Args:
        path: the image.
        debug_file: its separate debug file; None: found by build id or debug link.
        debug_roots: directories to search for debug information, besides /usr/lib/debug.

    Returns:
        A directed multigraph; nodes are functions, fold classes and slots of vtables, with the attributes that the
        module
        `unwind.callgraph.calls` lists. Addresses are link-time ones.

    Raises:
        IcfError: the image has no tables, or cannot be read.
    """
    with open_with_debug(path, debug_file, debug_roots) as image:
        return call_graph(image)


def call_graph(image: Image) -> CallGraph:
    """Return the call graph of an open image."""
    tables = load_tables(image)
    if not tables.present:
        raise IcfError(f"{image.path}: has no call-site tables", hint=tables_hint(image.path))
    program = load_program(image)
    found: CallGraph = nx.MultiDiGraph()
    for body in program.bodies:
        _add_body(found, body)
    _add_jumps(found, program)
    _add_direct(found, program, sorted(set(tables.direct.call_site.tolist())))
    _add_virtual(found, program, sorted(set(tables.virtual.call_site.tolist())))
    unused = [node for node, data in found.nodes(data=True) if data["kind"] == "slot" and not found.in_degree(node)]
    found.remove_nodes_from(unused)
    return found


def _add_body(found: CallGraph, body: Body) -> str:
    """Add the functions of a body, and its fold class if they are several; return the id of the class."""
    class_id = f"{body.start:#x}"
    is_merged = not body.settled
    if is_merged:
        flags = body.fold.flags
        found.add_node(
            class_id,
            kind="class",
            address=class_id,
            size_bytes=body.fold.size_bytes,
            members=len(body.members),
            members_complete=bool(flags & ClassFlag.MEMBERS_COMPLETE),
            calls_complete=bool(flags & ClassFlag.CALLS_COMPLETE),
        )
    for function in body.nodes:
        found.add_node(_id(body, function), kind="member" if is_merged else "function", **_facts(body, function))
        if is_merged:
            found.add_edge(class_id, _id(body, function), kind="member")
    return class_id


def _facts(body: Body, function: int) -> dict[str, Any]:
    idx = function - body.first_node
    if idx >= len(body.members):
        return {"name": "a function that no table lists", "linkage_name": "", "address": f"{body.start:#x}"}
    member = body.members[idx]
    return {
        "name": demangle(member.name),
        "linkage_name": "" if member.flags & MemberFlag.NAMELESS else member.name,
        "address": f"{body.start:#x}",
        "kept": bool(member.flags & MemberFlag.KEPT),
        "address_taken": bool(member.flags & MemberFlag.ADDRESS_TAKEN),
        "virtual": bool(member.flags & MemberFlag.VIRTUAL),
    }


def _add_jumps(found: CallGraph, program: Program) -> None:
    jumps = jump_graph([program])
    for node in jumps:
        if isinstance(node, Slot):
            found.add_node(_node(program, node), kind="slot")
    for source, target, edge in jumps.edges(data=True):
        if isinstance(target, Body) and target.settled:
            target = target.first_node
        plain: dict[str, Any] = {"kind": edge["kind"]}
        if "jump" in edge:
            plain["jump"] = f"{edge['jump']:#x}"
        if edge["kind"] == ENTRY and edge["vtable"] is not None:
            vptr = edge["vtable"].vaddr
            plain["vtable"] = demangle(program.vtable_name(vptr)) or f"{vptr:#x}"
        found.add_edge(_node(program, source), _node(program, target), **plain)


def _add_direct(found: CallGraph, program: Program, sites: Iterable[int]) -> None:
    for site in sites:
        body = program.body_at(site - 1)
        if body is None:
            continue
        for idx, callees in program.callees(site, body).items():
            caller = _found(found, body, body.first_node + idx)
            for callee, evidence in callees:
                target = _found(found, program.candidates[callee][0], callee)
                found.add_edge(caller, target, kind="direct", call_site=f"{site:#x}", evidence=evidence.name.lower())


def _add_virtual(found: CallGraph, program: Program, sites: Iterable[int]) -> None:
    for site in sites:
        body, call = program.body_at(site - 1), program.slot_calls.get(site)
        if body is None or call is None:
            continue
        slot = _node(program, Slot(call.slot))
        found.add_node(slot, kind="slot")
        for function in body.nodes:  # whichever function it is, the instruction is the same
            evidence = call.evidence.name.lower()
            found.add_edge(
                _found(found, body, function), slot, kind="virtual", call_site=f"{site:#x}", evidence=evidence
            )


def _found(found: CallGraph, body: Body, function: int) -> str:
    """Return the id of a function, which is added if it is in no fold class."""
    node = _id(body, function)
    if node not in found:
        _add_body(found, body)
    return node


def _node(program: Program, node: Node) -> str:
    if isinstance(node, Slot):
        return _SLOTS.get(node) or f"slot {node.number}"
    return f"{node.start:#x}" if isinstance(node, Body) else _id(program.candidates[node][0], node)


def _id(body: Body, function: int) -> str:
    return f"{body.start:#x}:{function - body.first_node}"
