"""The umbrella command `icf COMMAND ...`.

A command is a module with `add_arguments(parser)` and `run(args) -> int`. `VERBS` names it by a string, and only the
module of the command that was called is imported: so `icf` does not depend on `linkpass` and `unwind`, and `icf --help`
does not import numpy, which alone would take ten times as long as all the rest. The table has the help lines for the
same reason.

Exit status: 0 done, 1 failed, 2 usage; 130, 141 and 143 after an interrupt, a closed pipe and SIGTERM, as a shell has
them. Every error that a user can cause is an `IcfError` or an `OSError` and becomes one line on stderr; a traceback is
a bug.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import NamedTuple, NoReturn

from icf.errors import IcfError
from icf.heap import own_process
from icf.log import show_lines
from icf.printable import say
from icf.signals import end_by_exceptions

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
EXIT_INTERRUPTED, EXIT_CLOSED_PIPE = 130, 141  # 128 + SIGINT, SIGPIPE
DESCRIPTION = "Find out which function a stack frame really is, after identical code folding."
VERSION_HELP = "print the version; report whether the kernels are compiled"
_ALLOCATIONS_BETWEEN_COLLECTIONS = 1 << 16  # imports make no garbage; looking for it takes a tenth of a query


class Verb(NamedTuple):
    """A command: its module and the line that `icf --help` prints about it."""

    module: str
    help: str


VERBS: dict[str, Verb] = {
    "pass": Verb("linkpass.cmd_pass", "write the call-site tables into a linked image"),
    "annotate": Verb("linkpass.cmd_annotate", "record call targets in objects, so that they survive the link"),
    "cc": Verb("linkpass.cmd_cc", "compile, and annotate the objects"),
    "link": Verb("linkpass.cmd_link", "run a link command, then the pass"),
    "verify": Verb("linkpass.cmd_verify", "check the tables of an image against its machine code"),
    "dump": Verb("icf.cmd_dump", "print the tables of an image"),
    "graph": Verb("unwind.cmd_graph", "write the call graph over merged functions"),
    "cache": Verb("unwind.cmd_cache", "build, list, verify and prune the symbol cache"),
    "record": Verb("unwind.cmd_record", "record a profile with perf, ready for 'icf resolve'"),
    "resolve": Verb("unwind.cmd_resolve", "name the function of each frame of a stack"),
    "snapshot": Verb("unwind.cmd_snapshot", "save which modules a process had loaded, to find their symbols elsewhere"),
    "stacks": Verb("unwind.cmd_stacks", "show the stacks of a core file, a minidump or a running process"),
    "report": Verb("unwind.cmd_report", "show what is merged, and a profile before and after, as one page"),
    "trace": Verb("unwind.cmd_trace", "read a drmemtrace trace: its instructions, and which functions they are of"),
    "symbolize": Verb("unwind.cmd_symbolize", "print names, inlined functions and lines of addresses"),
    "gdb": Verb("unwind.cmd_gdb", "name merged functions in the backtraces of gdb"),
    "lldb": Verb("unwind.cmd_lldb", "name merged functions in lldb, with its command 'icf bt'"),
    "disasm": Verb("unwind.cmd_disasm", "show machine code, and the function that each call means"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `icf`; without `argv` it is this process, which ends with it."""
    if argv is None:
        _end(_icf([*_implied(sys.argv[0]), *_own_arguments()]))
    with _settings_restored():
        return _icf(list(argv))


def linkpass_main(argv: Sequence[str] | None = None) -> int:
    """Run the command `linkpass`: the same as `icf pass`."""
    if argv is None:
        _end(_linkpass(_own_arguments()))
    with _settings_restored():
        return _linkpass(list(argv))


def _icf(args: list[str]) -> int:
    if args[:1] == ["help"]:
        args = [*args[1:2], "--help"]
    if not args:
        sys.stderr.write(_usage())
        return EXIT_USAGE
    if args[0] in ("-h", "--help"):
        return _guarded(lambda: _print(_usage()))
    if args[0] in ("-V", "--version"):
        return _guarded(lambda: _print(_version()))
    if args[0] not in VERBS:
        return _unknown_verb(args[0])
    return _run_verb(VERBS[args[0]], f"icf {args[0]}", args[1:])


