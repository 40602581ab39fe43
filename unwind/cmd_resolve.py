"""`icf resolve`: which function each frame of each stack really is.

Stacks are read, resolved and written some thousands at a time, so that a pipe of any length needs no memory of its
length, and what is inlined in a function is looked up once for all that call in it. But no stack waits while the
input has nothing more: a program that sends one through a pipe and waits for the answer gets it. What the resolver
remembers is a few large dictionaries: the garbage collector, which would walk them over and over and finds nothing, is
asked to come rarely, which makes all of it a third faster.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from icf.debugfiles.options import add_debug_arguments
from icf.errors import IcfError
from icf.model import Verdict
from icf.printable import say
from unwind.options import add_cache_options
from unwind.readers.pcs import read_pcs
from unwind.readers.source import Source
from unwind.resolve.answer import Facts
from unwind.resolve.bases import warn_of_bases
from unwind.resolve.resolver import Answers, Resolver
from unwind.samples.stack import Stack
from unwind.symbolize.answer import read_frames
from unwind.target.opening import open_alone, open_modules, open_process
from unwind.target.search import SearchPaths
from unwind.writers.json_lines import JsonWriter
from unwind.writers.text import TextWriter

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from unwind.second_reader.resolver import SecondResolver
    from unwind.target.live_resolver import LiveResolver

_Resolved = tuple[Stack, Answers, Facts | None]
_Write = Callable[[Stack, Answers, Facts | None], str]
_TOGETHER, _WRITTEN_TOGETHER = 4096, 512  # stacks
_ALLOCATIONS_BETWEEN_COLLECTIONS = 1 << 20
_OF_IMAGE = "-e takes addresses as linked, which offsets in the file are not (`perf script` up to 6.3 prints those)"
_OF_MODULES = "give the text of /proc/PID/maps, or path, start, end and offset of the mapping that holds the code"


def add_arguments(parser: ArgumentParser) -> None:
    images = parser.add_mutually_exclusive_group(required=True)
    images.add_argument("-e", "--exe", metavar="IMAGE", help="the linked image the stacks come from")
    images.add_argument(
        "--modules",
        metavar="FILE",
        help="the images of the process and where they were loaded: the text of /proc/PID/maps, or a JSON list of"
        " objects with path, build_id and load_address (or bias, or start, end and offset of a mapping); addresses in"
        " stacks are run-time ones",
    )
    images.add_argument(
        "--pid", metavar="PID", type=int, help="a running process; addresses in stacks are run-time ones"
    )
    parser.add_argument(
        "--module-root",
        metavar="DIR",
        action="append",
        default=[],
        help="another directory to search for modules, by build id and by path; may be repeated",
    )
    add_debug_arguments(parser)
    add_cache_options(parser)
    parser.add_argument(
        "--format",
        choices=["pcs"],
        default="pcs",
        help="of the stacks; pcs: one a line, innermost first, addresses in hexadecimal (link-time ones with -e): a "
        "program counter, then return addresses, raw or less one; `!` after one that is a program counter, too, as "
        "a signal interrupted the function; `?` for a frame outside of the image, xN at the end for a weight",
    )
    parser.add_argument("--out", choices=["text", "json"], default="text", help="json: one object a line")
    parser.add_argument("--explain", action="store_true", help="explain the answer of each frame")
    parser.add_argument(
        "--second-reader",
        action="store_true",
        help="answer with the second resolver: plain recursion over the call graph, slow, to compare with the first",
    )
    parser.add_argument(
        "--no-vptr", action="store_true", help="ignore the vtable pointers of objects (@vptr= in stacks)"
    )
    parser.add_argument("--no-lines", action="store_true", help="do not look up files, lines and inlined functions")
    parser.add_argument(
        "stacks", metavar="STACKS", nargs="?", default="-", help="file of stacks, `-` for standard input"
    )


def run(args: Namespace) -> int:
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    if args.second_reader and args.explain:
        raise IcfError("--explain explains the answers of the first resolver", hint="leave out --second-reader")
    with _open(args) as first:
        resolver = _second(first) if args.second_reader else first
        write = _writer(args)
        facts = _explainer(first) if args.explain else lambda stack, answers: None
        with Source.open(args.stacks) as source:
            progress = _Progress(source.stream)
            seen_count, is_any_known = 0, False
            more_waits = _more_waits(source.stream)
            resolved: list[_Resolved] = []
            try:
                for stack in read_pcs(source.lines(), source.path):
                    if args.no_vptr and stack.vptrs:
                        stack = replace(stack, vptrs=())
                    answers = resolver.resolve(stack.addresses, stack.vptrs, stack.exact)
                    resolved.append((stack, answers, facts(stack, answers)))
                    seen_count += 1
                    is_any_known = is_any_known or any(answer.verdict is not Verdict.UNKNOWN for answer in answers)
                    if len(resolved) < _TOGETHER and more_waits():
                        continue
                    _write(resolved, write, progress, with_lines=not args.no_lines)
                    if not more_waits():
                        sys.stdout.flush()
            finally:  # a bad line does not drop the answers above it
                _write(resolved, write, progress, with_lines=not args.no_lines)
                progress.done()
        if args.pid is None:
            hint = _OF_MODULES if args.exe is None else _OF_IMAGE
            warn_of_bases(resolver.places, args.exe or "", hint)
    if seen_count and not is_any_known:
        say("icf: every frame of every stack is unknown")
        return 1
    return 0


def _write(resolved: list[_Resolved], write: _Write, progress: _Progress, *, with_lines: bool) -> None:
    """Write the answers, and drop them."""
    if with_lines:
        read_frames(answers for _, answers, _ in resolved)
    while resolved:
        part = resolved[:_WRITTEN_TOGETHER]
        del resolved[:_WRITTEN_TOGETHER]
        sys.stdout.write("".join([write(*each) for each in part]))
        progress.step(len(part))


def _open(args: Namespace) -> AbstractContextManager[Resolver | LiveResolver]:
    search = SearchPaths(args.debug_file, args.debug_root, args.cache_dir, args.shared_cache)
    if args.exe is None and args.debug_file is not None:
        raise IcfError("--debug-file is about one image", hint="without -e, name folders with --debug-root")
    if args.pid is not None:
        return open_process(args.pid, search)
    if args.modules is not None:
        return open_modules(args.modules, args.module_root, search)
    return open_alone(args.exe, search)


def _second(first: Resolver | LiveResolver) -> SecondResolver:
    from unwind.second_reader.resolver import SecondResolver  # imports networkx

    return SecondResolver(first.process)


def _explainer(resolver: Resolver | LiveResolver) -> Callable[[Stack, Answers], Facts | None]:
    from unwind.resolve.explain import explain

    return partial(explain, resolver)


def _writer(args: Namespace) -> _Write:
    if args.out == "json":
        return JsonWriter(with_modules=args.exe is None, with_lines=not args.no_lines).line
    return TextWriter(with_lines=not args.no_lines).block


def _more_waits(lines: BinaryIO) -> Callable[[], bool]:
    """Return a function that returns whether more can be read at once; for a file it always can."""
    if lines.seekable():
        return lambda: True
    fd = lines.fileno()
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return lambda: bool(waiting.poll(0))


class _Progress:
    """A line on the terminal, if there is one, after the first second of work."""

    def __init__(self, lines: BinaryIO) -> None:
        # answers that scroll by on the same terminal are progress enough
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._lines = lines
        self._size_bytes = os.fstat(lines.fileno()).st_size if self._shown and lines.seekable() else 0
        self._next = time.monotonic() + 1
        self._count = 0
        self._drawn = False

    def step(self, count: int) -> None:
        self._count += count
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.2
        part = f"{100 * self._lines.tell() // self._size_bytes:3d} %  " if self._size_bytes else ""
        sys.stderr.write(f"\r{part}{self._count:,} stacks")
        sys.stderr.flush()
        self._drawn = True

    def done(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
