"""`icf cc -- COMPILE-COMMAND`: compile, and annotate the objects that the command writes; `--addrsig` lists addresses.

It stands before a compile command, or is a launcher (CMAKE_CXX_COMPILER_LAUNCHER="icf;cc;--"). It passes the compiler's
output and exit status through, and runs a command that makes no objects as it is. The objects are the files that exist
afterwards: the file of -o, or for each source file an object of its name in the working directory.
ccache comes after it (`icf cc -- ccache g++`): ccache before `icf` would run it as if it were a compiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence

from icf.errors import IcfError
from icf.linkinputs.responsefile import expand
from icf.printable import say

_NO_OBJECTS = frozenset({"-E", "-S", "-M", "-MM", "-fsyntax-only", "--version", "-###", "--help"})
_EXIT_USAGE = 2
_CLOCK_STEP_NS = 20_000_000  # file times may be that much earlier than the clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="fail when an object cannot be annotated")
    parser.add_argument(
        "--addrsig",
        action="store_true",
        help="list in objects without .llvm_addrsig (gcc's) the symbols whose address is used other than by calls and"
        " vtables, so that --icf=safe of lld and mold folds the others",
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMPILE-COMMAND", help="the compile command, unchanged"
    )


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        say("icf cc: error: no compile command", "hint: icf cc -- c++ -O2 -ffunction-sections -c main.cpp")
        return _EXIT_USAGE
    start_ns = time.time_ns() - _CLOCK_STEP_NS
    try:
        status = subprocess.run(command).returncode
    except OSError as error:
        raise IcfError(f"{command[0]}: {error.strerror}") from error
    made = [path for path in objects_of(command) if _is_new(path, start_ns)] if status == 0 else []
    for path in made:
        from linkpass.annotate import annotate

        try:
            if args.addrsig:
                from linkpass.addrsig import add_address_significance

                add_address_significance(path)
            annotate(path)
        except (IcfError, OSError) as error:
            say(f"icf cc: {'error' if args.strict else 'warning'}: {error}")
            say(f"icf cc: {path}: left as compiled, not annotated")
            status = 1 if args.strict else 0
    return status if status >= 0 else 128 - status


def objects_of(command: Sequence[str]) -> list[str]:
    """Return the objects that a compile command may write; none if it does not stop after compiling."""
    words = expand(command[1:])
    if "-c" not in words or any(word in _NO_OBJECTS for word in words):
        return []
    output = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "-o":
            output = following
        elif word.startswith("-o") and not word.startswith(("-objc", "-oformat")):
            output = word[2:]
    if output:
        return [output]
    names = [word for word in words if not word.startswith("-")]
    return list(dict.fromkeys(f"{os.path.splitext(os.path.basename(name))[0]}.o" for name in names))


def _is_new(path: str, start_ns: int) -> bool:
    """Return whether a file was written by the command that began then."""
    try:
        return os.path.isfile(path) and os.stat(path).st_mtime_ns >= start_ns
    except (OSError, ValueError):
        return False
