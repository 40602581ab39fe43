"""`icf link -- LINK-COMMAND`: run a link command, then the pass.

It stands before a link command, or is a launcher (CMAKE_CXX_LINKER_LAUNCHER). It runs the command with the options that
the pass needs, passes the output and exit status of compiler and linker through, and puts the tables into
the program (`linkpass.link.job`). A command that does not link, or links without folding, replaces this process and
runs as it is. As a compiler (`CXX="icf link -- g++"`) most commands are such, so little is imported before that is
known.
"""

from __future__ import annotations

import argparse
import os
import signal
from argparse import ArgumentParser, Namespace

from icf.errors import IcfError
from icf.printable import say

_COMPILES = frozenset({"-c", "-S", "-E"})  # of a compiler driver; a linker means other things
_OF_WINDOWS = ("lld-link", "clang-cl")
_EXIT_FAILED, _EXIT_USAGE = 1, 2


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="fail if the link does not fold or no tables are added")
    parser.add_argument(
        "--keep-relocations", action="store_true", help="link with --emit-relocs and leave them in (lld)"
    )
    parser.add_argument(
        "--in-image", action="store_true", help="strip the program, as -s does, and put the tables into it"
    )
    parser.add_argument(
        "--distinct",
        metavar="PROFILE",
        nargs="?",
        const="",
        help="link again so that functions which no stack tells apart are not folded; with a profile (any input of"
        " icf resolve), given as --distinct=PROFILE, only those that occur in it",
    )
    parser.add_argument("--summary", action="store_true", help="print what the pass found, on stderr")
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- LINK-COMMAND", help="the link command, unchanged"
    )


def run(args: Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words:
        say("icf link: error: no link command", "hint: icf link -- c++ -fuse-ld=lld -Wl,--icf=all -o prog *.o")
        return _EXIT_USAGE
    if any(name in os.path.basename(words[0]).lower() for name in _OF_WINDOWS):
        from linkpass.link.pe_link import find_pe_link
        from linkpass.link.pe_link import link_and_pass as link_pe

        found = find_pe_link(words)
        if found is None:  # it compiles
            _become(words)
        else:
            if args.distinct is not None:
                raise IcfError("--distinct is for ELF links; lld-link has no option that keeps a function unfolded")
            return link_pe(found, say, strict=args.strict, summary=args.summary)
    if not _COMPILES.isdisjoint(words) and "ld" not in os.path.basename(words[0]):
        _become(words)
    from linkpass.link.command import parse_link_command
    from linkpass.link.driver import ask_driver, passes_words_on
    from linkpass.link.output import is_file

    command = parse_link_command(words)
    if not command.links or not is_file(command.output):
        _become(words)
    if not (command.folds and command.linker.name):
        command = ask_driver(command)
    if not command.folds:
        if args.strict or args.summary:
            why = (
                "no --icf among the options of this link" if command.linker.folds_functions else "GNU ld folds nothing"
            )
            kind, state = "error: " if args.strict else "", "not folded"
            if not passes_words_on(command):
                why, state = f"{why}, and {words[0]} does not say what it adds", "perhaps not folded"
            say(f"icf link: {kind}{command.output}: {state}: {why}")
        if args.strict:
            return _EXIT_FAILED
        _become(words)
    from linkpass.link.job import Wishes, link_and_pass

    wishes = Wishes(args.strict, args.summary, args.keep_relocations, args.in_image, args.distinct)
    return link_and_pass(command, wishes, say)


def _become(command: list[str]) -> None:
    """Run the command in place of this process."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise IcfError(f"{command[0]}: {error.strerror}") from error
