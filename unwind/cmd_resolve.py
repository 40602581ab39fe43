"""`icf resolve`: which function each frame of each stack really is.

The format is known from the content. A recording (`unwind.readers`) names its modules itself; stacks that are addresses
alone (`--format pcs`) need the image, the modules or the process that they are of.

What the resolver remembers is a few large dictionaries: the garbage collector, which would walk them over and over and
finds nothing, is asked to come rarely, which makes all of it a third faster.

What a kind of input needs is imported for it: a few stacks take longer to import modules for than to resolve.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from contextlib import closing
from typing import TYPE_CHECKING

from icf.debugfiles.options import add_debug_arguments
from icf.errors import FormatError, IcfError
from icf.garbage import collect_seldom
from icf.log import note
from icf.printable import say
from unwind.arrow import need_pyarrow
from unwind.options import (
    add_cache_options,
    add_lossy_option,
    add_module_root_option,
    add_output_option,
    add_value_option,
    choose_value,
    losses_of,
)
from unwind.output import open_output
from unwind.process.image_finder import ImageFinder
from unwind.readers.formats import IN_TEXT, PCS, READERS, reader_of, recognize
from unwind.readers.pcs import begins_with_frame, recording_of
from unwind.readers.source import Source
from unwind.samples.recording import Losses
from unwind.writers.formats import BINARY, STACKS, WRITERS, default_format
from unwind.writers.named import Ambiguous

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from unwind.readers.module_places import ModulePlace

_EXIT_USAGE = 2
LOG = "log"
_NOT_LOG = ("out", "value", "explain", "second_reader", "no_vptr", "max_candidates")
_ONLY_PCS = ("modules", "pid", "second_reader")
_LISTING = ("text", "json")  # formats that list the functions that a frame can be
_ONE_VALUE = ("collapsed", "firefox")  # formats that show one of a recording's values
_OF_VALUE = (*_ONE_VALUE, "pprof")  # and one that shows it first
_FEW_VALUES = 2  # how many samples, and what they count


def add_arguments(parser: ArgumentParser) -> None:
    images = parser.add_mutually_exclusive_group()
    images.add_argument(
        "-e",
        "--exe",
        metavar="IMAGE",
        help="the linked image that the stacks come from; of a recording, the image to take for the module of its build"
        " or name",
    )
    images.add_argument(
        "--modules",
        metavar="FILE",
        help="the images of the process and where they were loaded: the text of /proc/PID/maps or of lldb's `image"
        " list`, or a JSON list of objects with path, build_id and load_address (or bias, or start, end and offset of"
        " a mapping); addresses in stacks are run-time ones",
    )
    images.add_argument(
        "--pid", metavar="PID", type=int, help="a running process; addresses in stacks are run-time ones"
    )
    add_module_root_option(parser)
    add_debug_arguments(parser)
    add_cache_options(parser)
    parser.add_argument(
        "--format",
        choices=[PCS, *READERS, LOG],
        help="of the stacks, if their content does not tell; log: any text, of which the stacks get right names and all"
        " else goes through as it is, line by line; pcs: one a line, innermost first, addresses in hexadecimal"
        " (link-time ones with -e): a program counter, then return addresses, raw or less one; `!` after one that is a"
        " program counter, too, as a signal interrupted the function; `?` for a frame outside of the image, xN at the"
        " end for a weight",
    )
    parser.add_argument(
        "--out",
        choices=[*WRITERS, STACKS],
        help="format of the results (that of the recording, if it can hold them, else text); json: one object a line;"
        " parquet: columns; stacks: nothing is resolved, the stacks alone as Parquet for --format parquet",
    )
    add_output_option(parser, "the results")
    parser.add_argument(
        "--ambiguous",
        choices=[each.value for each in Ambiguous],
        default=Ambiguous.JOINED.value,
        help="how a format with one name for each frame shows one that can be several functions: all of them, joined by"
        " ` | ` (joined); the first, which may be wrong; the same for every frame of the body (body)",
    )
    parser.add_argument(
        "--max-candidates",
        metavar="N",
        type=_natural,
        help="of a frame that can be several functions, list N in text and JSON, and how many more there are (text: 16;"
        " json: all)",
    )
    parser.add_argument(
        "--addresses",
        action="store_true",
        help="put the function after every address in a text (--format log), where one lies in a module that is known:"
        " -e, --modules, --pid",
    )
    add_value_option(parser, "collapsed, firefox and pprof show")
    add_lossy_option(parser)
    parser.add_argument(
        "--explain", action="store_true", help="explain the answer of each frame, in text and JSON (--out)"
    )
    parser.add_argument(
        "--second-reader",
        action="store_true",
        help="answer with the second resolver: plain recursion over the call graph, slow, to compare with the first",
    )
    parser.add_argument(
        "--no-vptr",
        action="store_true",
        help="ignore the vtable pointers of objects: @vptr= in stacks, those in copied stacks",
    )
    parser.add_argument("--no-lines", action="store_true", help="do not look up files, lines and inlined functions")
    parser.add_argument(
        "stacks", metavar="STACKS", nargs="?", default="-", help="file of stacks, `-` for standard input"
    )


def run(args: Namespace) -> int:
    collect_seldom()
    if args.second_reader and args.lossy not in (None, Losses.NONE.value):
        raise IcfError("the second resolver knows whole stacks alone", hint="leave out --lossy, or --second-reader")
    if args.second_reader and args.explain:
        raise IcfError("--explain explains the answers of the first resolver", hint="leave out --second-reader")
    images = ImageFinder(args.module_root, args.debug_root, args.exe)
    with Source.open(args.stacks, images) as source:
        name = args.format or (LOG if args.addresses else _format_of(args, source))
        if name == LOG:
            is_any_known = _resolve_log(args, source)
        elif args.addresses:
            raise IcfError("--addresses is for any text, which --format log reads")
        elif name != PCS:
            is_any_known = _resolve_recording(args, source, name)
        elif args.exe is None and args.modules is None and args.pid is None:
            if not source.head:
                raise IcfError(f"{source.path}: is empty")
            say(
                f"icf: error: {source.path}: these stacks are addresses alone: name what they are of",
                "hint: -e IMAGE, --modules FILE or --pid PID",
            )
            return _EXIT_USAGE
        elif args.out not in (None, *_LISTING) and args.exe is not None:
            is_any_known = _resolve_recording(args, source, name)
        elif args.out not in (None, *_LISTING):
            hint = "stacks of addresses alone: --out text or json, with -e IMAGE any"
            raise IcfError(f"--out {args.out} needs a recording", hint=hint)
        else:
            from unwind.flow.resolve_stacks import resolve_stacks

            with open_output(args) as out:
                is_any_known = resolve_stacks(args, source, out)
    if not is_any_known:
        say("icf: every frame of every stack is unknown")
    return 0 if is_any_known else 1


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ArgumentTypeError(f"{text}: is not a number from 0")
    return int(text)


def _format_of(args: Namespace, source: Source) -> str:
    try:
        return recognize(source)
    except FormatError:
        if (args.exe is None and args.modules is None and args.pid is None) or not begins_with_frame(source.head):
            raise
        return PCS  # whose reader says which line is wrong


def _resolve_log(args: Namespace, source: Source) -> bool:
    """Copy a log with right names in its stacks."""
    for option in _NOT_LOG:
        if getattr(args, option) not in (None, False):
            raise IcfError(f"--{option.replace('_', '-')} is not for logs, of which the lines keep their form")
    from unwind.flow.resolve_log import resolve_log

    with open_output(args) as out:
        return resolve_log(args, source, out)


def _given_places(args: Namespace, source: Source) -> Sequence[ModulePlace]:
    """Return where modules lay, for text that does not say it."""
    from unwind.target.given_places import places_of_image, places_of_list

    if args.modules is not None:
        return places_of_list(args.modules, source.images, args.cache_dir)
    return places_of_image(args.exe) if args.exe is not None else ()


def _resolve_recording(args: Namespace, source: Source, name: str) -> bool:
    """Resolve a recording; return whether any frame of it is known."""
    for option in _ONLY_PCS:
        if getattr(args, option) not in (None, False) and not (option == "modules" and name in IN_TEXT):
            hint = "icf resolve --format log --pid PID" if option == "pid" and name in IN_TEXT else None
            what = "--out text and json" if name == PCS else f"stacks of addresses alone, {source.path} is {name}"
            raise IcfError(f"--{option.replace('_', '-')} is for {what}", hint=hint)
    if name in IN_TEXT:
        source.places = _given_places(args, source)
        if args.exe is not None:
            from unwind.target.named_places import NamedPlaces
            from unwind.target.search import SearchPaths

            search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
            source.named = named = NamedPlaces(args.exe, search)
            source.closes(closing(named))
    recording = recording_of(source.lines(), source.path, args.exe) if name == PCS else reader_of(name).read(source)
    out_format = args.out or default_format(recording)
    if out_format not in _LISTING:
        for option in ("max_candidates", "explain"):
            if getattr(args, option) not in (None, False):
                name = option.replace("_", "-")
                raise IcfError(f"--{name} is for --out {' and '.join(_LISTING)}, not for {out_format}")
    if args.value is not None and out_format not in _OF_VALUE:
        raise IcfError(f"--value is for --out {', '.join(_OF_VALUE)}, not for {out_format}")
    choose_value(args, recording, source.path)
    if args.value is None and out_format in _ONE_VALUE and len(recording.values) > _FEW_VALUES:
        names = [value.name for value in recording.values]
        note(f"{source.path}: {out_format} counts {names[recording.shown]}", f"--value NAME: {', '.join(names)}")
    if out_format in BINARY and args.output is None and sys.stdout.isatty():
        raise IcfError(f"{out_format} is not for a terminal", hint="-o FILE, or --out text")
    if out_format == STACKS:
        need_pyarrow()
        from unwind.flow.write_stacks import write_stacks

        with open_output(args) as out:
            write_stacks(recording, source.images, losses_of(args, recording.losses), args.cache_dir, out)
        source.images.report()
        return True
    if name == out_format == "parquet":
        from unwind.arrow.files import ParquetStacks
        from unwind.flow.resolve_columns import resolve_columns

        assert isinstance(recording.samples, ParquetStacks)
        return resolve_columns(args, recording.samples, source)
    from unwind.flow.resolve_recording import resolve_recording

    return resolve_recording(args, recording, source, out_format)
