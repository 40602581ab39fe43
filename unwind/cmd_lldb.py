"""`icf lldb`: the plug-in of lldb, whose command `icf bt` names merged functions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from unwind.debugger.paths import helper_command, plugin_path


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--print-path", action="store_true", required=True, help="print the lines for ~/.lldbinit that load the plug-in"
    )


def run(args: Namespace) -> int:
    del args
    print(f"command script import {plugin_path('lldb')}")
    print(f"script lldb_start.set_command({helper_command()!r})")
    return 0
