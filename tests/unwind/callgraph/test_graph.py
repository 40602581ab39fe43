"""The call graph: what its nodes and edges are, what can be asked of it, how it is written."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

import unwind
from icf.errors import IcfError
from linkpass.pipeline import Options, run_pass
from tests.e2e.program import icf
from tests.e2e.workshop import LLD, Workshop
from tests.support.paths import ROOT
from unwind.callgraph.questions import Doubt, around, circles, doubts, find, paths
from unwind.callgraph.write import write_dot, write_graphml

SHOP = ROOT / "testdata" / "shop" / "shop.lld"
SHAPES = """
struct Shape { virtual long draw(long n) = 0; };
struct Circle : Shape { long draw(long n) override { SAMPLE(); return n + 1; } };
struct Square : Shape { long draw(long n) override { SAMPLE(); return n + 1; } };
[[gnu::noinline]] long even(long n, Shape *shape);
[[gnu::noinline]] long odd(long n, Shape *shape) {
  if (n < 1) return shape->draw(n) + 2;
  return even(n - 1, shape) + 1;
}
[[gnu::noinline]] long even(long n, Shape *shape) {
  if (n < 1) return shape->draw(n) + 2;
  return odd(n - 1, shape) + 1;
}
int main(int argc, char **) {
  Circle circle; Square square;
  Shape *shapes[] = {&circle, &square};
  return even(argc, shapes[argc % 2]) == odd(argc, shapes[argc % 3]);
}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = Path(shutil.copy(SHOP, tmp_path / "shop"))
    run_pass(str(path), Options())
    return path


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    """A program with virtual calls of merged functions, and merged functions that call each other."""
    program = Workshop(tmp_path, LLD).build_with_tables(SHAPES)
    return program.folded


def named(graph: nx.MultiDiGraph[str], *functions: str) -> list[str]:
    return [node for function in functions for node in find(graph, function)]


def test_direct_calls_have_their_call_site_and_evidence(shop: Path) -> None:
    graph = unwind.graph(str(shop))
    add, grow = named(graph, "List<Payment>::add", "_ZN4ListI7PaymentE4growEv")
    (edge,) = graph.get_edge_data(add, grow).values()
    assert edge == {"kind": "direct", "call_site": "0x19fc", "evidence": "dwarf"}
    assert graph.nodes[grow]["name"] == "List<Payment>::grow()"
    members = [member for _, member, edge in graph.out_edges("0x1a20", data=True) if edge["kind"] == "member"]
    assert grow in members and len(members) == graph.nodes["0x1a20"]["members"] == 3


def test_a_tail_call_has_the_address_of_its_jump(shop: Path) -> None:
    graph = unwind.graph(str(shop))
    opens, add = named(graph, "Sessions::open", "List<Session>::add(Session*)")
    assert [edge["kind"] for edge in graph.get_edge_data(opens, add).values()] == ["tail"]
    assert graph.get_edge_data(opens, add)[0]["jump"] == "0x1b93"


def test_paths_lead_from_function_to_function(shop: Path) -> None:
    graph = unwind.graph(str(shop))
    main, grow, other = named(graph, "main", "List<Session>::grow()", "List<Order>::grow()")
    assert paths(graph, main, grow) == [
        named(graph, "main", "Sessions::open", "List<Session>::add(Session*)", "List<Session>::grow()")
    ]
    assert paths(graph, grow, other) == []


def test_what_keeps_a_class_ambiguous(shop: Path, shapes: Path) -> None:
    assert [doubt.by for doubt in doubts(unwind.graph(str(shop)), "0x1a20")] == ["0x19e0"]  # its callers, merged too
    graph = unwind.graph(str(shapes))
    (fold_class,) = {graph.nodes[node]["address"] for node in named(graph, "Circle::draw", "Square::draw")}
    draws = tuple(sorted(named(graph, "Circle::draw", "Square::draw")))
    assert doubts(graph, fold_class) == [Doubt("slot 0", draws)]


def test_merged_functions_that_call_each_other_are_a_circle(shop: Path, shapes: Path) -> None:
    assert circles(unwind.graph(str(shop))) == []
    graph = unwind.graph(str(shapes))
    assert circles(graph) == [sorted(named(graph, "odd", "even"))]


def test_virtual_calls_lead_through_a_slot_to_its_functions(shapes: Path) -> None:
    graph = unwind.graph(str(shapes))
    even, draw = named(graph, "even", "Circle::draw")
    (call,) = graph.get_edge_data(even, "slot 0").values()
    assert call["kind"] == "virtual" and int(call["call_site"], 16) > int(graph.nodes[even]["address"], 16)
    (entry,) = graph.get_edge_data("slot 0", draw).values()
    assert entry == {"kind": "entry", "vtable": "vtable for Circle"}
    part = around(graph, [draw])
    assert {even, "slot 0", *named(graph, "Square::draw")} <= set(part) and not named(part, "main")


def test_the_formats_hold_the_same_graph(shop: Path) -> None:
    graph = unwind.graph(str(shop))
    read = nx.node_link_graph(json.loads(icf("graph", "--format", "json", shop)), edges="edges")
    assert list(read.nodes(data=True)) == list(graph.nodes(data=True))
    assert sorted(map(str, read.edges(data=True))) == sorted(map(str, graph.edges(data=True)))
    graphml = nx.read_graphml(io.BytesIO(icf("graph", "--format", "graphml", shop).encode()))
    assert list(graphml.nodes(data=True)) == list(graph.nodes(data=True))
    dot = icf("graph", shop)
    assert '"0x19e0:1" -> "0x1a20:1" [label="direct 0x19fc dwarf", style=solid];' in dot
    assert dot.count("->") == sum(edge["kind"] != "member" for _, _, edge in graph.edges(data=True))
    assert "Sessions::open" not in icf("graph", "--function", "Ledger::post", shop)


def test_names_are_quoted() -> None:
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    graph.add_node("0x10:0", kind="function", name='operator""_km\\')
    assert '  "0x10:0" [label="operator\\"\\"_km\\\\"];' in list(write_dot(graph))


def test_names_that_a_terminal_would_act_on_are_escaped() -> None:
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    graph.add_node("0x10:0", kind="function", name="f\x1b[2J\n\udcff")
    assert '  "0x10:0" [label="f\\\\x1b[2J\\\\n\\\\xff"];' in list(write_dot(graph))
    written = "\n".join(write_graphml(graph)).encode()
    ((_, data),) = nx.read_graphml(io.BytesIO(written)).nodes(data=True)
    assert data["name"] == "f\\x1b[2J\\n\\xff"


def test_what_cannot_be_asked_is_one_line(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    icf("graph", "--function", "nothing", shop, status=1)
    icf("graph", SHOP, status=1)
    assert capsys.readouterr().err.count("icf: error: ") == 2
    with pytest.raises(IcfError, match="has no call-site tables"):
        unwind.graph(str(SHOP))


def test_networkx_is_imported_by_what_needs_it_alone(shop: Path) -> None:
    for command in ("['dump', PATH]", "['verify', PATH]", "['resolve', '-e', PATH, '/dev/null']", "['pass', PATH]"):
        code = f"import sys; from icf.cli import main; main({command.replace('PATH', repr(str(shop)))}); " + (
            "print('imported', {'networkx', 'elftools'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.endswith("imported set()\n"), done.stderr


def test_a_part_has_the_order_of_the_graph(shop: Path) -> None:
    graph = unwind.graph(str(shop))
    part = around(graph, named(graph, "Sessions::open"))
    assert list(part) == [node for node in graph if node in part]