def _linkpass(args: list[str]) -> int:
    if args in (["-V"], ["--version"]):
        return _guarded(lambda: _print(_version()))
    return _run_verb(VERBS["pass"], "linkpass", args)


@contextmanager
def _settings_restored() -> Iterator[None]:
    """Restore what commands set for a process of their own: without garbage collection, a caller's memory grows."""
    is_collecting, thresholds, interval_s = gc.isenabled(), gc.get_threshold(), sys.getswitchinterval()
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*thresholds)
        if is_collecting:
            gc.enable()


def _implied(program: str) -> list[str]:
    """Return the command and options that the program's own name stands for, as `addr2line` does; empty for `icf`."""
    name = program.rpartition("/")[2]
    if "addr2line" in name:  # also llvm-addr2line, x86_64-linux-gnu-addr2line
        return ["symbolize", "--style", "gnu"]
    return ["symbolize"] if "llvm-symbolizer" in name else []


def _own_arguments() -> list[str]:
    """Return the arguments of this process.

    From here on SIGTERM and SIGINT run the clean-up, and any file name can be printed.
    """
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    own_process()
    end_by_exceptions()
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")  # file names are bytes
    return sys.argv[1:]


def _open_streams() -> None:
    """Open an empty stdin and a discarded stderr for a process that was started with closed streams."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        _fail("standard output is closed")
        os._exit(EXIT_FAILED)


def _end(status: int) -> NoReturn:
    """End this process. To take apart what a pass has built would take longer than some of its steps."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # already reported, or there is no stderr to report it on
            pass
    os._exit(status)


def _run_verb(verb: Verb, prog: str, args: list[str]) -> int:
    # numpy starts a thread per core for linear algebra, which nothing here uses: half of its import time
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    show_lines()

    def call() -> int:
        module = import_module(verb.module)
        status: int = module.run(parser_of(verb, prog, module).parse_args(args))
        return status

    return _guarded(call)


def parser_of(verb: Verb, prog: str, module: ModuleType) -> argparse.ArgumentParser:
    """Return the parser of a verb."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=verb.help,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=_line_width()),
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def _line_width() -> int:
    """Return the width of help: argparse would import shutil to find out, and ask again for each option."""
    columns = os.environ.get("COLUMNS", "")
    try:
        width = int(columns) if columns.isdecimal() else os.get_terminal_size(1).columns
    except OSError:
        width = 0
    return (width or 80) - 2


def _guarded(call: Callable[[], int]) -> int:
    """Run `call`; what went wrong outside of our code becomes one line and an exit status."""
    try:
        status = call()
        sys.stdout.flush()  # here, so that a closed pipe shows now and not at exit
        return status
    except IcfError as error:
        return _fail(str(error), error.hint)
    except BrokenPipeError:
        # the reader has gone; without this Python complains once more when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CLOSED_PIPE
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{place}{(error.strerror or str(error)).lower()}")
    except MemoryError:
        return _fail("out of memory")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _fail(problem: str, hint: str | None = None) -> int:
    say(f"icf: error: {problem}", *([f"hint: {hint}"] if hint is not None else []))
    return EXIT_FAILED


def _unknown_verb(name: str) -> int:
    from difflib import get_close_matches

    close = get_close_matches(name, VERBS, n=1)
    sys.stderr.write(f"icf: error: unknown command {name!r} (choose from {', '.join(VERBS)})\n")
    sys.stderr.write(f"hint: did you mean 'icf {close[0]}'?\n" if close else "hint: see 'icf --help'\n")
    return EXIT_USAGE


def _print(text: str) -> int:
    sys.stdout.write(text)
    return EXIT_DONE


def _usage() -> str:
    width = max(map(len, VERBS))
    verbs = "".join(f"  {name:<{width}}  {verb.help}\n" for name, verb in VERBS.items())
    return (
        "usage: icf COMMAND [ARGUMENTS]\n\n"
        f"{DESCRIPTION}\n\n"
        f"commands:\n{verbs}\n"
        "'icf COMMAND --help' describes a command; 'icf --version' also reports whether the kernels are compiled.\n"
    )


def _version() -> str:
    from icf import __version__
    from icf.kernels import kernel_status

    return f"icf {__version__}\n{kernel_status()}\n"
