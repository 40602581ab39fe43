"""The options by which a command finds debug information in other files."""

from __future__ import annotations

from argparse import ArgumentParser


def add_debug_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--debug-file",
        metavar="FILE",
        help="the debug file of a stripped IMAGE; by default it is found by build id or .gnu_debuglink",
    )
    parser.add_argument(
        "--debug-root",
        metavar="DIR",
        action="append",
        default=[],
        help="another directory to search for debug files, .dwo, .dwp and supplementary files; may be repeated",
    )
