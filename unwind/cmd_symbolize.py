"""`icf symbolize -e IMAGE [ADDRESS...]`: names, inlined functions and lines of addresses.

It takes the options of addr2line and llvm-symbolizer, reads what they read and writes what they write, so scripts
only need another name of the program. `--style` chooses which of the two it replaces, with its defaults and
its reading of numbers; `--output-style` is llvm-symbolizer's own option and changes the output alone.

Lines on stdin are answered as they come, many at a time where many are there.
"""

from __future__ import annotations

import os
import sys
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from icf.debugfiles.options import add_debug_arguments
from icf.errors import IcfError
from icf.printable import say
from unwind.options import add_cache_options
from unwind.symbolize.answer import Answer
from unwind.symbolize.flags import add_spellings
from unwind.symbolize.requests import Request, read_addresses, read_hexadecimal, read_request
from unwind.symbolize.styles import Options, TextWriter
from unwind.symbolize.symbolizer import Symbolizer

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Sequence
    from typing import Self

    from unwind.symbolize.data import DataSymbols
    from unwind.symbolize.protocols import Writer
    from unwind.target.live_symbolizer import LiveSymbolizer

_PIECE_BYTES, _TOGETHER_BYTES = 1 << 16, 1 << 19
_LINE_LIMIT = 1 << 20
_U64 = (1 << 64) - 1
_of_what, _symbol = itemgetter(0, 1, 6), itemgetter(3)  # of a request: image, build id, whether a variable; its symbol
_FORMS = {"LLVM": "llvm", "GNU": "llvm-gnu", "JSON": "json"}
_TOOLS = {"llvm": "llvm", "gnu": "addr2line", "json": "json"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = """\
Addresses are link-time addresses: hexadecimal with --style gnu, else decimal unless they begin with 0x. A line on stdin
may also name the image, as for llvm-symbolizer ('/usr/bin/shop 0x1139'), or a function ('main', 'main+4').

An address in a folded function has the names of all members, 'a() | b()', and a line if it is the same for all of them;
--candidates shows each member with its own."""
    parser.add_argument(
        "addresses", metavar="ADDRESS", nargs="*", help="addresses to look up; without any they are read from stdin"
    )
    images = parser.add_mutually_exclusive_group()
    images.add_argument(
        "-e", "--exe", "--obj", metavar="IMAGE", help="the image; without it each line on stdin names one"
    )
    images.add_argument("--build-id", metavar="ID", default="", help="the build id of an image whose symcache is kept")
    images.add_argument("--pid", metavar="PID", type=int, help="a running process; addresses are run-time ones")
    parser.add_argument(
        "--style", choices=tuple(_TOOLS), help="behave as llvm-symbolizer (default) or addr2line, or write JSON"
    )
    parser.add_argument(
        "--output-style", choices=tuple(_FORMS), help="write what llvm-symbolizer writes with this option"
    )
    parser.add_argument(
        "--candidates", action="store_true", help="show each of the folded functions with its own lines"
    )
    parser.add_argument(
        "--return-addresses",
        action="store_true",
        help="the addresses are return addresses: look up the calls before them",
    )
    functions = parser.add_argument_group("what to write")
    functions.add_argument(
        "-f",
        "--functions",
        action="store_const",
        const="linkage",
        help="print function names (default; off in gnu style)",
    )
    functions.add_argument(
        "-i",
        "--inlines",
        "--inlining",
        action="store_true",
        default=None,
        help="print inlined functions (default; off in gnu style)",
    )
    functions.add_argument(
        "--no-inlines", "--no-inlining", action="store_false", dest="inlines", help="do not print inlined functions"
    )
    functions.add_argument(
        "-C", "--demangle", action="store_true", default=None, help="demangle names (default; off in gnu style)"
    )
    functions.add_argument("--no-demangle", action="store_false", dest="demangle", help="print linkage names")
    functions.add_argument("-p", "--pretty-print", action="store_true", help="one line per frame")
    functions.add_argument(
        "-a", "--addresses", "--print-address", dest="show", action="store_true", help="print each address, too"
    )
    functions.add_argument("-s", "--basenames", action="store_true", help="print file names without directories")
    search = parser.add_argument_group("where to look")
    search.add_argument(
        "--adjust-vma", metavar="OFFSET", type=number, default=0, help="subtract OFFSET from each address"
    )
    search.add_argument("-j", "--section", metavar="NAME", help="addresses are offsets from the start of this section")
    add_debug_arguments(parser)
    add_cache_options(search)
    search.add_argument("--lazy", action="store_true", help="keep only the answers, do not build a whole symcache")
    parser.add_argument("-v", "--version", action="store_true", help="print the version")
    add_spellings(parser)


def run(args: Namespace) -> int:
    if args.version:
        from icf import __version__

        sys.stdout.write(f"icf symbolize {__version__}\n")
        return 0
    if args.style == "gnu" and args.exe is None and args.pid is None and not args.build_id:
        args.exe = "a.out"
    options = _options(args)
    with _Images(args) as images:
        if args.exe is not None or args.pid is not None or args.build_id:
            images.of(Request())  # without an image there is nothing to answer
        asker = _Asker(args, images, options)
        if args.addresses:
            sys.stdout.write(asker.writer.together(list(asker.answers(args.addresses))))
            return 0
        for lines in _lines(sys.stdin.fileno()):
            sys.stdout.writelines(asker.answers(lines))
            sys.stdout.flush()
    return 0


def number(text: str) -> int:
    """Parse a number as `--adjust-vma` does. argparse shows this function's name in its error message."""
    return int(text, 0)


def _section_start(path: str | None, name: str) -> int:
    """Return where a section of the image begins."""
    from icf.elf.image import Image

    if path is None:
        raise IcfError("--section is about one image", hint="name it with -e")
    with Image.open(path) as image:
        section = image.section(name)
    if section is None:
        raise IcfError(f"{path}: has no section {name}")
    return section.vaddr


def _options(args: Namespace) -> Options:
    """Return what to write; by default what the tool writes that this replaces."""
    is_gnu = args.style == "gnu"
    form = _FORMS[args.output_style] if args.output_style else _TOOLS[args.style or "llvm"]
    return Options(
        form,
        functions=args.functions or ("none" if is_gnu else "linkage"),
        inlines=not is_gnu if args.inlines is None else args.inlines,
        demangle=not is_gnu if args.demangle is None else args.demangle,
        pretty=args.pretty_print,
        addresses=args.show,
        basenames=args.basenames,
        candidates=args.candidates,
        escaped=form != "json" and sys.stdout.isatty(),
    )


def _writer(options: Options) -> Writer:
    if options.form == "json":
        from unwind.symbolize.styles_json import JsonWriter

        return JsonWriter(options)
    return TextWriter(options)


def _lines(fd: int) -> Iterator[list[str]]:
    """Yield the lines that are there, each time that there are some; a last one need not end."""
    from select import POLLIN, poll

    waiting = poll()
    waiting.register(fd, POLLIN)
    rest = b""
    while piece := os.read(fd, _PIECE_BYTES):
        pieces, size_bytes = [rest, piece], len(piece)
        while size_bytes < _TOGETHER_BYTES and waiting.poll(0):  # a function's record is read once for all
            pieces.append(os.read(fd, _PIECE_BYTES))
            if not pieces[-1]:
                break
            size_bytes += len(pieces[-1])
        lines, end, rest = b"".join(pieces).rpartition(b"\n")
        if len(rest) > _LINE_LIMIT:
            raise IcfError(f"line has more than {_LINE_LIMIT} bytes")
        if end:
            yield os.fsdecode(lines).split("\n")
    if rest:
        yield [os.fsdecode(rest)]


class _Images:
    """The symbolizers of the images that were asked about."""

    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._known: dict[tuple[str, str], Symbolizer | LiveSymbolizer | None] = {}
        self._data: dict[str, DataSymbols] = {}
        self.problems: dict[tuple[str, str], str] = {}  # with images that cannot be read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for symbolizer in self._known.values():
            if symbolizer is not None:
                symbolizer.close()

    def of(self, request: Request) -> Symbolizer | LiveSymbolizer | None:
        """Return the symbolizer for a request.

        None for an image that cannot be read, which is reported once on stderr.
        """
        key = (request.image, request.build_id)
        if key not in self._known:
            try:
                self._known[key] = self._open(request)
            except IcfError as error:
                if not any(key):
                    raise
                self._known[key] = None
                self.problems[key] = str(error)
                say(f"icf: error: {error}")
        return self._known[key]

    def data_of(self, image: str) -> DataSymbols:
        """Return the variables of an image.

        None if it cannot be read, or for a process or build, whose variables are unknown.
        """
        if image not in self._data:
            from unwind.symbolize.data import DataSymbols

            args = self._args
            path = None if args.pid is not None else image or args.exe
            try:
                self._data[image] = DataSymbols(path, args.debug_file, args.debug_root)
            except IcfError as error:
                say(f"icf: error: {error}")
                self._data[image] = DataSymbols(None, problem=str(error))
        return self._data[image]

    def _open(self, request: Request) -> Symbolizer | LiveSymbolizer:
        args = self._args
        if args.pid is not None:
            if args.debug_file is not None:
                raise IcfError("--debug-file is about one image", hint="with --pid, name folders with --debug-root")
            from unwind.target.live_symbolizer import open_process

            return open_process(
                args.pid, debug_roots=args.debug_root, cache_dir=args.cache_dir, shared_caches=args.shared_cache
            )
        if build_id := request.build_id or args.build_id:
            return Symbolizer.of_build(build_id, cache_dir=args.cache_dir)
        return Symbolizer.open(
            request.image or args.exe,
            debug_file=args.debug_file,
            debug_roots=args.debug_root,
            cache_dir=args.cache_dir,
            shared_caches=args.shared_cache,
            lazy=args.lazy,
        )


class _Asker:
    """Turns lines into answers."""

    def __init__(self, args: Namespace, images: _Images, options: Options) -> None:
        self.writer = _writer(options)
        self._images = images
        self._exe: str | None = args.exe or args.build_id or None if args.pid is None else f"process {args.pid}"
        self._is_gnu = args.style == "gnu"
        self._options = options
        self._shift = args.adjust_vma + args.return_addresses  # a return address lies after its call
        if args.section is not None:
            self._shift -= _section_start(args.exe, args.section)

    def answers(self, lines: Sequence[str]) -> Iterator[str]:
        """Yield the answers to lines, in order; where there are many, several in a text."""
        if self._exe and (asked := read_addresses(lines, self._is_gnu)) is not None:
            symbolizer = self._images.of(Request())
            if symbolizer is not None:
                yield from self._of_addresses(symbolizer, asked, self._exe)
                return
        requests = [self._read(line) for line in lines]
        for (image, build_id, is_data), group in groupby(requests, _of_what):
            together = list(group)
            if is_data:
                yield from self._of_data([request.address or 0 for request in together], image)
                continue
            symbolizer = self._images.of(together[0]) if self._exe or image or build_id else None
            if self._is_gnu and symbolizer is not None and any(map(_symbol, together)):
                together = [self._placed(symbolizer, request) for request in together]
            yield from self._of_image(symbolizer, together, image or build_id or self._exe or "")

    def _read(self, line: str) -> Request:
        request = read_hexadecimal(line) if self._is_gnu else read_request(line, self._exe is not None)
        if request.problem:
            say(f"icf: error: {request.problem}")
        return request

    def _placed(self, symbolizer: Symbolizer | LiveSymbolizer, request: Request) -> Request:
        """Return the address where a function begins, as addr2line has it, if one was asked for."""
        if not request.symbol:
            return request
        places = symbolizer.addresses(request.symbol)
        return Request(address=places[0] + request.offset + self._shift & _U64 if places else 0)

    def _of_data(self, asked: list[int], image: str) -> Iterator[str]:
        from unwind.symbolize.data import write_datum

        symbols = self._images.data_of(image)
        for address in asked:
            found = symbols.find(address - self._shift & _U64)
            yield write_datum(found, address, image or self._exe or "", self._options, symbols.problem)

    def _of_image(
        self, symbolizer: Symbolizer | LiveSymbolizer | None, requests: list[Request], image: str
    ) -> Iterator[str]:
        writer = self.writer
        if symbolizer is None:
            for request in requests:
                problem = self._images.problems.get((request.image, request.build_id), "")
                yield writer.refused(request, image, problem) if problem else writer.failed(image)
            return
        for is_address, group in groupby(requests, lambda request: request.address is not None):
            if is_address:
                yield from self._of_addresses(symbolizer, [request.address or 0 for request in group], image)
                continue
            for request in group:
                if request.symbol:
                    yield writer.function(_functions(symbolizer, request.symbol, request.offset), request.symbol, image)
                else:
                    yield writer.failed(image)

    def _of_addresses(self, symbolizer: Symbolizer | LiveSymbolizer, asked: list[int], image: str) -> Iterator[str]:
        vaddrs = [address - self._shift & _U64 for address in asked]
        if isinstance(symbolizer, Symbolizer):
            return self.writer.addresses(symbolizer, vaddrs, asked, image)
        frames = symbolizer.symbolize_many(vaddrs)
        return (self.writer.address(frame, at, frame.module) for frame, at in zip(frames, asked, strict=True))


def _functions(symbolizer: Symbolizer | LiveSymbolizer, symbol: str, offset: int) -> list[Answer]:
    """Return the answers at an offset from the begin of each function of a name: in that function, wherever it was
    folded.
    """
    places = []
    for vaddr in symbolizer.addresses(symbol):
        found = symbolizer.symbolize(vaddr + offset & _U64)
        own = next((each.frames for each in found.candidates if each.linkage_name == symbol), found.frames)
        if own:
            own = (own[-1]._replace(file=own[0].file, line=own[0].line, column=own[0].column),)
        is_complete = found.is_complete
        places.append(Answer(found.address, vaddr=found.vaddr, start=found.start, frames=own, is_complete=is_complete))
    return places
