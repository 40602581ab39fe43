"""`icf disasm`: machine code with what each instruction refers to; for a call of a merged body the member it means.

Opening an image reads its headers, symbols and tables, and no debug information: files and lines, where they are asked
for, come from the image's symcache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from icf.debugfiles.opening import open_any, open_with_debug
from icf.debugfiles.options import add_debug_arguments
from icf.debugfiles.stripped import tables_hint
from icf.demangle import demangle
from icf.errors import IcfError
from icf.image import AnyImage, is_pe_file
from icf.printable import say
from icf.tables.of_pe import find_side_table
from icf.tables.place import are_stale, has_tables
from unwind.disasm.display import Display, Syntax
from unwind.disasm.listing import Listing, Piece
from unwind.disasm.names import ElfNames, FunctionNames, PeNames
from unwind.disasm.select import Region, Selection
from unwind.disasm.sources import SourcePlace, Sources
from unwind.options import add_cache_options
from unwind.program.facts import CodeFacts, ImageFacts
from unwind.program.from_image import has_only_records, load_program
from unwind.program.pe_facts import PeFacts
from unwind.program.program import Program
from unwind.symcache.reader.program import load_cached
from unwind.target.search import SearchPaths

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
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    with _open(args, search) as (image, program, facts, names):
        selection, listing = Selection(args.exe, names, program, facts), Listing(image, program, facts)
        place = Sources(search.open(args.exe)).place if args.lines or args.source else None
        start, stop = args.start_address or 0, args.stop_address or 1 << 64
        found = chain.from_iterable(map(selection.regions, args.what)) if args.what else selection.between(start, stop)
        for region in found:
            yield Piece(region, listing.lines(region), 0, image.machine, image), place


@contextmanager
def _open(args: Namespace, search: SearchPaths) -> Iterator[tuple[AnyImage, Program, CodeFacts, FunctionNames]]:
    """Open the image with what is known of its code. A PE image has that in its symcache."""
    if is_pe_file(args.exe):
        with open_any(args.exe, args.debug_file, args.debug_root) as image:
            assert image.format == "PE"
            if find_side_table(image) is None:
                _say_without_tables(args.exe, "calls of merged functions are ambiguous")
            yield image, load_cached(search.open(args.exe)), PeFacts(image), PeNames(image)
        return
    with open_with_debug(args.exe, args.debug_file, args.debug_root, needs_code=True) as elf:
        folds = elf.linker.name and elf.linker.folds_functions
        if folds and not (has_tables(elf) or has_only_records(elf) or are_stale(elf)):
            _say_without_tables(args.exe, "names are those of the symbols, folded or not")
        yield elf, load_program(elf), ImageFacts(elf), ElfNames(elf)


def _say_without_tables(path: str, consequence: str) -> None:
    say(
        f"icf: {path} has no call-site tables, so {consequence}",
        f"hint: {tables_hint(path)}",
    )


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
            if (args.lines or args.source) and piece.image is not None and piece.image.format == "ELF":
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
