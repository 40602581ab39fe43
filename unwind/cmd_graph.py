"""`icf graph IMAGE`: the call graph over merged functions, for Graphviz and for other programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from icf.debugfiles.opening import open_with_debug
from icf.debugfiles.options import add_debug_arguments
from icf.errors import IcfError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="an executable or shared object with tables")
    parser.add_argument(
        "--function",
        metavar="F",
        help="only the functions that share the body of F, what calls them and what they call; a name, linkage name or"
        " address",
    )
    parser.add_argument(
        "--format", choices=["dot", "graphml", "json"], default="dot", help="json: node-link data of networkx"
    )
    add_debug_arguments(parser)


def run(args: Namespace) -> int:
    from unwind.callgraph import write  # imports networkx
    from unwind.callgraph.calls import call_graph
    from unwind.callgraph.questions import around, find

    with open_with_debug(args.image, args.debug_file, args.debug_root, needs_code=True) as image:
        graph = call_graph(image)
    if args.function is not None:
        functions = find(graph, args.function)
        if not functions:
            raise IcfError(f"{args.image}: {args.function}: no function of the call graph", hint="see icf dump --folds")
        graph = around(graph, functions)
    lines = {"dot": write.write_dot, "graphml": write.write_graphml, "json": write.write_json}[args.format](graph)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0
