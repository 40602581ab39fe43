"""`icf annotate OBJECT...`: record the call targets of objects so that they survive the link, with any linker."""

from __future__ import annotations

import argparse

from icf.printable import say
from linkpass.annotate import annotate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("objects", metavar="OBJECT", nargs="+", help="a relocatable object; it is replaced")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not report objects without anything to annotate")


def run(args: argparse.Namespace) -> int:
    for path in args.objects:
        if not annotate(path) and not args.quiet:
            say(f"icf: {path}: has no function whose calls could be recorded, left as it is")
    return 0
