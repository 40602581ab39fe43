"""`icf trace ACTION`: traces of drmemtrace: every instruction that a process ran.

    icf trace view TRACE              print the instructions
    icf trace view --count TRACE      count records, instructions, threads and chunks
    icf trace seek -n 1000000 TRACE   print from an instruction on, without reading what is before its chunk
    icf trace profile -e IMAGE TRACE  count the instructions of each function, as named before and after
    icf trace convert LOG -e IMAGE -o TRACE   make a trace of a log of valgrind's lackey

TRACE is a file (.zip, .gz or plain) or the directory of a traced process. What is printed is a file's; of a directory
that has several, each is printed after the other.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from icf.debugfiles.options import add_debug_arguments
from icf.printable import say
from unwind.options import add_cache_options, add_output_option
from unwind.output import check_output
from unwind.trace import columns as c
from unwind.trace.container import TraceFile, trace_files
from unwind.trace.reader import NEVER, TraceReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from unwind.trace.decode import DecodeCache

_SHOWN = 20  # instructions that `seek` prints


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = __doc__
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(action: str, text: str) -> ArgumentParser:
        added = actions.add_parser(action, help=text, description=text, allow_abbrev=False)
        added.add_argument("trace", metavar="TRACE", help="a file, or the directory of a traced process")
        added.add_argument("--json", action="store_true", help="JSON, one object a line")
        return added

    view = add("view", "print the instructions of a trace, or count them")
    view.add_argument("--count", action="store_true", help="print only how much there is")
    seek = add("seek", "print a trace from an instruction or a time on")
    place = seek.add_mutually_exclusive_group(required=True)
    place.add_argument("-n", "--instruction", metavar="N", type=_number, help="the number of an instruction, from 0")
    place.add_argument("--time", metavar="T", type=_number, help="microseconds since 1601, as in the trace's markers")
    for each, limit in ((view, None), (seek, _SHOWN)):
        each.add_argument(
            "--limit", metavar="N", type=_number, default=limit, help=f"print N instructions ({limit or 'all'})"
        )
        each.add_argument("--all", action="store_true", help="print data and markers, too")
        _add_images(each)
        add_cache_options(each)
        each.add_argument("--no-kernel", action="store_true", help="leave out what the kernel executed")
    _add_profile(add("profile", "count the instructions of each function, with right names"))
    text = "make a trace of a log of valgrind's lackey"
    convert = actions.add_parser("convert", help=text, description=text, allow_abbrev=False)
    convert.add_argument("-e", "--exe", metavar="IMAGE", required=True, help="the static program that the log is of")
    convert.add_argument("log", metavar="LOG", help="what --tool=lackey --trace-mem=yes wrote")
    convert.add_argument("-o", "--output", metavar="TRACE", required=True, help="the trace: .zip, .gz or plain")
    convert.add_argument(
        "--chunk-size", metavar="N", type=_number, default=10_000_000, help="instructions in a chunk (10,000,000)"
    )
    view.set_defaults(instruction=None, time=None)
    seek.set_defaults(count=False)


def _add_images(parser: ArgumentParser) -> None:
    """Add the options that say which binaries a trace is of."""
    parser.add_argument(
        "-e",
        "--exe",
        metavar="IMAGE",
        help="the image that the trace is of, at its addresses as linked if nothing says where modules lay; else the"
        " image to take for the module of its name",
    )
    parser.add_argument("--modules", metavar="FILE", help="modules.log of the trace, if it is not beside it")
    parser.add_argument(
        "--module-root",
        "--binary-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="another directory to search for binaries by their paths; may be repeated",
    )


def _add_profile(parser: ArgumentParser) -> None:
    _add_images(parser)
    add_debug_arguments(parser)
    add_cache_options(parser)
    parser.add_argument(
        "--out",
        choices=["table", "json", "text", "pprof", "collapsed", "firefox"],
        default="table",
        help="instructions of each function before and after (table); stacks with their counts, in a format of `icf"
        " resolve`",
    )
    add_output_option(parser, "the results")
    parser.add_argument(
        "--ambiguous",
        choices=["joined", "first", "body"],
        default="joined",
        help="how one name for each frame shows one that can be several functions",
    )


def run(args: Namespace) -> int:
    if args.action == "convert":
        from unwind.trace.converted import convert_log

        check_output(args)
        print(f"{convert_log(args.log, args.exe, args.output, max(args.chunk_size, 1)):,} instructions")
        return 0
    files = trace_files(args.trace)
    if args.action == "profile":
        from unwind.flow.trace_profile import check_options, profile

        check_options(args)
        if not profile(args, files):
            say("icf: every instruction is unknown")
            return 1
    elif args.count:
        _count(args, files)
    else:
        for path in files:
            with TraceFile(path) as file:
                _show(args, file)
    return 0


def _number(text: str) -> int:
    number = int(text, 0)
    if not 0 <= number < 1 << 64:
        raise ValueError(text)
    return number


def _count(args: Namespace, files: list[str]) -> None:
    records = instructions = chunks = 0
    threads: set[int] = set()
    for path in files:
        with TraceFile(path) as file:
            reader = TraceReader(file, c.KEEP_THREADS)
            for rows in reader.rows():
                threads.update(rows[row, c.ADDRESS] for row in range(len(rows)))
            records += reader.state[c.RECORDS]
            instructions += reader.state[c.INSTRUCTIONS]
            chunks += file.chunk_count
    counts = {"records": records, "instructions": instructions, "threads": len(threads), "chunks": chunks}
    if args.json:
        print(json.dumps(counts, separators=(",", ":")))
    else:
        print(", ".join(f"{count:,} {what}" for what, count in counts.items()))


def _show(args: Namespace, file: TraceFile) -> None:
    from unwind.trace.seek import seek_instruction, seek_time
    from unwind.trace.show import as_json, as_text, objects

    wanted = c.KEEP_INSTRUCTIONS | c.KEEP_THREADS
    wanted |= c.KEEP_DATA | c.KEEP_MARKERS if args.all else 0
    reader = TraceReader(file, wanted | (0 if args.no_kernel else c.KEEP_KERNEL))
    if args.instruction is not None:
        seek_instruction(reader, args.instruction)
    elif args.time is not None:
        seek_time(reader, args.time)
    first = reader.state[c.INSTRUCTIONS]
    if args.limit is not None:
        reader.stop_at(instruction=min(first + args.limit, NEVER))
    line = as_json if args.json else as_text
    with ExitStack() as opened:
        for made in objects(reader, partial(_cache, args, opened), _names(args, opened)):
            if args.all or "pc" in made:
                sys.stdout.write(f"{line(made)}\n")


def _names(args: Namespace, opened: ExitStack) -> Callable[[int], str] | None:
    """Return what names an address; None if nothing says which binaries the trace is of."""
    from unwind.trace.modules import find_modules

    if args.exe is None and args.modules is None and find_modules(args.trace) is None:
        return None
    from unwind.flow.trace_names import InstructionNames
    from unwind.trace.recording import process_of

    return InstructionNames(args, process_of(args.trace, args.exe, args.modules), opened).name


def _cache(args: Namespace, opened: ExitStack, reader: TraceReader) -> DecodeCache:
    from unwind.trace.decode import DecodeCache, machine_of
    from unwind.trace.layout import HAS_ENCODINGS

    filetype, path = reader.state[c.FILETYPE], reader.file.path
    if filetype & HAS_ENCODINGS:
        return DecodeCache(machine_of(filetype, path))
    from unwind.process.image_finder import ImageFinder
    from unwind.trace.image_bytes import ImageBytes
    from unwind.trace.recording import process_of

    finder = opened.enter_context(ImageFinder(args.module_root, (), args.exe))
    code = ImageBytes(process_of(args.trace, args.exe, args.modules), finder)
    return DecodeCache(machine_of(filetype, path), code.read)
