"""Other spellings of options, as llvm-symbolizer and addr2line have them, and options of theirs without effect here.

--inlining=false  -demangle=false  -f=none  --functions=short     llvm-symbolizer: sanitizers and pprof call it so
--demangle=gnu-v3                                                 addr2line: a style, which the name itself shows here
--default-arch=x86_64  --cache-size=N  -b elf64-x86-64            about Mach-O, memory, BFD: accepted, and ignored
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser

_KINDS = ("linkage", "short", "none")
_STYLES = ("auto", "gnu-v3", "java", "gnat", "dlang", "rust")
_SPELLINGS: tuple[tuple[str, str, object], ...] = (
    *[("functions", f"{flag}={kind}", kind) for flag in ("-f", "--functions") for kind in _KINDS],
    *[("inlines", f"--inlining={value}", value == "true") for value in ("true", "false")],
    *[("demangle", f"{dash}demangle={value}", value == "true") for dash in ("-", "--") for value in ("true", "false")],
    *[("demangle", f"--demangle={style}", style != "none") for style in (*_STYLES, "none")],
)
_IGNORED = (
    *("-r", "-R", "--recurse-limit", "--no-recurse-limit"),
    *("--color", "--color=always", "--color=auto", "--color=never"),
    *("--use-symbol-table", "--use-symbol-table=true"),
    *("--relative-address", "--untag-addresses", "--no-untag-addresses", "--no-debuginfod", "--dia"),
)
_IGNORED_VALUES = ("-b", "--target", "--default-arch", "--dsym-hint", "--cache-size")


def add_spellings(parser: ArgumentParser) -> None:
    """Add them to a parser, which already has the options that they spell."""
    for dest, spelling, value in _SPELLINGS:
        parser.add_argument(spelling, dest=dest, action="store_const", const=value, help=argparse.SUPPRESS)
    parser.add_argument(*_IGNORED, dest="ignored", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(*_IGNORED_VALUES, dest="ignored", help=argparse.SUPPRESS)
    for flag in ("--debug-file-directory", "--fallback-debug-path"):
        parser.add_argument(flag, dest="debug_root", action="append", default=[], help=argparse.SUPPRESS)
