"""`icf disasm`: machine code with what each instruction refers to; for a call of a merged body the member it means.

Opening an image reads its headers, symbols and tables, and no debug information: files and lines, where they are asked
for, come from the image's symcache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from icf.debugfiles.opening import open_with_debug
from icf.debugfiles.options import add_debug_arguments
from icf.debugfiles.stripped import tables_hint
from icf.demangle import demangle
from icf.errors import IcfError
from icf.printable import say
from icf.tables.place import are_stale, has_tables
from unwind.disasm.display import Display, Syntax
from unwind.disasm.listing import Listing, Piece
from unwind.disasm.select import Region, Selection
from unwind.disasm.sources import SourcePlace, Sources
from unwind.options import add_cache_options
from unwind.program.facts import ImageFacts
from unwind.program.from_image import has_only_records, load_program

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_Places = Callable[[Region, int], SourcePlace | None]


def add_arguments(parser: ArgumentParser) -> None:
    code = parser.add_mutually_exclusive_group(required=True)
    code.add_argument("-e", "--exe", metavar="IMAGE", help="an executable or shared object")
    code.add_argument(
        "--pid",
        metavar="PID",
        type=int,
        help="a running process: its code as it is in memory, also what a compiler has made while it ran; addresses"
        " are run-time ones",
    )
    add_debug_arguments(parser)
    parser.add_argument(
        "-M",
        dest="syntax",
        metavar="att|intel",
        choices=[each.value for each in Syntax],
        default=Syntax.INTEL.value,
        help="syntax of x86-64 code (intel)",
    )
    parser.add_argument(
        "--start-address", metavar="ADDR", type=_address, help="without FUNCTION: show the code from this address on"
    )
    parser.add_argument(
        "--stop-address", metavar="ADDR", type=_address, help="without FUNCTION: show the code up to this address"
    )
    parser.add_argument("-l", "--lines", action="store_true", help="show where file and line change")
    parser.add_argument(
        "-S", "--source", action="store_true", help="show the source lines, too, if the files are there"
    )
    add_cache_options(parser)
    parser.add_argument("--bytes", action="store_true", help="show the bytes of each instruction")
    parser.add_argument(
        "--no-addresses", action="store_true", help="leave addresses out, so that outputs can be compared"
    )
    parser.add_argument("--no-demangle", action="store_true", help="print linkage names as they are")
    parser.add_argument(
        "--color",
        choices=["auto", "always", "never"],
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set",
    )
    parser.add_argument("--json", action="store_true", help="one object a line for each instruction and each function")
    parser.add_argument(
        "what",
        metavar="FUNCTION|ADDR",
        nargs="*",
        help="a function, by its name or an address in it, or a range ADDR..ADDR (hexadecimal, as linked; with --pid"
        " with 0x, at run time); none: all code of the image",
    )


def run(args: Namespace) -> int:
    if (args.start_address is not None or args.stop_address is not None) and (args.what or args.pid is not None):
        raise IcfError("--start-address and --stop-address are for a whole image", hint="give a range: ADDR..ADDR")
    show = _of_process if args.pid is not None else _of_image
    is_first = True
    for piece, place in show(args):
        writer = _json(piece, place) if args.json else _text(piece, place, args)
        if not is_first and not args.json:
            sys.stdout.write("\n")
        is_first = False
        sys.stdout.writelines(f"{line}\n" for line in writer)
    return 0


def _of_image(args: Namespace) -> Iterator[tuple[Piece, _Places | None]]:
    with open_with_debug(args.exe, args.debug_file, args.debug_root, needs_code=True) as image:
        folds = image.linker.name and image.linker.folds_functions
        if folds and not (has_tables(image) or has_only_records(image) or are_stale(image)):
            say(
                f"icf: {args.exe} has no call-site tables, so names are those of the symbols, folded or not",
                f"hint: {tables_hint(args.exe)}",
            )
        program, facts = load_program(image), ImageFacts(image)
        selection, listing = Selection(image, program, facts), Listing(image, program, facts)
        place = None
        if args.lines or args.source:
            from unwind.symcache.store.store import open_or_build

            cache = open_or_build(
                args.exe,
                debug_file=args.debug_file,
                debug_roots=args.debug_root,
                cache_dir=args.cache_dir,
                shared_caches=args.shared_cache,
            )
            place = Sources(cache).place
        start, stop = args.start_address or 0, args.stop_address or 1 << 64
        found = chain.from_iterable(map(selection.regions, args.what)) if args.what else selection.between(start, stop)
        for region in found:
            yield Piece(region, listing.lines(region), 0, image.machine, image), place


def _of_process(args: Namespace) -> Iterator[tuple[Piece, _Places | None]]:
    from unwind.target.live_code import LiveCode
    from unwind.target.live_symbolizer import open_process

    if not args.what:
        raise IcfError("--pid needs a function, an address or a range", hint="all code of an image: -e IMAGE")
    if args.debug_file:
        raise IcfError("--debug-file is about one image", hint="with --pid, name folders with --debug-root")
    with (
        open_process(
            args.pid, debug_roots=args.debug_root, cache_dir=args.cache_dir, shared_caches=args.shared_cache
        ) as symbolizer,
        LiveCode(symbolizer) as code,
    ):
        for piece in chain.from_iterable(map(code.pieces, args.what)):
            cache = None
            if (args.lines or args.source) and piece.image is not None:
                cache = symbolizer.cache_of(piece.image)
            yield piece, None if cache is None else Sources(cache).place


def _json(piece: Piece, place: _Places | None) -> Iterator[str]:
    from unwind.disasm.write_json import JsonWriter

    writer = JsonWriter(Display(piece.machine, bias=piece.bias), place)
    yield writer.header(piece.region)
    yield from (writer.line(piece.region, line) for line in piece.lines)


def _text(piece: Piece, place: _Places | None, args: Namespace) -> Iterator[str]:
    from unwind.disasm.write_text import TextWriter

    writer = TextWriter(
        Display(piece.machine, Syntax(args.syntax), piece.bias),
        place=place,
        with_source=args.source,
        with_bytes=args.bytes,
        with_addresses=not args.no_addresses,
        with_color=args.color == "always" or (args.color == "auto" and _likes_color()),
        name=str if args.no_demangle else demangle,
    )
    yield from writer.header(piece.region)
    yield ""
    yield from writer.lines(piece.region, piece.lines)


def _likes_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _address(text: str) -> int:
    """Return an address as objdump takes it."""
    return int(text, 0)
