"""`icf link -- LINK-COMMAND`: link, and let the pass follow.

In front of a link command, or as a launcher (CMAKE_CXX_LINKER_LAUNCHER), it runs the command with what the pass
needs, passes everything through that compiler and linker say, and their exit status, and puts the tables into
the program. A command that does not link, or links without folding, takes our place and is run as it is.

    added to the link                      so that
    --print-icf-sections --trace           classes and objects are known; both are kept from the user
    see `linkpass.link.lto_objects`              objects that are made during the link (LTO) are kept for a while
    --color-diagnostics and the like       diagnostics are as colourful as without us, though they go through a pipe

While the linker works the objects that it names are read.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import stat
import sys
from typing import TYPE_CHECKING

from icf.errors import IcfError
from icf.printable import say
from linkpass.link.command import LinkCommand, parse_link_command

if TYPE_CHECKING:
    from linkpass.link.run import RunningLink
    from linkpass.objects.functions import LinkObjects

_REPORT, _TRACE, _RELOCATIONS = "--print-icf-sections", "--trace", "--emit-relocs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="fail when the pass fails, not only when the link does")
    parser.add_argument(
        "--keep-relocations", action="store_true", help="link with --emit-relocs and leave them in (lld)"
    )
    parser.add_argument("--summary", action="store_true", help="print what the pass found, on stderr")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- LINK-COMMAND", help="the link, as always")


def run(args: argparse.Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    return _link(parse_link_command(words), args)


def _link(command: LinkCommand, args: argparse.Namespace) -> int:
    """The link, and the pass if there is to be one; the exit status."""
    if not command.links or not command.folds or command.linker == "bfd" or not _is_file(command.output):
        _become(command.command)
    gc.disable()  # all there is gets used until the end
    keeps_relocations = args.keep_relocations and not command.has(_RELOCATIONS, "-q")
    added = [] if command.has(_REPORT) else [_REPORT]
    added += [] if command.has(_TRACE, "-t") else [_TRACE]
    added += [_RELOCATIONS] if keeps_relocations and command.linker in ("lld", "") else []
    if command.compiles() and not any("obj-path" in option for option in command.options):
        import tempfile

        with tempfile.TemporaryDirectory(prefix="icf-link-") as folder:
            return _link_and_pass(command, added, args, folder)
    return _link_and_pass(command, added, args)


def _link_and_pass(command: LinkCommand, added: list[str], args: argparse.Namespace, made: str = "") -> int:
    """Link with these options added, and run the pass; `made` is the folder for objects that the link makes."""
    from linkpass.link.run import RunningLink

    added = added + _linker_colours(command)
    if made:
        from linkpass.link.lto_objects import with_kept_objects

        words = with_kept_objects(command, added, made)
    else:
        words = command.with_options(added)
    link = RunningLink(
        words + _driver_colours(command),
        _environment(command),
        show_report=_REPORT not in added,
        show_inputs=_TRACE not in added,
    )
    problem, objects = None, None
    try:
        objects = _read_inputs(link)
    except Exception as error:  # whatever it is, the link goes on
        problem = error
    status = link.wait()
    if status:
        return status
    try:
        if problem is not None:
            raise problem
        _pass(command.output, link, objects, made, summary=args.summary)
    except Exception as error:  # a build must not break because of us
        say(f"icf link: {'error' if args.strict else 'warning'}: the pass failed: {_described(error)}")
        say(f"icf link: {command.output} is as it was linked, without tables")
        return 1 if args.strict else 0
    return 0


def _is_file(output: str) -> bool:
    """Whether the output is, or will be, a file, and not a device."""
    try:
        return stat.S_ISREG(os.stat(output).st_mode)
    except OSError:
        return True


def _become(command: tuple[str, ...]) -> None:
    """Run the command in place of this process."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise IcfError(f"{command[0]}: {error.strerror}") from error


def _environment(command: LinkCommand) -> dict[str, str]:
    """gold words its report in the user's language."""
    return dict(os.environ) if command.linker in ("lld", "mold") else {**os.environ, "LC_ALL": "C"}


def _linker_colours(command: LinkCommand) -> list[str]:
    """What makes a linker colour its diagnostics as it does on a terminal."""
    option = "--color-diagnostics"
    return [option] if command.linker in ("lld", "mold") and _is_colourful() and not command.has(option) else []


def _driver_colours(command: LinkCommand) -> list[str]:
    """The same for a compiler."""
    if command.direct or not _is_colourful():
        return []
    is_set = any("color-diagnostics" in word or "diagnostics-color" in word for word in command.arguments)
    return [] if is_set else ["-fdiagnostics-color=always"]


def _is_colourful() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and "NO_COLOR" not in os.environ


def _read_inputs(link: RunningLink) -> LinkObjects:
    """Read the objects as the linker names them, and get ready for the pass."""
    from icf.linkinputs.inputs import open_inputs
    from linkpass.objects.functions import LinkObjects
    from linkpass.pipeline import prepare

    prepare()
    objects = LinkObjects()
    inputs = open_inputs([], missing_ok=True, opened=link.files)
    for name in link.inputs():
        for object_file in inputs.of(name):
            objects.add(object_file)
            objects.read_ahead()
    return objects


def _pass(output: str, link: RunningLink, objects: LinkObjects | None, made: str, *, summary: bool) -> None:
    from icf.folds.report import parse_icf_report
    from linkpass.pipeline import SWITCH_INTERVAL_S, Options, run_pass

    if made and objects is not None:
        from icf.linkinputs.inputs import open_inputs
        from linkpass.link.lto_objects import kept_objects

        for object_file in open_inputs(kept_objects(made)):
            objects.add(object_file)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    report = parse_icf_report(b"\n".join(link.report), "what the linker said")
    found = run_pass(output, Options(), report, objects)
    if summary:
        from linkpass.cmd_pass import summary_lines

        sys.stderr.write("".join(f"{line}\n" for line in summary_lines(found)))


def _described(error: Exception) -> str:
    """What went wrong; of what should not happen also where."""
    if isinstance(error, IcfError | OSError):
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" in {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}" if place else ""
    return f"{type(error).__name__}{where}: {error}"
