"""`icf resolve`: which function each frame of each stack really is.

Stacks are read, resolved and written one after the other, so that a pipe of any length needs no memory of its
length. Output is written in large pieces, but never held back while the input has nothing more: a program that
sends one stack through a pipe and waits for the answer gets it. What the resolver remembers
is a few large dictionaries: the garbage collector, which would walk them over and over and finds nothing, is
asked to come rarely, which makes all of it a third faster.
"""

from __future__ import annotations

import argparse
import gc
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

from icf.debugfiles.options import add_debug_arguments, open_image
from icf.elf.image import Image
from unwind.answer import FrameAnswer
from unwind.load import has_only_records, has_tables
from unwind.program import Program
from unwind.read_pcs import LINE_LIMIT, read_pcs
from unwind.resolver import Answers, Resolver
from unwind.stack import Stack
from unwind.write_json import JsonWriter
from unwind.write_text import TextWriter

_WRITTEN_TOGETHER = 512  # stacks
_ALLOCATIONS_BETWEEN_COLLECTIONS = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-e", "--exe", metavar="IMAGE", required=True, help="the linked image the stacks come from")
    add_debug_arguments(parser)
    parser.add_argument(
        "--format",
        choices=["pcs"],
        default="pcs",
        help="of the stacks; pcs: one a line, innermost first, link-time addresses in hexadecimal, `?` for a frame "
        "outside of the image, xN at the end for a weight",
    )
    parser.add_argument("--out", choices=["text", "json"], default="text", help="json: one object a line")
    parser.add_argument("--no-lines", action="store_true", help="do not look up files and lines, which is slower")
    parser.add_argument(
        "stacks", metavar="STACKS", nargs="?", default="-", help="file of stacks, `-` for standard input"
    )


def run(args: argparse.Namespace) -> int:
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    with open_image(args.exe, args.debug_file, args.debug_root, needs_code=True) as image:
        if has_only_records(image):
            print(
                f"icf: {args.exe} has .debug_dcall alone: functions that share a body are found by symbols and debug"
                f" information\nhint: 'icf pass {args.exe}' knows more",
                file=sys.stderr,
            )
        elif not has_tables(image):
            print(
                f"icf: {args.exe} has no call-site tables, so folded functions cannot be told apart\n"
                f"hint: run 'icf pass {args.exe}'",
                file=sys.stderr,
            )
        program = Program.from_image(image)
        if program.dropped_records:
            print(f"icf: {args.exe}: {program.dropped_records} records do not fit its code, left out", file=sys.stderr)
        resolver = Resolver(program)
        write = _writer(args.out, _placer(image, args.no_lines))
        with _opened(args.stacks) as lines:
            progress = _Progress(lines)
            more_waits = _more_waits(lines)
            written: list[str] = []
            try:
                for stack in read_pcs(iter(partial(lines.readline, LINE_LIMIT), b""), args.stacks):
                    written.append(write(stack, resolver.resolve(stack.addresses, stack.vptrs)))
                    if len(written) < _WRITTEN_TOGETHER and more_waits():
                        continue
                    sys.stdout.write("".join(written))
                    progress.step(len(written))
                    written.clear()
                    if not more_waits():
                        sys.stdout.flush()
            finally:  # a bad line does not take back the answers above it
                sys.stdout.write("".join(written))
                progress.done()
    return 0


def _placer(image: Image, no_lines: bool) -> Callable[[FrameAnswer], tuple[str, int] | None]:
    if no_lines:
        return lambda answer: None
    from unwind.lines import Lines

    return Lines(image).place


def _writer(out: str, place: Callable[[FrameAnswer], tuple[str, int] | None]) -> Callable[[Stack, Answers], str]:
    return JsonWriter(place).line if out == "json" else TextWriter(place).block


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    with open(path, "rb") as file:
        yield file


def _more_waits(lines: BinaryIO) -> Callable[[], bool]:
    """Whether reading on would give something at once; a file always does."""
    if lines.seekable():
        return lambda: True
    fd = lines.fileno()
    return lambda: bool(select.select([fd], [], [], 0)[0])


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
