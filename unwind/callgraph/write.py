"""A call graph as text: DOT (Graphviz), GraphML, JSON (node-link, as networkx reads it)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

import networkx as nx

from icf.printable import printable
from unwind.callgraph.calls import CallGraph

_STYLES = {
    "direct": "style=solid",
    "tail": "style=dashed",
    "virtual": "style=dotted",
    "entry": "style=dotted",
    "part": "style=dashed",
    "thunk": "style=dashed",
}
_LABELS = ("call_site", "jump", "vtable", "evidence")


def write_dot(graph: CallGraph) -> Iterator[str]:
    """Yield the lines of a DOT file; a fold class is a box around its members."""
    yield "digraph calls {"
    yield "  rankdir=LR; compound=true; node [shape=box];"
    for node, data in graph.nodes(data=True):
        if data["kind"] == "class":
            yield f"  subgraph {_quoted('cluster ' + node)} {{ label={_quoted('body ' + node)};"
            yield f"    {_quoted(node)} [shape=point];"
            for member in graph.successors(node):
                yield f"    {_quoted(member)} [label={_quoted(graph.nodes[member]['name'])}];"
            yield "  }"
        elif data["kind"] == "function":
            yield f"  {_quoted(node)} [label={_quoted(data['name'])}];"
        elif data["kind"] == "slot":
            yield f"  {_quoted(node)} [shape=ellipse];"
    for source, target, data in graph.edges(data=True):
        if data["kind"] != "member":
            label = " ".join([data["kind"], *(data[name] for name in _LABELS if name in data)])
            yield f"  {_quoted(source)} -> {_quoted(target)} [label={_quoted(label)}, {_STYLES[data['kind']]}];"
    yield "}"


def write_graphml(graph: CallGraph) -> Iterator[str]:
    """Yield the lines of a GraphML file."""
    yield from nx.generate_graphml(_printable(graph))


def write_json(graph: CallGraph) -> Iterator[str]:
    """Yield one line, which `networkx.node_link_graph(json.loads(line), edges="edges")` reads."""
    yield json.dumps(nx.node_link_data(graph, edges="edges"))


def _printable(graph: CallGraph) -> CallGraph:
    """Return a graph without the characters that XML does not have."""
    found: CallGraph = nx.relabel_nodes(graph, {node: printable(node) for node in graph if not node.isprintable()})
    attributes = chain((data for _, data in found.nodes(data=True)), (data for *_, data in found.edges(data=True)))
    for data in attributes:
        data.update({key: printable(value) for key, value in data.items() if isinstance(value, str)})
    return found


def _quoted(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
