"""`icf record`: run perf with what the resolver needs.

What the command prints and its exit status are those of the program. What keeps perf from recording is reported before
anything runs, as far as that can be known; perf's own messages follow for the rest.
"""

from __future__ import annotations

import argparse
import os
import shutil
from argparse import ArgumentParser, Namespace

from icf.errors import IcfError
from icf.log import note
from icf.printable import say
from unwind.record.command import Wishes, perf_command, run_command
from unwind.record.frame_pointers import lacks_frame_pointers
from unwind.record.obstacles import check_rights, failure_hint, find_perf, may_record_all

_EXIT_FAILED, _EXIT_USAGE = 1, 2


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--pid", metavar="PID", default="", help="record processes that run: PID[,PID..]")
    parser.add_argument("-o", "--output", metavar="FILE", default="perf.data", help="the recording (perf.data)")
    parser.add_argument(
        "--call-graph",
        choices=["fp", "dwarf", "lbr"],
        default="fp",
        help="how callers are found: by frame pointers (fp); by copies of the stack, which take more room (dwarf);"
        " by the processor (lbr, Intel)",
    )
    parser.add_argument("-F", "--frequency", metavar="N", default="", help="samples in a second (perf's own: 4000)")
    parser.add_argument("-e", "--event", metavar="EVENT", default="", help="what to count (perf's own: cycles)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program to run and record")


def run(args: Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words and not args.pid:
        say("icf record: error: nothing to record", "hint: icf record -- PROGRAM, or icf record -p PID")
        return _EXIT_USAGE
    program = shutil.which(words[0]) if words else None
    if words and program is None:
        raise IcfError(f"{words[0]}: no such program")
    perf = find_perf()
    if os.path.isdir(args.output):  # perf would move it away
        raise IcfError(f"{args.output}: is a directory", hint="name the recording with -o FILE")
    missing = check_rights(args.pid)
    if missing:
        note(missing, "as root: sysctl kernel.perf_event_paranoid=1")
    recorded = f"/proc/{args.pid.split(',')[0]}/exe" if args.pid else program
    if args.call_graph == "fp" and recorded is not None and lacks_frame_pointers(recorded):
        name = os.path.realpath(recorded)
        note(
            f"{name}: most of its functions have no frame pointer: stacks will lack callers",
            "build with -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer, or use --call-graph dwarf",
        )
    wishes = Wishes(args.output, args.call_graph, args.frequency, args.event, args.pid, words, may_record_all())
    before = _state(args.output)
    status, was_ended = run_command(perf_command(perf.path, perf.version, os.uname().release, wishes))
    after = _state(args.output)
    if after == before or after is None or not after[2]:
        say(f"icf: error: perf has recorded nothing (exit status {status})", f"hint: {failure_hint(args.call_graph)}")
        return status or _EXIT_FAILED
    return 0 if was_ended and args.pid and not words else status  # a signal is how such a recording ends


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
