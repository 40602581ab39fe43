"""`icf gdb`: the plug-in of gdb, which names merged functions in `bt`.

`--print-path` prints what `.gdbinit` needs: where the plug-in is, and how it starts its helper. `--serve` is that
helper (`unwind.debugger.server`), for gdb and lldb.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from unwind.debugger.paths import helper_command, plugin_path
from unwind.options import add_cache_options


def add_arguments(parser: ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--print-path",
        action="store_true",
        help="print the lines for ~/.gdbinit, or for PROGRAM-gdb.gdb beside a program, that load the plug-in",
    )
    what.add_argument(
        "--serve",
        action="store_true",
        help="answer the questions of a plug-in on standard input, a line of JSON each; the plug-in runs this",
    )
    add_cache_options(parser)


def run(args: Namespace) -> int:
    if args.print_path:
        print(f"source {plugin_path('gdb')}")
        print(f"set icf command {helper_command()}")
        return 0
    from unwind.debugger.conversation import Conversation
    from unwind.debugger.server import Server

    with Server(args.cache_dir, args.shared_cache) as server:
        server.serve(Conversation(iter(sys.stdin.buffer), _write))
    return 0


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
