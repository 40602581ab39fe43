"""`icf disasm`: machine code with what each instruction refers to; for a call of a merged body the member it means.

Opening an image reads its headers, symbols and tables, and no debug information: files and lines, where they are asked
for, come from the image's symcache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from icf.debugfiles.opening import open_with_debug
from icf.debugfiles.options import add_debug_arguments
from icf.debugfiles.stripped import tables_hint
from icf.demangle import demangle
from icf.printable import say
from icf.tables.place import are_stale, has_tables
from unwind.disasm.listing import Listing
from unwind.disasm.select import Region, Selection
from unwind.disasm.sources import SourcePlace, Sources
from unwind.options import add_cache_options
from unwind.program.facts import ImageFacts
from unwind.program.from_image import has_only_records, load_program

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_Places = Callable[[Region, int], SourcePlace | None]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-e", "--exe", metavar="IMAGE", required=True, help="an executable or shared object")
    add_debug_arguments(parser)
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
        nargs="+",
        help="a function, by its name or an address in it, or a range ADDR..ADDR (hexadecimal, as linked)",
    )


def run(args: Namespace) -> int:
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
        write = _json(listing, place) if args.json else _text(listing, place, args)
        for argument in args.what:
            for region in selection.regions(argument):
                sys.stdout.writelines(f"{line}\n" for line in write(region))
    return 0


def _json(listing: Listing, place: _Places | None) -> Callable[[Region], Iterator[str]]:
    from unwind.disasm.write_json import JsonWriter

    writer = JsonWriter(place)

    def write(region: Region) -> Iterator[str]:
        yield writer.header(region)
        yield from (writer.line(region, line) for line in listing.lines(region))

    return write


def _text(listing: Listing, place: _Places | None, args: Namespace) -> Callable[[Region], Iterator[str]]:
    from unwind.disasm.write_text import TextWriter

    writer = TextWriter(
        place=place,
        with_source=args.source,
        with_bytes=args.bytes,
        with_addresses=not args.no_addresses,
        with_color=args.color == "always" or (args.color == "auto" and _likes_color()),
        name=str if args.no_demangle else demangle,
    )
    separator: list[str] = []

    def write(region: Region) -> Iterator[str]:
        yield from separator
        separator[:] = [""]
        yield from writer.header(region)
        yield ""
        yield from writer.lines(region, listing.lines(region))

    return write


def _likes_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
