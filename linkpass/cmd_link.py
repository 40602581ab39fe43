"""`icf link -- LINK-COMMAND`: link, and let the pass follow.

In front of a link command, or as a launcher (CMAKE_CXX_LINKER_LAUNCHER), it runs the command with what the pass
needs, passes everything through that compiler and linker say, and their exit status, and puts the tables into
the program. A command that does not link, or links without folding, is run as it is.

    linker   added to the link                                 taken out again
    lld      --print-icf-sections --trace --emit-relocs        the relocations
    gold     --print-icf-sections --trace                      -
    mold     --print-icf-sections --trace                      -
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from icf.errors import IcfError
from linkpass.linkcommand import LinkCommand, find_linker, parse_link_command

_REPORT, _TRACE, _RELOCATIONS = "--print-icf-sections", "--trace", "--emit-relocs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="fail when the pass fails, not only when the link does")
    parser.add_argument("--keep-relocations", action="store_true", help="leave what --emit-relocs put in (lld)")
    parser.add_argument("--summary", action="store_true", help="print what the pass found, on stderr")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- LINK-COMMAND", help="the link, as always")


def run(args: argparse.Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    command = parse_link_command(words)
    if not command.links or not command.folds:
        return _run_untouched(command)
    linker = find_linker(command)
    if linker not in ("lld", "gold", "mold"):
        return _run_untouched(command)
    wants_relocations = command.has(_RELOCATIONS, "-q")
    added = [] if command.has(_REPORT) else [_REPORT]
    added += [] if command.has(_TRACE, "-t") else [_TRACE]
    if linker == "lld" and not wants_relocations and not command.strips:
        added.append(_RELOCATIONS)

    from linkpass.runlink import run_link

    outcome = run_link(
        command.with_options(added),
        show_report=_REPORT not in added,
        show_inputs=_TRACE not in added,
        translate=linker != "gold",
    )
    if outcome.status != 0:
        return outcome.status
    try:
        drop = _RELOCATIONS in added and not args.keep_relocations
        _pass(command.output, outcome.report, outcome.inputs, drop_relocations=drop, summary=args.summary)
    except IcfError as error:
        sys.stderr.write(f"icf link: {'error' if args.strict else 'warning'}: the pass failed: {error}\n")
        sys.stderr.write(f"icf link: {command.output} is as it was linked, without tables\n")
        return 1 if args.strict else 0
    return 0


def _run_untouched(command: LinkCommand) -> int:
    try:
        return subprocess.run(command.command).returncode
    except OSError as error:
        raise IcfError(f"{command.command[0]}: {error.strerror}") from error


def _pass(output: str, report: list[str], inputs: list[str], *, drop_relocations: bool, summary: bool) -> None:
    import tempfile

    from linkpass.cmd_pass import summary_lines
    from linkpass.pipeline import Options, run_pass

    with tempfile.TemporaryDirectory(prefix="icf-link-") as folder:
        path = os.path.join(folder, "icf-report")
        with open(path, "w", errors="surrogateescape") as file:
            file.write("".join(f"{line}\n" for line in report))
        options = Options(
            icf_report=path, objects=tuple(inputs), missing_objects_ok=True, drop_relocations=drop_relocations
        )
        found = run_pass(output, options)
    if summary:
        sys.stderr.write("".join(f"{line}\n" for line in summary_lines(found)))
