"""Questions to a call graph (`unwind.graph`): circles, paths, and the reasons why a fold class is ambiguous."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

import networkx as nx

from unwind.callgraph.calls import CallGraph

T = TypeVar("T", int, str)
_FUNCTIONS = ("member", "function")


class Doubt(NamedTuple):
    """A node that leads to several members of a fold class, so that a stack does not distinguish them there."""

    by: str  # a slot, the id of a function that calls or jumps to any of them, or of a fold class that calls them
    members: tuple[str, ...]


def find(graph: CallGraph, function: str) -> list[str]:
    """Return the nodes of a function, by linkage name, demangled name, address or id; none if there is none."""
    by_name = [
        node for node, data in graph.nodes(data=True) if function in (data.get("linkage_name"), data.get("name"))
    ]
    if by_name:
        return by_name
    outlines = [node for node, data in graph.nodes(data=True) if data.get("name", "").partition("(")[0] == function]
    return outlines or [
        node
        for node, data in graph.nodes(data=True)
        if function == node or (data["kind"] in _FUNCTIONS and function == data["address"])
    ]


def circles(graph: CallGraph) -> list[list[str]]:
    """Return the merged functions that may call each other in circles: those of each strongly connected component."""
    return circles_among(graph, {node for node, data in graph.nodes(data=True) if data["kind"] == "member"})


def circles_among(graph: nx.DiGraph[T], functions: Container[T]) -> list[list[T]]:
    """Return those of some functions that lie on a circle together, for each strongly connected component."""
    found = []
    for component in nx.strongly_connected_components(graph):
        members = sorted(node for node in component if node in functions)
        if members and (len(component) > 1 or graph.has_edge(members[0], members[0])):
            found.append(members)
    return sorted(found)


def paths(graph: CallGraph, source: str, target: str, limit: int = 10) -> list[list[str]]:
    """Return the shortest paths from one function to another, each a list of nodes; `limit` of them at most."""
    try:
        return list(islice(nx.all_shortest_paths(graph, source, target), limit))
    except nx.NetworkXNoPath:
        return []


def doubts(graph: CallGraph, fold_class: str) -> list[Doubt]:
    """Return the reasons why a fold class is ambiguous: each slot, function or fold class that leads to several
    members.

    A fold class of callers, whose members call different members here, is a doubt as far as it is ambiguous itself.
    Calls that no record explains may mean any member: they are one doubt, `unrecorded calls`.
    """
    members = [node for node in graph.successors(fold_class) if graph.nodes[node]["kind"] == "member"]
    found = {} if graph.nodes[fold_class]["calls_complete"] else {"unrecorded calls": set(members)}
    for by, _ in graph.in_edges(fold_class):
        found[by] = set(members)  # a tail call of any of them
    for member in members:
        for by, _, edge in graph.in_edges(member, data=True):
            if edge["kind"] != "member":
                found.setdefault(_caller(graph, by), set()).add(member)
    return [Doubt(by, tuple(sorted(reached))) for by, reached in sorted(found.items()) if len(reached) > 1]


def around(graph: CallGraph, functions: list[str]) -> CallGraph:
    """Return the part of a graph around some functions and those of their bodies: their callers and callees."""
    classes = {graph.nodes[node]["address"] for node in functions}
    mine = {node for node, data in graph.nodes(data=True) if data.get("address") in classes}
    near = set(mine)
    for node in mine:
        near.update(_next(graph, node, graph.predecessors), _next(graph, node, graph.successors))
    found: CallGraph = graph.copy()  # in the order of the graph; a subgraph has that of the set
    found.remove_nodes_from([node for node in graph if node not in near])
    return found


def _next(graph: CallGraph, node: str, neighbours: Callable[[str], Iterator[str]]) -> Iterator[str]:
    for near in neighbours(node):
        yield near
        if graph.nodes[near]["kind"] == "slot":
            yield from neighbours(near)


def _caller(graph: CallGraph, node: str) -> str:
    """Return the fold class of a member, and any other node itself."""
    return node.partition(":")[0] if graph.nodes[node]["kind"] == "member" else node
